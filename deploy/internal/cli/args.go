package cli

import (
	"strings"

	"github.com/alecthomas/kong"
)

// positionalsLast moves the arguments that are no flags behind the flags, for
// the parser takes a list of arguments only in one piece: `crawl URL --dir D
// URL` is as good as `crawl --dir D URL URL`.
func positionalsLast(root *kong.Node, args []string) []string {
	node, n := root, 0
	for n < len(args) {
		child := childOf(node, args[n])
		if child == nil {
			break
		}
		node = child
		n++
	}
	if len(node.Children) > 0 || len(node.Positional) == 0 {
		return args
	}
	out := append([]string{}, args[:n]...)
	var positionals []string
	for rest := args[n:]; len(rest) > 0; {
		arg := rest[0]
		rest = rest[1:]
		switch {
		case arg == "--":
			positionals = append(positionals, rest...)
			rest = nil
		case len(arg) < 2 || arg[0] != '-':
			positionals = append(positionals, arg)
		default:
			out = append(out, arg)
			if takesValue(node, arg) && len(rest) > 0 {
				out = append(out, rest[0])
				rest = rest[1:]
			}
		}
	}
	for _, p := range positionals {
		if strings.HasPrefix(p, "-") && p != "-" {
			out = append(out, "--")
			break
		}
	}
	return append(out, positionals...)
}

func childOf(node *kong.Node, name string) *kong.Node {
	for _, c := range node.Children {
		if c.Name == name {
			return c
		}
	}
	return nil
}

// takesValue says whether a flag is followed by its value.
func takesValue(node *kong.Node, arg string) bool {
	name, isLong := strings.CutPrefix(arg, "--")
	if !isLong || strings.Contains(name, "=") {
		return false
	}
	for _, group := range node.AllFlags(false) {
		for _, f := range group {
			if f.Name == name {
				return !f.IsBool() && !f.IsCounter()
			}
		}
	}
	return false
}
