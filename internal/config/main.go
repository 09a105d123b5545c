package config

import (
	"fmt"
	"io"
	"os"
	"strings"

	"lycosa.dev/internal/telemetry/buildinfo"
)

// Exit ends a process after --help, --version or --check-config did what was
// asked. It says nothing.
type Exit struct{ Code int }

// Error is empty: all is said.
func (e *Exit) Error() string { return "" }

// ExitCode is the process's exit code.
func (e *Exit) ExitCode() int { return e.Code }

// Invocation is how a service's binary was called.
type Invocation struct {
	// Service is the service's name, "dnser": its variables begin with
	// LYCOSA_DNSER_.
	Service string
	// Summary is one line of help: what the service does.
	Summary string
	// Args are the arguments without the program's name, Env is the environment
	// in os.Environ's form.
	Args, Env []string
	// Stdout gets help, version and settings.
	Stdout io.Writer
}

// Main reads the settings of the running service from os.Args and os.Environ
// into dst, which holds the defaults. An error has the exit code for rpc.Main:
// 2 for bad settings, 0 when there is nothing left to do.
func Main(service string, dst any) error {
	return Invocation{Service: service, Args: os.Args[1:], Env: os.Environ(), Stdout: os.Stdout}.Load(dst)
}

// EnvPrefix is the prefix of the service's environment variables.
func (inv Invocation) EnvPrefix() string {
	return "LYCOSA_" + strings.ToUpper(strings.ReplaceAll(inv.Service, "-", "_")) + "_"
}

// Load is Main with everything given.
func (inv Invocation) Load(dst any) error {
	flags, err := NewFlags(dst)
	if err != nil {
		return err
	}
	parseErr := flags.Parse(inv.Args)
	switch {
	case flags.Help:
		inv.help(flags)
		return &Exit{}
	case parseErr != nil:
		return parseErr
	case flags.Version:
		fmt.Fprintln(inv.Stdout, buildinfo.VersionLine("lycosa-"+inv.Service))
		return &Exit{}
	case len(flags.Args) > 0:
		return &Error{Problems: []Problem{{Message: fmt.Sprintf("unexpected argument %q: settings are given as --name value (see --help)", flags.Args[0])}}}
	}
	if flags.File == "" {
		for _, kv := range inv.Env {
			if v, ok := strings.CutPrefix(kv, inv.EnvPrefix()+"CONFIG="); ok {
				flags.File = v
			}
		}
	}
	if err := Load(dst, Options{File: flags.File, EnvPrefix: inv.EnvPrefix(), Env: inv.Env, Flags: flags}); err != nil {
		return err
	}
	if flags.CheckConfig {
		if err := Dump(inv.Stdout, dst); err != nil {
			return err
		}
		return &Exit{}
	}
	return nil
}

func (inv Invocation) help(flags *Flags) {
	fmt.Fprintf(inv.Stdout, "lycosa-%s", inv.Service)
	if inv.Summary != "" {
		fmt.Fprintf(inv.Stdout, ": %s", inv.Summary)
	}
	fmt.Fprintf(inv.Stdout, "\n\nA flag wins over the environment, the environment over the file.\n\n")
	flags.WriteHelp(inv.Stdout, inv.EnvPrefix())
}
