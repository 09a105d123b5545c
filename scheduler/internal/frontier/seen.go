package frontier

import (
	"context"
	"errors"
	"fmt"
	"time"

	"lycosa.dev/scheduler/internal/frontier/sieve"
	"lycosa.dev/scheduler/internal/frontier/store"
)

// The seen set says which URLs of a job are known, and their least depth (see
// package sieve). Its youngest keys are in the store, one record a batch of the
// decider, in the batch that makes the URLs known; what is older is in runs,
// which the store lists. A run is durable before the batch that lists it, and
// removed after the batch that does not list it any more is durable. The set
// can be built anew from the URLs' records.

// seenFolder is the folder of the runs, in the store's.
const seenFolder = "seen"

// mergeRate bounds what merges read, in bytes a second.
const mergeRate = 96 << 20

// openSeen opens the jobs' seen sets. One that cannot be read is built anew
// with the first batch. Called with mu held, before anything runs.
func (f *Frontier) openSeen() error {
	fs, dir := f.st.Files()
	var err error
	if f.seenDir, err = sieve.OpenDir(fs, fs.PathJoin(dir, seenFolder), f.o.SeenCacheBytes); err != nil {
		return err
	}
	live := map[uint64]bool{}
	known := 0
	for _, j := range f.order {
		if err := f.loadSeen(j, live); err != nil {
			return err
		}
		known += int(j.cnt.known())
		if n := j.seen.Count(); !j.seenBad && n < j.cnt.known() {
			f.log.Error("the seen set lacks URLs; it is built anew", "job", j.id, "keys", n, "known", j.cnt.known())
			j.seenBad = true
		}
	}
	f.filter.begin(known)
	f.notify(f.kickMerge)
	return f.seenDir.Sweep(live)
}

func (f *Frontier) loadSeen(j *job, live map[uint64]bool) error {
	bad := func(err error) {
		f.log.Error("the seen set is damaged; it is built anew from the URLs' records", "job", j.id, "error", err)
		j.seenBad = true
	}
	var runs []*sieve.Run
	key := runsKey(j.num)
	v, ok, err := f.st.Get(key)
	if err != nil {
		return err
	}
	if ok {
		numbers, err := decodeRuns(key, v)
		if err != nil {
			bad(err)
		}
		for _, n := range numbers {
			live[n] = true
			r, err := f.seenDir.Open(n)
			if err != nil {
				bad(err)
				continue
			}
			runs = append(runs, r)
		}
	}
	j.seen = sieve.NewSet(f.seenDir, runs)
	prefix := numbered(kindRecent, j.num)
	return f.st.Scan(prefix, after(prefix), func(k, v []byte) bool {
		list, n, err := decodeRecent(k, v)
		if err != nil {
			bad(err)
			return true
		}
		j.seenNext = n + 1
		for _, e := range list {
			j.seen.Add(e)
		}
		return true
	})
}

func encodeRuns(key []byte, runs []*sieve.Run) []byte {
	w := newWriter()
	w.uint(uint64(len(runs)))
	for _, r := range runs {
		w.uint(r.Number)
	}
	return w.seal(key)
}

func decodeRuns(key, value []byte) ([]uint64, error) {
	r, err := open(key, value)
	if err != nil {
		return nil, err
	}
	var list []uint64
	for range min(r.uint(), uint64(len(r.b))) {
		list = append(list, r.uint())
	}
	return list, r.err
}

func encodeRecent(key []byte, list []sieve.Entry) []byte {
	w := newWriter()
	w.uint(uint64(len(list)))
	for _, e := range list {
		w.fixed(e.Key)
		w.b = append(w.b, e.Depth)
	}
	return w.seal(key)
}

// decodeRecent returns the keys and the record's number.
func decodeRecent(key, value []byte) ([]sieve.Entry, uint64, error) {
	if len(key) != 13 {
		return nil, 0, fmt.Errorf("%w: key of %d bytes", errBadRecord, len(key))
	}
	r, err := open(key, value)
	if err != nil {
		return nil, 0, err
	}
	n := r.uint()
	if n*9 != uint64(len(r.b)) {
		return nil, 0, fmt.Errorf("%w: %d bytes for %d keys", errBadRecord, len(r.b), n)
	}
	list := make([]sieve.Entry, n)
	for i := range list {
		list[i].Key = r.fixed()
		list[i].Depth, r.b = r.b[0], r.b[1:]
	}
	return list, keyNumber(key), r.err
}

// findSeen looks keys of a job up, which come sorted. Called with decideMu held
// and without mu.
func (f *Frontier) findSeen(j *job, list []sieve.Lookup) error {
	for tries := 0; ; tries++ {
		if j.seenBad {
			if err := f.rebuildSeen(j); err != nil {
				return err
			}
		}
		err := j.seen.Find(list, j.anyDepth)
		if err == nil || tries > 0 {
			return err
		}
		f.log.Error("the seen set cannot be read; it is built anew from the URLs' records", "job", j.id, "error", err)
		f.met.bad.Inc()
		j.seenBad = true
	}
}

// keepSeen puts the keys of picks that are new, or have a shorter way, into the
// seen sets, and into the batch. Called with both mutexes held.
func (f *Frontier) keepSeen(b *store.Batch, picks []pick) {
	byJob := map[*job][]sieve.Entry{}
	for _, p := range picks {
		byJob[p.job] = append(byJob[p.job], sieve.Entry{Key: p.key, Depth: sieve.Depth(p.depth)})
	}
	for j, list := range byJob {
		key := recentKey(j.num, j.seenNext)
		j.seenNext++
		b.Set(key, encodeRecent(key, list))
		for _, e := range list {
			j.seen.Add(e)
		}
		if j.seen.Recent() >= f.o.SeenTable {
			f.seenFull = append(f.seenFull, j)
		}
	}
}

// flushSeen makes runs of the tables that are full. Called with decideMu held
// and without mu.
func (f *Frontier) flushSeen() error {
	for len(f.seenFull) > 0 {
		j := f.seenFull[0]
		f.seenFull = f.seenFull[1:]
		if f.broken() || j.seen.Recent() < f.o.SeenTable {
			continue
		}
		r, err := j.seen.Flush()
		if err != nil {
			return f.end(fmt.Errorf("%w: %w", ErrStorage, err))
		}
		if err := f.listRuns(j, append(j.seen.Runs(), r), true); err != nil {
			return err
		}
		j.seen.Flushed(r)
		f.notify(f.kickMerge)
	}
	return nil
}

// listRuns makes the list of a job's live runs durable. emptied says that the
// keys of the table are among them.
func (f *Frontier) listRuns(j *job, runs []*sieve.Run, emptied bool) error {
	f.mu.Lock()
	if err := f.usable(); err != nil {
		f.mu.Unlock()
		return err
	}
	b := f.newBatch()
	key := runsKey(j.num)
	b.Set(key, encodeRuns(key, runs))
	if emptied {
		b.DeleteRange(numbered(kindRecent, j.num), recentKey(j.num, j.seenNext))
	}
	p, err := f.apply(b, true)
	f.mu.Unlock()
	if err != nil {
		return err
	}
	return f.await(p)
}

// end ends the frontier with an error. Called without mu.
func (f *Frontier) end(err error) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fail(err)
	return f.err
}

func (f *Frontier) removeRuns(runs []*sieve.Run) {
	for _, r := range runs {
		if err := f.seenDir.Remove(r); err != nil {
			f.log.Warn("a file of the seen set could not be removed", "error", err)
		}
	}
}

// rebuildSeen makes a job's seen set of its URLs' records. Called with decideMu
// held and without mu: nothing becomes known meanwhile.
func (f *Frontier) rebuildSeen(j *job) error {
	start := time.Now()
	set := sieve.NewSet(f.seenDir, nil)
	var failed error
	flush := func() bool {
		if set.Recent() == 0 {
			return true
		}
		var r *sieve.Run
		if r, failed = set.Flush(); failed != nil {
			failed = fmt.Errorf("%w: %w", ErrStorage, failed)
			return false
		}
		set.Flushed(r)
		return true
	}
	prefix := numbered(kindURL, j.num)
	err := f.st.Scan(prefix, after(prefix), func(k, v []byte) bool {
		e := sieve.Entry{Key: keyOfURL(k)}
		if rec, err := decodeURL(k, v); err == nil {
			e.Depth = sieve.Depth(rec.depth)
		}
		set.Add(e)
		return set.Recent() < f.o.SeenTable || flush()
	})
	if err == nil && failed == nil {
		flush()
	}
	if err = errors.Join(err, failed); err != nil {
		set.Close()
		return f.end(err)
	}
	if err := f.listRuns(j, set.Runs(), true); err != nil {
		return err
	}
	f.removeRuns(j.seen.Drop())
	j.seen, j.seenBad = set, false
	f.log.Info("the seen set was built anew", "job", j.id, "keys", set.Count(), "took", time.Since(start))
	f.notify(f.kickMerge)
	f.notify(f.kickFill)
	return nil
}

func (f *Frontier) runMerges(ctx context.Context) {
	for {
		for ctx.Err() == nil && f.mergeSeen(ctx) {
		}
		select {
		case <-ctx.Done():
			return
		case <-f.kickMerge:
		}
	}
}

// mergeSeen merges runs of one job, if some are due.
func (f *Frontier) mergeSeen(ctx context.Context) bool {
	f.decideMu.Lock()
	var j *job
	var due []*sieve.Run
	for _, o := range f.jobList() {
		if !o.seenBad {
			if j, due = o, o.seen.Due(); due != nil {
				break
			}
		}
	}
	if due == nil || f.broken() {
		f.decideMu.Unlock()
		return false
	}
	number := f.seenDir.Number()
	f.decideMu.Unlock()

	began, read := time.Now(), 0
	merged, err := f.seenDir.Merge(ctx, number, due, func(ctx context.Context, n int) error {
		read += n
		ahead := time.Duration(read)*time.Second/mergeRate - time.Since(began)
		if ahead < time.Millisecond {
			return ctx.Err()
		}
		t := time.NewTimer(ahead)
		defer t.Stop()
		select {
		case <-t.C:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	})

	f.decideMu.Lock()
	defer f.decideMu.Unlock()
	f.mu.Lock()
	gone := f.byNum[j.num] != j || f.err != nil
	f.mu.Unlock()
	switch {
	case err != nil && (ctx.Err() != nil || gone):
		return false
	case errors.Is(err, sieve.ErrDamaged):
		f.log.Error("the seen set is damaged; it is built anew from the URLs' records", "job", j.id, "error", err)
		f.met.bad.Inc()
		j.seenBad = true
		return false
	case err != nil:
		f.log.Warn("runs of the seen set could not be merged; they are merged later", "job", j.id, "error", err)
		return false
	}
	set := sieve.NewSet(f.seenDir, j.seen.Runs())
	if gone || !set.Merged(due, merged) {
		f.removeRuns([]*sieve.Run{merged})
		return !gone
	}
	if f.listRuns(j, set.Runs(), false) != nil {
		return false
	}
	j.seen.Merged(due, merged)
	f.removeRuns(due)
	return true
}
