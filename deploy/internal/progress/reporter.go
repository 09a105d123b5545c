package progress

import (
	"encoding/json"
	"io"
	"sync"
	"time"

	schedulerv1 "lycosa.dev/proto/gen/lycosa/scheduler/v1"
)

// Mode is how progress is shown.
type Mode int

const (
	// Lines writes a line every ten seconds.
	Lines Mode = iota
	// Live draws one line on a terminal again and again.
	Live
	// JSON writes every sample as a line of JSON.
	JSON
	// Quiet writes no progress and no summary.
	Quiet
	// QuietJSON writes the summary alone, as JSON.
	QuietJSON
)

// lineEvery is the time between two lines without a terminal.
const lineEvery = 10 * time.Second

// clearLine goes to the start of the line and clears it.
const clearLine = "\r\x1b[K"

// Options configures a Reporter.
type Options struct {
	Mode Mode
	// Out gets JSON and the summary, Err lines and the live line.
	Out, Err io.Writer
	// Width is the terminal's; nil is 80 columns.
	Width func() int
	// Now tells the time; nil is time.Now.
	Now func() time.Time
}

// Reporter shows samples. Its methods are safe for concurrent use.
type Reporter struct {
	opt Options

	mu    sync.Mutex
	rates rates
	last  time.Time // of the last line
	drawn bool      // a live line stands on the terminal
}

// New returns a Reporter.
func New(opt Options) *Reporter {
	if opt.Now == nil {
		opt.Now = time.Now
	}
	if opt.Width == nil {
		opt.Width = func() int { return 80 }
	}
	return &Reporter{opt: opt}
}

// Update shows a job's status.
func (r *Reporter) Update(st *schedulerv1.JobStatus) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.opt.Now()
	s := newSample(st, now)
	r.rates.add(now, &s)
	switch r.opt.Mode {
	case JSON:
		_ = r.json(s) // who reads is gone; the summary says so
	case Live:
		_, _ = io.WriteString(r.opt.Err, clearLine+Cut(s.Line(), r.opt.Width()-1))
		r.drawn = true
	case Lines:
		if r.last.IsZero() {
			r.last = now // the first line comes after the first interval
		} else if now.Sub(r.last) >= lineEvery {
			r.last = now
			_, _ = io.WriteString(r.opt.Err, s.Line()+"\n")
		}
	}
}

// Say writes a line for people, whatever the mode but quiet.
func (r *Reporter) Say(line string) {
	if r.opt.Mode == Quiet || r.opt.Mode == QuietJSON {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.clear()
	_, _ = io.WriteString(r.opt.Err, line+"\n")
}

// Clear takes the live line away.
func (r *Reporter) Clear() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.clear()
}

func (r *Reporter) clear() {
	if r.drawn {
		_, _ = io.WriteString(r.opt.Err, clearLine)
		r.drawn = false
	}
}

// Summarise shows the summary.
func (r *Reporter) Summarise(s Summary) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.clear()
	s.Type = "summary"
	switch r.opt.Mode {
	case JSON, QuietJSON:
		return r.json(s)
	case Quiet:
		return nil
	}
	return s.Write(r.opt.Out)
}

func (r *Reporter) json(v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_, err = r.opt.Out.Write(append(b, '\n'))
	return err
}

// Writer returns a writer to Err that takes the live line away before each
// write: for logs.
func (r *Reporter) Writer() io.Writer { return reporterWriter{r} }

type reporterWriter struct{ r *Reporter }

func (w reporterWriter) Write(b []byte) (int, error) {
	w.r.mu.Lock()
	defer w.r.mu.Unlock()
	w.r.clear()
	return w.r.opt.Err.Write(b)
}
