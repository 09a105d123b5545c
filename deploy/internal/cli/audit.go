package cli

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"lycosa.dev/deploy/allinone"
	"lycosa.dev/deploy/internal/progress"
	gatewayv1 "lycosa.dev/proto/gen/lycosa/gateway/v1"
	schedulerv1 "lycosa.dev/proto/gen/lycosa/scheduler/v1"
	"lycosa.dev/scheduler"
)

// auditCmd recomputes invariants.
type auditCmd struct {
	Dir     string `arg:"" optional:"" default:"crawl" help:"Folder of the crawl (default ./crawl)."`
	Address string `placeholder:"HOST:PORT" help:"Audit what the gateway at this address runs."`
	Stores  bool   `default:"true" negatable:"" help:"Look for the stored pages as well: --no-stores for a snapshot, which has none."`
	JSON    bool   `name:"json" help:"Answer as one JSON object."`
}

// Help is shown below the flags.
func (*auditCmd) Help() string {
	return `Exit code 0: all invariants hold; 1: some do not, each is named. A crawl
that runs is audited as of one instant, and goes on meanwhile. Of one that does
not run, the records that done URLs name are looked for in warc/ and pages/ as
well; a snapshot of lycosa checkpoint has no pages: --no-stores.`
}

// auditJSON is the answer as JSON.
type auditJSON struct {
	OK          bool             `json:"ok"`
	Live        bool             `json:"live"` // as of one instant of a crawl that runs; stores were not looked at
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

func auditJobOf(st *schedulerv1.JobStatus, n *schedulerv1.Counters) auditJob {
	return auditJob{
		Job: st.GetJobId(), State: progress.StateName(st.GetState()), Reason: st.GetReason(),
		Known: n.GetKnown(), Queued: n.GetQueued(), Leased: n.GetLeased(), Done: n.GetDone(),
		Excluded: n.GetExcluded(), Failed: n.GetFailed(), Pending: n.GetPending(),
	}
}

type auditViolation struct {
	Rule   string `json:"rule"`
	Job    string `json:"job,omitempty"`
	Detail string `json:"detail"`
}

// Run implements the command.
func (c *auditCmd) Run(a *App) error {
	layout := allinone.Layout(c.Dir)
	if socket := allinone.SocketPath(layout); c.Address != "" || socket != "" && answers("unix", socket) {
		where := &adminFlags{Dir: c.Dir}
		if c.Address != "" {
			where = &adminFlags{Address: c.Address}
		}
		return c.live(a, where)
	}
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
		out.Jobs = append(out.Jobs, auditJobOf(st, rep.Recomputed[st.GetJobId()]))
	}
	if err := c.auditStores(a, layout, &out); err != nil {
		return err
	}
	return c.answer(a, &out)
}

// live audits a crawl that runs.
func (c *auditCmd) live(a *App, where *adminFlags) error {
	return where.with(a, func(cl *client) error {
		res, err := cl.Audit(a.ctx, &gatewayv1.AuditRequest{})
		if err != nil {
			return err
		}
		rep := res.GetAnswer()
		out := auditJSON{Live: true, Records: rep.GetRecords(), Quarantined: rep.GetQuarantined(), Jobs: []auditJob{}, Violations: []auditViolation{}}
		for _, v := range rep.GetViolations() {
			out.Violations = append(out.Violations, auditViolation{v.GetRule(), v.GetJobId(), v.GetDetail()})
		}
		for _, j := range rep.GetJobs() {
			out.Jobs = append(out.Jobs, auditJobOf(j.GetJob(), j.GetRecomputed()))
		}
		return c.answer(a, &out)
	})
}

// answer writes what was found.
func (c *auditCmd) answer(a *App, out *auditJSON) error {
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
		fmt.Fprintf(a.Stdout, "%s (%s): %d known = %d queued + %d leased + %d done + %d excluded + %d failed; %d pending",
			j.Job, j.State, j.Known, j.Queued, j.Leased, j.Done, j.Excluded, j.Failed, j.Pending)
		if !o.Live {
			fmt.Fprintf(a.Stdout, "; %d records stored", j.Stored)
		}
		fmt.Fprintln(a.Stdout)
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
	if len(out.Jobs) == 0 || !c.Stores {
		return nil
	}
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
	for _, p := range []string{path + ".open", path} { // in the order in which it is renamed: the crawl's other processes may run
		if info, err := os.Stat(p); err == nil {
			size = info.Size()
			break
		}
	}
	sizes[name] = size
	return size
}
