package progress

import (
	"fmt"
	"strings"
	"time"

	schedulerv1 "lycosa.dev/proto/gen/lycosa/scheduler/v1"
)

// Sample is how a crawl stands at one time. It is the object of type "progress"
// of --json.
type Sample struct {
	Type           string    `json:"type"` // "progress"
	Time           time.Time `json:"time"`
	Job            string    `json:"job"`
	State          string    `json:"state"`
	Round          uint32    `json:"round"`
	Elapsed        float64   `json:"elapsed_seconds"`
	Known          uint64    `json:"known"`
	Queued         uint64    `json:"queued"`
	Leased         uint64    `json:"leased"`
	Pending        uint64    `json:"pending"`
	Done           uint64    `json:"done"`
	Excluded       uint64    `json:"excluded"`
	Failed         uint64    `json:"failed"`
	Pages          uint64    `json:"pages"`
	Bytes          uint64    `json:"received_bytes"`
	Errors         uint64    `json:"fetch_errors"`
	ActiveHosts    uint64    `json:"active_hosts"`
	PagesPerSecond float64   `json:"pages_per_second"`
	BytesPerSecond float64   `json:"bytes_per_second"`
	NextReady      string    `json:"next_ready_at,omitempty"`
	Problem        string    `json:"problem,omitempty"`
}

// StateName is a job's state in words.
func StateName(s schedulerv1.JobState) string {
	return strings.ToLower(strings.TrimPrefix(s.String(), "JOB_STATE_"))
}

// newSample reads a job's status.
func newSample(st *schedulerv1.JobStatus, now time.Time) Sample {
	c := st.GetCounters()
	s := Sample{
		Type: "progress", Time: now.UTC(), Job: st.GetJobId(), State: StateName(st.GetState()), Round: st.GetRound(),
		Elapsed: st.GetRunning().AsDuration().Seconds(),
		Known:   c.GetKnown(), Queued: c.GetQueued(), Leased: c.GetLeased(), Pending: c.GetPending(), Done: c.GetDone(),
		Excluded: c.GetExcluded(), Failed: c.GetFailed(), Pages: c.GetPages(), Bytes: c.GetReceivedBytes(),
		Errors: c.GetFetchErrors(), ActiveHosts: st.GetActiveHosts(), Problem: Sanitise(st.GetProblem()),
	}
	if st.GetNextReadyAt() != nil {
		s.NextReady = st.GetNextReadyAt().AsTime().UTC().Format(time.RFC3339)
	}
	return s
}

// maxProblem is how much of a problem a line shows.
const maxProblem = 120

// Line is the sample as one line of text.
func (s Sample) Line() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s  %s done  %s queued", Elapsed(time.Duration(s.Elapsed*float64(time.Second))), Count(s.Done), Count(s.Queued+s.Leased))
	if s.Pending > 0 {
		fmt.Fprintf(&b, "  %s pending", Count(s.Pending))
	}
	fmt.Fprintf(&b, "  %s pages/s  %s/s  %s hosts  %s errors", Rate(s.PagesPerSecond), Bytes(s.BytesPerSecond), Count(s.ActiveHosts), Count(s.Errors))
	if s.State != "running" {
		fmt.Fprintf(&b, "  [%s]", s.State)
	}
	if s.Problem != "" {
		fmt.Fprintf(&b, "  %s", Cut(s.Problem, maxProblem))
	}
	return b.String()
}

// window is how far back the rates look.
const window = 10 * time.Second

// rates measures pages and bytes a second over the last window.
type rates struct{ points []point }

type point struct {
	at           time.Time
	pages, bytes uint64
}

func (r *rates) add(now time.Time, s *Sample) {
	r.points = append(r.points, point{now, s.Pages, s.Bytes})
	for len(r.points) > 2 && now.Sub(r.points[1].at) >= window {
		r.points = r.points[1:]
	}
	first := r.points[0]
	if d := now.Sub(first.at).Seconds(); d > 0 && s.Pages >= first.pages && s.Bytes >= first.bytes {
		s.PagesPerSecond = float64(s.Pages-first.pages) / d
		s.BytesPerSecond = float64(s.Bytes-first.bytes) / d
	}
}
