package warc

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// ErrClosed is a Write after Close.
var ErrClosed = errors.New("warc: the writer is closed")

// batchBytes is how many appended bytes are collected for one write.
const batchBytes = 1 << 20

// Writer appends records to the files of one job. Its methods may be called by
// any number of goroutines.
type Writer struct {
	cfg         Config
	compressors chan *compressor
	large       chan *compressor
	slots       chan struct{} // one for each Write that holds compressed records
	groups      sync.Pool
	stats       stats
	spills      atomic.Uint64

	mu sync.Mutex
	// queue are the groups that wait for the next batch, in order; leading says
	// that some caller appends and will look at queue again before it stops.
	queue   []*group
	leading bool
	closed  bool

	// The rest belongs to the leader.
	files files
}

// group is the records of one Write, or an operation in their order.
type group struct {
	spill spill
	ends  []int64 // where each record ends in the spill
	op    func() error
	loc   Location
	err   error

	lead bool          // under Writer.mu: it was made the leader
	wake chan struct{} // one signal: the group is done, or it leads
}

// Open makes the folder's files of the job ready: what an earlier process left
// open is repaired and closed, and the returned list says what was done. It
// fails if the folder cannot be written.
func Open(cfg Config) (*Writer, []Recovered, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, nil, err
	}
	w := &Writer{
		cfg:         cfg,
		compressors: make(chan *compressor, cfg.Compressors),
		large:       make(chan *compressor, 1),
		slots:       make(chan struct{}, cfg.MaxPending),
	}
	w.groups.New = func() any {
		return &group{spill: spill{w: w, limit: cfg.MemoryBytes}, wake: make(chan struct{}, 1)}
	}
	for range cfg.Compressors {
		c, err := newCompressor(cfg.Level)
		if err != nil {
			return nil, nil, err
		}
		w.compressors <- c
	}
	c, err := newCompressor(cfg.Level)
	if err != nil {
		return nil, nil, err
	}
	w.large <- c
	w.files = files{cfg: cfg, stats: &w.stats}
	recovered, err := w.files.start()
	if err != nil {
		return nil, recovered, err
	}
	return w, recovered, nil
}

// Write appends the records, one after the other in one file, and returns when
// they are durable. The location is of all of them together; each record gets
// its own in its Location field, its id and, where it has a payload, its digest.
//
// An error means that none of them is stored: ErrBadRecord, the context's, a
// body that could not be read, or a *StorageError. When ctx ends while the
// records are already being written, Write waits for that to end and reports it.
func (w *Writer) Write(ctx context.Context, records []Record) (Location, error) {
	if len(records) == 0 {
		return Location{}, fmt.Errorf("%w: no records given", ErrBadRecord)
	}
	select {
	case w.slots <- struct{}{}:
	case <-ctx.Done():
		return Location{}, ctx.Err()
	}
	defer func() { <-w.slots }()
	g := w.groups.Get().(*group)
	defer w.release(g)
	if err := w.encode(ctx, g, records); err != nil {
		return Location{}, err
	}
	if err := w.submit(ctx, g); err != nil {
		return Location{}, err
	}
	start := int64(0)
	for i := range records {
		records[i].Location = Location{File: g.loc.File, Offset: g.loc.Offset + start, Length: g.ends[i] - start}
		start = g.ends[i]
	}
	w.stats.records.Add(int64(len(records)))
	return g.loc, nil
}

func (w *Writer) release(g *group) {
	g.spill.reset()
	if cap(g.spill.mem) > 1<<20 {
		g.spill.mem = nil // an unusual one; the usual page needs 10 KB
	}
	g.ends, g.op, g.loc, g.err, g.lead = g.ends[:0], nil, Location{}, nil, false
	w.groups.Put(g)
}

// encode compresses the records into the group.
func (w *Writer) encode(ctx context.Context, g *group, records []Record) error {
	pool := w.compressors
	for i := range records {
		r := &records[i]
		if err := r.check(); err != nil {
			return err
		}
		if r.ID == (ID{}) {
			r.ID = NewID()
		}
		if r.Date.IsZero() {
			r.Date = w.cfg.Now()
		}
		if i > 0 && r.ConcurrentTo == (ID{}) && r.Type != Warcinfo && r.Type != Conversion {
			r.ConcurrentTo = records[0].ID
		}
		if r.bodyLen() >= w.cfg.LargeBytes {
			pool = w.large
		}
	}
	var c *compressor
	select {
	case c = <-pool:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { pool <- c }()
	for i := range records {
		if err := c.encode(ctx, &records[i], &g.spill, w.cfg.BlockDigests); err != nil {
			return err
		}
		g.ends = append(g.ends, g.spill.size)
	}
	return nil
}

// submit queues the group and waits until it is done, leading the batch if
// nobody else does.
func (w *Writer) submit(ctx context.Context, g *group) error {
	w.mu.Lock()
	if w.closed {
		w.mu.Unlock()
		return ErrClosed
	}
	w.queue = append(w.queue, g)
	if !w.leading {
		w.leading, g.lead = true, true
		w.mu.Unlock()
		w.commitBatch(g)
		return g.err
	}
	w.mu.Unlock()
	select {
	case <-g.wake:
	case <-ctx.Done():
		if w.withdraw(g) {
			return ctx.Err()
		}
		<-g.wake
	}
	if g.lead {
		w.commitBatch(g)
	}
	return g.err
}

// withdraw takes a group out of the queue if no batch has it yet and it does
// not lead.
func (w *Writer) withdraw(g *group) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if g.lead {
		return false
	}
	for i, q := range w.queue {
		if q == g {
			w.queue = append(w.queue[:i], w.queue[i+1:]...)
			return true
		}
	}
	return false
}

// commitBatch appends everything that waits, self among it, and hands the lead on.
func (w *Writer) commitBatch(self *group) {
	w.mu.Lock()
	batch := w.queue
	w.queue = nil
	w.mu.Unlock()

	started := time.Now()
	w.files.commit(batch)
	w.stats.commits.Add(1)
	w.stats.commitNanos.Add(int64(time.Since(started)))

	w.mu.Lock()
	if len(w.queue) > 0 {
		next := w.queue[0]
		next.lead = true
		next.wake <- struct{}{}
	} else {
		w.leading = false
	}
	w.mu.Unlock()
	for _, g := range batch {
		if g != self {
			g.wake <- struct{}{}
		}
	}
}

// Rotate closes the current file; the next Write begins another.
func (w *Writer) Rotate(ctx context.Context) error {
	g := &group{op: w.files.finish, wake: make(chan struct{}, 1)}
	return w.submit(ctx, g)
}

// Close waits for what is being written and gives the current file its final
// name. Writes that come later get ErrClosed. It may be called again.
func (w *Writer) Close() error {
	w.mu.Lock()
	if w.closed {
		w.mu.Unlock()
		return nil
	}
	g := &group{wake: make(chan struct{}, 1)}
	g.op = func() error { return errors.Join(w.files.finish(), w.files.mend()) }
	w.closed = true
	w.queue = append(w.queue, g)
	if !w.leading {
		w.leading, g.lead = true, true
		w.mu.Unlock()
		w.commitBatch(g)
		return g.err
	}
	w.mu.Unlock()
	<-g.wake
	if g.lead {
		w.commitBatch(g)
	}
	return g.err
}

// Stats are counters since Open.
type Stats struct {
	// Records and StoredBytes are durable records and their compressed bytes.
	Records, StoredBytes int64
	// Commits is how many batches were written, CommitTime what they took together.
	Commits    int64
	CommitTime time.Duration
	// Files is how many were begun; Failures how many batches failed.
	Files, Failures int64
}

type stats struct {
	records, bytes, commits, commitNanos, files, failures atomic.Int64
}

// Stats returns the counters.
func (w *Writer) Stats() Stats {
	return Stats{
		Records: w.stats.records.Load(), StoredBytes: w.stats.bytes.Load(), Commits: w.stats.commits.Load(),
		CommitTime: time.Duration(w.stats.commitNanos.Load()), Files: w.stats.files.Load(), Failures: w.stats.failures.Load(),
	}
}
