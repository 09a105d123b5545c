package cli

import (
	"fmt"
	"sort"
	"strings"

	"github.com/alecthomas/kong"
)

// completionCmd prints a shell's completion script.
type completionCmd struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"bash, zsh or fish."`
}

// Help is shown below the flags.
func (*completionCmd) Help() string {
	return `Examples:
  source <(lycosa completion bash)
  lycosa completion fish > ~/.config/fish/completions/lycosa.fish`
}

// words are what may follow a command: its sub-commands and its flags.
type words struct {
	command string // "job list"; "" is lycosa itself
	list    []string
}

// wordsOf walks the grammar.
func wordsOf(node *kong.Node, path string) []words {
	w := words{command: path}
	for _, f := range node.Flags {
		if !f.Hidden {
			w.list = append(w.list, "--"+f.Name)
		}
	}
	all := []words{}
	for _, child := range node.Children {
		if child.Hidden {
			continue
		}
		w.list = append(w.list, child.Name)
		all = append(all, wordsOf(child, strings.TrimSpace(path+" "+child.Name))...)
	}
	sort.Strings(w.list)
	return append([]words{w}, all...)
}

// Run implements the command.
func (c *completionCmd) Run(a *App) error {
	parser, err := a.newParser(&grammar{}, func(int) {})
	if err != nil {
		return err
	}
	all := wordsOf(parser.Model.Node, "")
	switch c.Shell {
	case "fish":
		return a.fish(all)
	case "zsh":
		if _, err := fmt.Fprint(a.Stdout, "autoload -U +X bashcompinit && bashcompinit\n"); err != nil {
			return err
		}
	}
	return a.bash(all)
}

// bash writes a function that finds the longest command on the line and offers
// its words, and files besides.
func (a *App) bash(all []words) error {
	var b strings.Builder
	b.WriteString("_lycosa() {\n  local cur=${COMP_WORDS[COMP_CWORD]} cmd='' w\n")
	b.WriteString("  for w in \"${COMP_WORDS[@]:1:COMP_CWORD-1}\"; do\n    case \"$cmd $w\" in\n")
	var names []string
	for _, w := range all {
		if w.command != "" {
			parent, last := "", w.command
			if i := strings.LastIndexByte(w.command, ' '); i >= 0 {
				parent, last = w.command[:i], w.command[i+1:]
			}
			names = append(names, fmt.Sprintf("'%s %s'", parent, last))
		}
	}
	fmt.Fprintf(&b, "      %s) cmd=\"${cmd:+$cmd }$w\" ;;\n    esac\n  done\n  case \"$cmd\" in\n", strings.Join(names, "|"))
	for _, w := range all {
		fmt.Fprintf(&b, "    '%s') COMPREPLY=($(compgen -W '%s' -- \"$cur\")) ;;\n", w.command, strings.Join(w.list, " "))
	}
	b.WriteString("  esac\n}\ncomplete -o default -F _lycosa lycosa\n")
	_, err := a.Stdout.Write([]byte(b.String()))
	return err
}

func (a *App) fish(all []words) error {
	var b strings.Builder
	for _, w := range all {
		condition := "__fish_use_subcommand"
		if w.command != "" {
			condition = "__fish_seen_subcommand_from " + strings.ReplaceAll(w.command, " ", "; and __fish_seen_subcommand_from ")
		}
		for _, word := range w.list {
			if name, ok := strings.CutPrefix(word, "--"); ok {
				fmt.Fprintf(&b, "complete -c lycosa -n '%s' -l %s\n", condition, name)
			} else {
				fmt.Fprintf(&b, "complete -c lycosa -f -n '%s' -a %s\n", condition, word)
			}
		}
	}
	_, err := a.Stdout.Write([]byte(b.String()))
	return err
}
