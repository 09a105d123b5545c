// Package cli is the command lycosa: its flags, what they mean, and what is
// said to the user. The work is done elsewhere: package allinone runs the
// services, progress shows, report counts.
package cli

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"

	"github.com/alecthomas/kong"
	"golang.org/x/term"

	"lycosa.dev/deploy/allinone"
	"lycosa.dev/deploy/internal/report"
	gatewayv1 "lycosa.dev/proto/gen/lycosa/gateway/v1"
	schedulerv1 "lycosa.dev/proto/gen/lycosa/scheduler/v1"
	"lycosa.dev/scheduler"
)

// ring is the running services, as a crawl uses them.
type ring interface {
	report.URLs
	Run(ctx context.Context) error
	Admin() gatewayv1.AdminServiceClient
	Close() error
}

// offline is a frontier that nobody runs.
type offline interface {
	report.URLs
	Jobs(ctx context.Context) ([]*schedulerv1.JobStatus, error)
	Explain(ctx context.Context, jobID, url string) (*schedulerv1.ExplainResponse, error)
	Queues(ctx context.Context, req *schedulerv1.ListQueuesRequest) (*schedulerv1.ListQueuesResponse, error)
	WhyQueue(ctx context.Context, jobID, hostKey string) (*schedulerv1.ShowQueueResponse, error)
	WhyJob(ctx context.Context, jobID string) (*schedulerv1.ExplainJobResponse, error)
	Close() error
}

// App is what a command has of the world. System returns the real one.
type App struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	Getenv         func(string) string
	// Report asks a running crawl to write its reports now; nil: never.
	Report <-chan os.Signal
	// Terminal says whether Stderr is one, and Width how wide it is.
	Terminal bool
	Width    func() int

	open        func(ctx context.Context, cfg allinone.Config) (ring, error)
	openOffline func(dir string) (offline, error)
	ctx         context.Context // of the command that runs
}

// System is the process's own world.
func System() *App {
	fd := int(os.Stderr.Fd())
	return &App{
		Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Getenv: os.Getenv,
		Terminal: term.IsTerminal(fd) && os.Getenv("TERM") != "dumb",
		Width: func() int {
			if w, _, err := term.GetSize(fd); err == nil && w > 0 {
				return w
			}
			return 80
		},
		open:        openProcess,
		openOffline: openFolder,
	}
}

func openProcess(ctx context.Context, cfg allinone.Config) (ring, error) {
	p, err := allinone.New(ctx, cfg)
	if err != nil {
		return nil, err // a nil *Process must not become a ring that is not nil
	}
	return p, nil
}

func openFolder(dir string) (offline, error) {
	o, err := scheduler.OpenOffline(dir)
	if err != nil {
		return nil, err
	}
	return o, nil
}

// grammar is the whole command line.
type grammar struct {
	Crawl      crawlCmd      `cmd:"" help:"Crawl from seeds, in one process; run it again to go on."`
	Up         upCmd         `cmd:"" help:"Run all services in one process, the gateway open on loopback."`
	Job        jobCmd        `cmd:"" help:"Jobs: list, show, create, watch, start, pause, resume, stop, delete, set, exclude, overlay, why, report."`
	Seed       seedCmd       `cmd:"" help:"Seeds of a job: add."`
	Queue      queueCmd      `cmd:"" help:"Queues of a job: list, show, why, block, retire, release, delete."`
	Instance   instanceCmd   `cmd:"" help:"Services that have joined: list, wait."`
	Why        whyCmd        `cmd:"" help:"What happened to a URL, and what will."`
	Audit      auditCmd      `cmd:"" help:"Recompute a crawl's invariants, at rest or while it runs."`
	Checkpoint checkpointCmd `cmd:"" help:"Make a snapshot of a crawl's state, also while it runs."`
	Warc       warcCmd       `cmd:"" help:"WARC files: verify."`
	Fetch      fetchCmd      `cmd:"" help:"Fetch one URL and say all about it: status, timings, address, TLS, headers, charset."`
	Robots     robotsCmd     `cmd:"" help:"Which line of a robots.txt decides for a path."`
	Doctor     doctorCmd     `cmd:"" help:"What this machine lacks for crawling."`
	Version    versionCmd    `cmd:"" help:"Print the version."`
	Completion completionCmd `cmd:"" help:"Print a shell's completion script."`
}

const description = `Lycosa crawls the web: completely, politely, and on after being killed.

Exit codes: 0 finished, 1 internal failure (or: something was found), 2 bad
usage, 3 no seed could be fetched, 4 storage full or unwritable, 130
interrupted with the state saved.`

// newParser builds the parser of a grammar.
func (a *App) newParser(g *grammar, exit func(int)) (*kong.Kong, error) {
	return kong.New(g,
		kong.Name("lycosa"),
		kong.Description(description),
		kong.Writers(a.Stdout, a.Stderr),
		kong.Exit(exit),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, NoExpandSubcommands: true, WrapUpperBound: 100}),
		kong.Bind(a),
	)
}

// Run runs a command line without the program's name. The error knows its exit
// code (rpc.ExitCode); one with an empty text has said what was to be said.
func (a *App) Run(ctx context.Context, args []string) error {
	var g grammar
	done := false
	parser, err := a.newParser(&g, func(int) { done = true })
	if err != nil {
		return err
	}
	if len(args) == 0 {
		args = []string{"--help"}
	}
	command, err := parser.Parse(positionalsLast(parser.Model.Node, args))
	if done { // help was shown
		return nil
	}
	if err != nil {
		where := "lycosa"
		if pe, ok := errors.AsType[*kong.ParseError](err); ok && pe.Context != nil {
			if name := pe.Context.Command(); name != "" {
				where += " " + strings.Split(name, " <")[0]
			}
		}
		return usage("%w (see %s --help)", err, where)
	}
	a.ctx = ctx
	return classify(command.Run())
}
