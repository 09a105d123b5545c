package report

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	crawlv1 "lycosa.dev/proto/gen/lycosa/crawl/v1"
	schedulerv1 "lycosa.dev/proto/gen/lycosa/scheduler/v1"
	"lycosa.dev/scheduler"
)

// URLs visits every URL of a job: scheduler.Scheduler and scheduler.Offline.
type URLs interface {
	EachURL(ctx context.Context, jobID string, visit func(*scheduler.URLInfo) error) error
}

// other stands for what is beyond a limit.
const other = "(other)"

// maxKinds is how many media types, and how many results, are told apart.
const maxKinds = 2000

// Totals are the sums of a report, what summary.json holds.
type Totals struct {
	Job       string    `json:"job"`
	State     string    `json:"state"`
	Reason    string    `json:"reason,omitempty"`
	Round     uint32    `json:"round"`
	CreatedAt time.Time `json:"created_at,omitzero"`
	StartedAt time.Time `json:"started_at,omitzero"`
	EndedAt   time.Time `json:"ended_at,omitzero"`
	Running   float64   `json:"running_seconds"`
	WrittenAt time.Time `json:"written_at"`

	// Counted from the records of URLs, their last tries.
	URLs         map[string]uint64 `json:"urls"`           // by state
	Pages        uint64            `json:"pages"`          // URLs with an HTTP status
	StatusCodes  map[string]uint64 `json:"status_codes"`   // of these
	Bytes        uint64            `json:"received_bytes"` // of their last fetches
	PayloadBytes uint64            `json:"payload_bytes"`
	Hosts        uint64            `json:"hosts"`
	Seeds        uint64            `json:"seeds"`
	SeedsFetched uint64            `json:"seeds_fetched"` // with an HTTP status

	// FirstSeedProblem says why a seed that was not fetched was not;
	// FirstSeedUnfetched is that seed.
	FirstSeedProblem   string `json:"first_seed_problem,omitempty"`
	FirstSeedUnfetched string `json:"first_seed_unfetched,omitempty"`

	// Counters are the job's own: every try, robots.txt included.
	Counters map[string]uint64 `json:"counters"`
}

// Write visits every URL of a job and writes its reports into dir.
func Write(ctx context.Context, dir string, st *schedulerv1.JobStatus, urls URLs) (*Totals, error) {
	return write(ctx, dir, st, urls, maxHosts)
}

func write(ctx context.Context, dir string, st *schedulerv1.JobStatus, urls URLs, maxHosts int) (_ *Totals, err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("reports: %w", err)
	}
	w := &writer{totals: newTotals(st), hosts: newHosts(dir, maxHosts), types: newKinds(), results: newKinds()}
	defer w.hosts.close()
	if w.seeds, err = createTable(dir, "seeds.csv", "url", "state", "status", "reason", "attempts", "content_type", "redirect_url"); err != nil {
		return nil, err
	}
	defer w.seeds.discard()
	if err := urls.EachURL(ctx, st.GetJobId(), w.visit); err != nil {
		return nil, err
	}
	if err := w.seeds.commit(); err != nil {
		return nil, err
	}
	if err := w.writeHosts(dir); err != nil {
		return nil, err
	}
	if err := w.types.write(dir, "mimetypes.csv", "content_type", "urls", "received_bytes", "payload_bytes"); err != nil {
		return nil, err
	}
	if err := w.results.write(dir, "status.csv", "state", "result", "urls", "received_bytes", "payload_bytes"); err != nil {
		return nil, err
	}
	w.totals.WrittenAt = time.Now().UTC().Truncate(time.Second)
	return w.totals, writeJSON(dir, w.totals)
}

func newTotals(st *schedulerv1.JobStatus) *Totals {
	c := st.GetCounters()
	t := &Totals{
		Job: st.GetJobId(), State: lower(st.GetState().String(), "JOB_STATE_"), Reason: st.GetReason(), Round: st.GetRound(),
		Running: st.GetRunning().AsDuration().Seconds(),
		URLs:    map[string]uint64{}, StatusCodes: map[string]uint64{},
		Counters: map[string]uint64{
			"known": c.GetKnown(), "queued": c.GetQueued(), "leased": c.GetLeased(), "done": c.GetDone(),
			"excluded": c.GetExcluded(), "failed": c.GetFailed(), "pending": c.GetPending(), "pages": c.GetPages(),
			"received_bytes": c.GetReceivedBytes(), "fetches": c.GetFetches(), "robots_fetches": c.GetRobotsFetches(),
			"fetch_errors": c.GetFetchErrors(), "lost_leases": c.GetLostLeases(), "links_found": c.GetLinksFound(),
			"links_out_of_scope": c.GetLinksOutOfScope(), "duplicates": c.GetDuplicates(),
		},
	}
	for to, from := range map[*time.Time]interface{ AsTime() time.Time }{
		&t.CreatedAt: st.GetCreatedAt(), &t.StartedAt: st.GetStartedAt(), &t.EndedAt: st.GetFinishedAt(),
	} {
		if v := from.AsTime(); v.Unix() != 0 {
			*to = v
		}
	}
	return t
}

func lower(name, prefix string) string { return strings.ToLower(strings.TrimPrefix(name, prefix)) }

// writer is one report in the making.
type writer struct {
	totals  *Totals
	seeds   *table
	hosts   *hosts
	types   *kinds
	results *kinds
}

func (w *writer) visit(u *scheduler.URLInfo) error {
	o := u.Outcome
	state := lower(u.State.String(), "URL_STATE_")
	w.totals.URLs[state]++
	http := o.GetFetch().GetClass() == crawlv1.OutcomeClass_OUTCOME_CLASS_HTTP && o.GetFetch().GetStatus() > 0
	received, payload := size(o.GetFetch().GetReceivedBytes()), size(o.GetPayloadBytes())
	status := ""
	if http {
		status = strconv.Itoa(int(o.GetFetch().GetStatus()))
		w.totals.Pages++
		w.countStatus(status)
	}
	w.totals.Bytes += received
	w.totals.PayloadBytes += payload

	h, err := w.hosts.of(u.HostKey)
	if err != nil {
		return err
	}
	h[hostURLs]++
	switch u.State {
	case schedulerv1.UrlState_URL_STATE_QUEUED:
		h[hostQueued]++
	case schedulerv1.UrlState_URL_STATE_LEASED:
		h[hostLeased]++
	case schedulerv1.UrlState_URL_STATE_DONE:
		h[hostDone]++
	case schedulerv1.UrlState_URL_STATE_EXCLUDED:
		h[hostExcluded]++
	case schedulerv1.UrlState_URL_STATE_FAILED:
		h[hostFailed]++
	}
	if http {
		h[hostPages]++
		name := o.GetContentType()
		if name == "" {
			name = "(none)"
		}
		w.types.add([]string{name}, received, payload)
	}
	h[hostBytes] += received
	h[hostPayload] += payload
	w.results.add([]string{state, result(u, status)}, received, payload)
	if u.Seed {
		return w.seed(u, state, status, http)
	}
	return nil
}

// countStatus bounds the codes told apart: a server may send any three digits.
func (w *writer) countStatus(status string) {
	if _, ok := w.totals.StatusCodes[status]; !ok && len(w.totals.StatusCodes) >= maxKinds {
		status = other
	}
	w.totals.StatusCodes[status]++
}

func (w *writer) seed(u *scheduler.URLInfo, state, status string, http bool) error {
	w.totals.Seeds++
	reason := u.Reason
	if e := u.Outcome.GetFetch().GetError(); e != "" && !strings.Contains(reason, e) {
		reason = strings.TrimPrefix(reason+": "+e, ": ")
	}
	if http {
		w.totals.SeedsFetched++
	} else if w.totals.FirstSeedProblem == "" {
		w.totals.FirstSeedUnfetched, w.totals.FirstSeedProblem = u.URL, state
		if reason != "" {
			w.totals.FirstSeedProblem += ": " + reason
		}
	}
	return w.seeds.add(u.URL, state, status, reason, uint64(u.Attempts), u.Outcome.GetContentType(), u.Outcome.GetRedirectUrl())
}

// result is what came of a URL in one word: the status, or the code of why
// there is none.
func result(u *scheduler.URLInfo, status string) string {
	if u.State == schedulerv1.UrlState_URL_STATE_EXCLUDED || u.State == schedulerv1.UrlState_URL_STATE_FAILED || status == "" {
		code, _, _ := strings.Cut(u.Reason, ":")
		if code == "" {
			code = lower(u.Outcome.GetFetch().GetClass().String(), "OUTCOME_CLASS_")
			if code == "unspecified" {
				code = ""
			}
		}
		return code
	}
	return status
}

func size(n int64) uint64 { return uint64(max(0, n)) }

func (w *writer) writeHosts(dir string) error {
	t, err := createTable(dir, "hosts.csv", hostColumns...)
	if err != nil {
		return err
	}
	defer t.discard()
	err = w.hosts.each(func(host string, c *hostCounts) error {
		w.totals.Hosts++
		cells := make([]any, 0, 1+hostNumbers)
		cells = append(cells, host)
		for _, n := range c {
			cells = append(cells, n)
		}
		return t.add(cells...)
	})
	if err != nil {
		return err
	}
	return t.commit()
}

// kinds counts by a short list of names, up to maxKinds of them.
type kinds struct{ rows map[string]*kind }

type kind struct {
	names                   []string
	urls, received, payload uint64
}

func newKinds() *kinds { return &kinds{map[string]*kind{}} }

func (k *kinds) add(names []string, received, payload uint64) {
	key := strings.Join(names, "\x00")
	row := k.rows[key]
	if row == nil {
		if len(k.rows) >= maxKinds {
			names = append(slices.Clone(names[:len(names)-1]), other)
			key = strings.Join(names, "\x00")
			row = k.rows[key]
		}
		if row == nil {
			row = &kind{names: names}
			k.rows[key] = row
		}
	}
	row.urls++
	row.received += received
	row.payload += payload
}

// write writes the rows, the most frequent first.
func (k *kinds) write(dir, name string, columns ...string) error {
	t, err := createTable(dir, name, columns...)
	if err != nil {
		return err
	}
	defer t.discard()
	rows := make([]*kind, 0, len(k.rows))
	for _, row := range k.rows {
		rows = append(rows, row)
	}
	slices.SortFunc(rows, func(a, b *kind) int {
		switch {
		case a.urls != b.urls && a.urls > b.urls:
			return -1
		case a.urls != b.urls:
			return 1
		}
		return slices.Compare(a.names, b.names)
	})
	for _, row := range rows {
		var cells []any
		for _, n := range row.names {
			cells = append(cells, n)
		}
		if err := t.add(append(cells, row.urls, row.received, row.payload)...); err != nil {
			return err
		}
	}
	return t.commit()
}

func writeJSON(dir string, t *Totals) error {
	f, err := create(dir, "summary.json")
	if err != nil {
		return err
	}
	defer f.discard()
	enc := json.NewEncoder(f.w)
	enc.SetIndent("", "  ")
	if err := enc.Encode(t); err != nil {
		return fmt.Errorf("report summary.json: %w", err)
	}
	return f.commit()
}

// Read reads a summary.json.
func Read(r io.Reader) (*Totals, error) {
	t := &Totals{}
	if err := json.NewDecoder(r).Decode(t); err != nil {
		return nil, fmt.Errorf("report summary.json: %w", err)
	}
	return t, nil
}
