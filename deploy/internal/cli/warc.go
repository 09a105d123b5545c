package cli

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"lycosa.dev/deploy/internal/progress"
	"lycosa.dev/internal/warc"
)

// warcCmd are the commands about WARC files.
type warcCmd struct {
	Verify warcVerifyCmd `cmd:"" help:"Check every record of WARC files: form, lengths, digests."`
}

type warcVerifyCmd struct {
	File  []string `arg:"" help:"WARC files, plain or gzipped."`
	Quiet bool     `help:"Name only files with problems."`
}

// Help is shown below the flags.
func (*warcVerifyCmd) Help() string {
	return `Exit code 0: no errors; 1: a file has errors or cannot be read.

Example:
  lycosa warc verify crawl/warc/*.warc.gz`
}

// Run implements the command.
func (c *warcVerifyCmd) Run(a *App) error {
	failed := false
	for _, name := range c.File {
		rep, err := warc.Verify(a.ctx, name)
		if err != nil {
			if a.ctx.Err() != nil {
				return silent(ExitInterrupted)
			}
			fmt.Fprintf(a.Stderr, "lycosa: %v\n", err)
			failed = true
			continue
		}
		for _, p := range rep.Problems {
			fmt.Fprintf(a.Stdout, "%s: %s\n", name, progress.Sanitise(p.String()))
		}
		if !rep.OK() {
			failed = true
		}
		if c.Quiet && rep.OK() {
			continue
		}
		var kinds []string
		for _, k := range slices.Sorted(maps.Keys(rep.Records)) {
			kinds = append(kinds, fmt.Sprintf("%d %s", rep.Records[k], k))
		}
		verdict := "ok"
		if !rep.OK() || rep.Warnings > 0 {
			verdict = fmt.Sprintf("%d errors, %d warnings", rep.Errors, rep.Warnings)
		}
		fmt.Fprintf(a.Stdout, "%s: %s: %s, %d records (%s), %d digests right\n", name, verdict,
			progress.Bytes(float64(rep.Bytes)), rep.Total(), strings.Join(kinds, ", "), rep.Digests)
	}
	if failed {
		return silent(ExitFailure)
	}
	return nil
}
