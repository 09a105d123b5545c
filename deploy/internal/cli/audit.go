package cli

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"lycosa.dev/deploy/allinone"
	"lycosa.dev/deploy/internal/progress"
	"lycosa.dev/scheduler"
)

// auditCmd recomputes invariants.
type auditCmd struct {
	Dir  string `arg:"" optional:"" default:"crawl" help:"Folder of the crawl (default ./crawl)."`
	JSON bool   `name:"json" help:"Answer as one JSON object."`
}

// Help is shown below the flags.
func (*auditCmd) Help() string {
	return `Exit code 0: all invariants hold; 1: some do not, each is named. Nobody may run
the crawl meanwhile. Besides the frontier, the records that done URLs name are
looked for in warc/ and pages/.`
}

// auditJSON is the answer as JSON.
type auditJSON struct {
	OK          bool             `json:"ok"`
	Records     uint64           `json:"records"`
	Quarantined uint64           `json:"quarantined"`
	Jobs        []auditJob       `json:"jobs"`
	Violations  []auditViolation `json:"violations"`
}

type auditJob struct {
	Job      string `json:"job"`
	State    string `json:"state"`
	Reason   string `json:"reason,omitempty"`
	Known    uint64 `json:"known"`
	Queued   uint64 `json:"queued"`
	Leased   uint64 `json:"leased"`
	Done     uint64 `json:"done"`
	Excluded uint64 `json:"excluded"`
	Failed   uint64 `json:"failed"`
	Pending  uint64 `json:"pending"`
	Stored   uint64 `json:"stored_records"`
}

type auditViolation struct {
	Rule   string `json:"rule"`
	Job    string `json:"job,omitempty"`
	Detail string `json:"detail"`
}

// Run implements the command.
func (c *auditCmd) Run(a *App) error {
	layout := allinone.Layout(c.Dir)
	if !exists(layout.Frontier()) {
		return usage("%s holds no crawl: there is no %s", c.Dir, layout.Frontier())
	}
	rep, err := scheduler.Audit(layout.Frontier())
	if err != nil {
		return err
	}
	out := auditJSON{Records: rep.Records, Quarantined: rep.Quarantined, Jobs: []auditJob{}, Violations: []auditViolation{}}
	for _, v := range rep.Violations {
		out.Violations = append(out.Violations, auditViolation{v.Rule, v.Job, v.Detail})
	}
	for _, st := range rep.Jobs {
		n := rep.Recomputed[st.GetJobId()]
		out.Jobs = append(out.Jobs, auditJob{
			Job: st.GetJobId(), State: progress.StateName(st.GetState()), Reason: st.GetReason(),
			Known: n.GetKnown(), Queued: n.GetQueued(), Leased: n.GetLeased(), Done: n.GetDone(),
			Excluded: n.GetExcluded(), Failed: n.GetFailed(), Pending: n.GetPending(),
		})
	}
	if err := c.auditStores(a, layout, &out); err != nil {
		return err
	}
	out.OK = len(out.Violations) == 0
	if c.JSON {
		b, err := json.Marshal(out)
		if err != nil {
			return err
		}
		fmt.Fprintf(a.Stdout, "%s\n", b)
	} else {
		out.write(a)
	}
	if !out.OK {
		return silent(ExitFailure)
	}
	return nil
}

func (o *auditJSON) write(a *App) {
	for _, j := range o.Jobs {
		fmt.Fprintf(a.Stdout, "%s (%s): %d known = %d queued + %d leased + %d done + %d excluded + %d failed; %d pending; %d records stored\n",
			j.Job, j.State, j.Known, j.Queued, j.Leased, j.Done, j.Excluded, j.Failed, j.Pending, j.Stored)
	}
	for _, v := range o.Violations {
		where := v.Rule
		if v.Job != "" {
			where = v.Job + ": " + v.Rule
		}
		fmt.Fprintf(a.Stdout, "%s: %s\n", where, progress.Sanitise(v.Detail))
	}
	if o.Quarantined > 0 {
		fmt.Fprintf(a.Stdout, "%d damaged records were set aside before\n", o.Quarantined)
	}
	verdict := "all invariants hold"
	if !o.OK {
		verdict = fmt.Sprintf("%d violations", len(o.Violations))
	}
	fmt.Fprintf(a.Stdout, "%d records read: %s\n", o.Records, verdict)
}

// maxStoreProblems is how many missing records are listed for a job.
const maxStoreProblems = 20

// auditStores looks for the records that done URLs name: each must lie whole
// within its file. Each file is looked at once.
func (c *auditCmd) auditStores(a *App, layout allinone.Layout, out *auditJSON) error {
	o, err := a.openOffline(layout.Frontier())
	if err != nil {
		if len(out.Violations) > 0 {
			return nil // what is damaged is named already
		}
		return err
	}
	defer o.Close()
	sizes := map[string]int64{} // WARC files; -1: not there
	for i := range out.Jobs {
		j := &out.Jobs[i]
		bad := 0
		err := o.EachURL(a.ctx, j.Job, func(u *scheduler.URLInfo) error {
			for _, s := range u.Outcome.GetStored() {
				j.Stored++
				problem := ""
				switch s.GetStore() {
				case "warc":
					size := warcSize(layout, s.GetFile(), sizes)
					if size < 0 {
						problem = "there is no such file"
					} else if s.GetOffset()+s.GetLength() > size {
						problem = fmt.Sprintf("the file ends at %d", size)
					}
				case "files":
					if _, err := os.Stat(filepath.Join(layout.Pages(), filepath.FromSlash(s.GetFile()))); err != nil {
						problem = "there is no such file"
					}
				}
				if problem == "" {
					continue
				}
				if bad++; bad <= maxStoreProblems {
					out.Violations = append(out.Violations, auditViolation{"stored-before-done", j.Job,
						fmt.Sprintf("%s: %s %s at %d, %d bytes: %s", u.URL, s.GetStore(), s.GetFile(), s.GetOffset(), s.GetLength(), problem)})
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
		if bad > maxStoreProblems {
			out.Violations = append(out.Violations, auditViolation{"stored-before-done", j.Job, fmt.Sprintf("and %d more", bad-maxStoreProblems)})
		}
	}
	return nil
}

// warcSize is the size of a WARC file, which while it is written has .open after
// its name.
func warcSize(layout allinone.Layout, name string, sizes map[string]int64) int64 {
	if size, ok := sizes[name]; ok {
		return size
	}
	size := int64(-1)
	path := filepath.Join(layout.WARC(), filepath.FromSlash(name))
	for _, p := range []string{path, path + ".open"} {
		if info, err := os.Stat(p); err == nil {
			size = info.Size()
			break
		}
	}
	sizes[name] = size
	return size
}
