package frontier

import (
	"container/heap"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"lycosa.dev/scheduler/internal/frontier/store"
)

// OpenStore opens the Pebble store of a directory and creates it where there
// is none. Errors: ErrLocked, ErrCorrupt, ErrStorage, or the file system's.
func OpenStore(dir string) (Store, error) { return OpenStoreWith(dir, 0, 0) }

// OpenStoreWith is OpenStore with sizes of the cache of blocks and of a write
// buffer, in bytes; 0: the default.
func OpenStoreWith(dir string, cacheBytes, bufferBytes int64) (Store, error) {
	s, err := store.OpenPebble(dir, store.PebbleOptions{CacheBytes: cacheBytes, MemTableBytes: uint64(max(0, bufferBytes))})
	if err != nil {
		return nil, err
	}
	return s, nil
}

// OpenReadOnly opens a directory that nobody runs, for questions only: Job,
// Jobs, Explain, Queues.
func OpenReadOnly(dir string) (*Frontier, error) {
	if _, err := os.Stat(dir); err != nil {
		return nil, fmt.Errorf("open the frontier: %w", err)
	}
	s, err := store.OpenPebble(dir, store.PebbleOptions{ReadOnly: true})
	if err != nil {
		return nil, err
	}
	f := newFrontier(Options{Store: s, questionsOnly: true})
	f.readOnly = true
	if err := f.loadControl(); err != nil {
		_ = s.Close()
		return nil, err
	}
	return f, nil
}

// Open loads jobs, counters, leases, the lists of the seen sets' runs and the journal's bounds; it reads no URL
// and does no network. The frontier owns the store from then on, also where
// Open fails.
func Open(ctx context.Context, o Options) (*Frontier, error) {
	if o.Store == nil {
		return nil, errors.New("frontier: no store")
	}
	f := newFrontier(o)
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.loadControl(); err != nil {
		return nil, errors.Join(err, f.st.Close())
	}
	if err := f.afterRestore(); err != nil {
		return nil, errors.Join(err, f.st.Close())
	}
	if err := f.openSeen(); err != nil {
		return nil, errors.Join(err, f.st.Close())
	}
	if err := f.recoverLeases(); err != nil {
		return nil, errors.Join(err, f.st.Close())
	}
	f.noteGroups()
	f.notify(f.kickTick)
	f.notify(f.kickDecide)
	return f, nil
}

// loadControl reads what is not a URL's.
func (f *Frontier) loadControl() error {
	meta := []byte{kindMeta}
	if v, ok, err := f.st.Get(meta); err != nil {
		return err
	} else if ok {
		m, err := decodeMeta(meta, v)
		switch {
		case err != nil:
			f.noteBad(meta, v)
			if err := f.findNumbers(); err != nil {
				return err
			}
		case m.format != storeFormat:
			return fmt.Errorf("%w: it is of format %d, this program reads %d; go on with the version of Lycosa that began it, or begin in another folder", ErrFormat, m.format, storeFormat)
		}
		f.nextNum = m.nextNum
	}
	if err := f.loadJobs(); err != nil {
		return err
	}
	slices.SortFunc(f.order, func(a, b *job) int { return int(a.num) - int(b.num) })
	now := f.now()
	f.restarted = len(f.order) > 0
	for _, j := range f.order {
		if err := f.loadCounters(j); err != nil {
			return err
		}
		f.loadDeferred(j)
		j.ran = j.cnt.ran
		f.dueBase = max(f.dueBase, j.cnt.due)
		j.runFor(now, j.state == jobRunning && !f.readOnly)
		if j.state == jobStopping {
			j.drainUntil = now.Add(j.drain)
		}
	}
	if err := f.loadHolds(); err != nil {
		return err
	}
	if err := f.loadSweeps(); err != nil {
		return err
	}
	if err := f.loadHistories(); err != nil {
		return err
	}
	return f.loadJournal()
}

func (f *Frontier) loadJournal() error {
	first := true
	return f.st.Scan([]byte{kindJournal}, after([]byte{kindJournal}), func(k, v []byte) bool {
		if len(k) != 9 {
			return true
		}
		seq := binary.BigEndian.Uint64(k[1:])
		if first {
			f.journal.first, first = seq, false
		}
		f.journal.next = seq + 1
		if f.journal.stalled {
			return true
		}
		e, err := decodeJournal(k, v)
		if err != nil {
			f.noteBad(k, v)
			return true
		}
		f.journal.keep(e)
		return true
	})
}

// recoverLeases takes over the leases that were out when the last process
// ended. Where all was one process they are dead; else downloaders may still
// work on them.
func (f *Frontier) recoverLeases() error {
	type row struct {
		id  uint64
		rec *leaseRecord
	}
	var rows []row
	err := f.st.Scan([]byte{kindLease}, after([]byte{kindLease}), func(k, v []byte) bool {
		rec, err := decodeLease(k, v)
		if err != nil {
			f.noteBad(k, v)
			return true
		}
		rows = append(rows, row{binary.BigEndian.Uint64(k[1:]), rec})
		return true
	})
	if err != nil {
		return err
	}
	now := f.now()
	pages := map[*job]uint64{}
	for _, r := range rows {
		if j := f.byNum[r.rec.job]; j != nil && r.rec.page != nil {
			pages[j]++
		}
	}
	f.repairLeased(pages)
	for _, r := range rows {
		j := f.byNum[r.rec.job]
		if j == nil {
			continue
		}
		l := f.revive(j, r.id, r.rec, now)
		if l == nil {
			continue
		}
		if f.o.DeadLeasesAtStart {
			b := f.newBatch()
			h := l.queue.host
			f.lose(b, l, endOf{}, true, now)
			f.saveHost(b, h, now)
			f.saveCounters(b, j)
			f.place(h, now)
			if _, err := f.apply(b, false); err != nil {
				return err
			}
		}
	}
	return f.err
}

// repairLeased fails the URLs whose lease's record is gone or damaged: nobody
// can end them otherwise, and their jobs would wait for ever. It costs nothing
// where the counters agree with the leases found.
func (f *Frontier) repairLeased(pages map[*job]uint64) {
	for _, j := range f.order {
		if pages[j] == j.cnt.leased {
			continue
		}
		f.log.Error("leases are missing; their URLs are failed", "job", j.id, "leased", j.cnt.leased, "found", pages[j])
		type row struct {
			key uint64
			rec *urlRecord
		}
		var lost []row
		prefix := numbered(kindURL, j.num)
		err := f.st.Scan(prefix, after(prefix), func(k, v []byte) bool {
			if rec, err := decodeURL(k, v); err == nil && rec.state == stateLeased {
				lost = append(lost, row{binary.BigEndian.Uint64(k[5:]), rec})
			}
			return true
		})
		if err != nil {
			f.fail(err)
			return
		}
		b := f.newBatch()
		now := f.now()
		for _, r := range lost {
			k := leaseKey(r.rec.lease)
			if v, ok := f.get(k); ok {
				if _, err := decodeLease(k, v); err == nil {
					continue
				}
			}
			e := &entry{key: r.key, depth: r.rec.depth, reserved: j.cnt.reserved > 0}
			f.finish(b, j, r.rec.host, e, stateLeased, stateFailed, "damaged: its lease's record could not be read", now)
		}
		f.saveCounters(b, j)
		_, _ = f.apply(b, false)
	}
}

// revive makes a lease of its record, as if it had been granted by this
// process.
func (f *Frontier) revive(j *job, id uint64, rec *leaseRecord, now time.Time) *lease {
	q := j.queues[rec.host]
	if q == nil {
		q = f.addQueue(j, rec.host, now)
		if v, ok := f.get(queueKey(j.num, rec.host)); ok {
			if due, err := decodeQueue(queueKey(j.num, rec.host), v); err == nil {
				q.stored, q.due, q.subs = true, due, onDisk()
			}
		}
	}
	h := q.host
	f.know(q)
	for _, o := range h.origins {
		f.loadRobots(o)
	}
	l := &lease{id: id, job: j, queue: q, url: rec.url, page: rec.page, member: rec.member, length: rec.length,
		addrs: rec.addrs, allowance: rec.allowance, solo: rec.solo, told: rec.told}
	if rec.page == nil {
		o := f.load(rec.origin, now).origins[rec.scheme&1]
		t := &robotsTask{origin: o, queue: q, url: rec.url, visited: rec.visited, leased: true}
		if o.task == nil {
			o.task = t
			o.host.pins++
		}
		q.tasks = append(q.tasks, t)
		l.task = t
	} else if l.solo {
		f.solo = l
	}
	l.issued = now
	f.holdAgain(l, now)
	f.promise(l)
	// The downloader counts the deadline from its receipt; what the wall clock
	// did meanwhile is not known, so that the whole length is waited for.
	l.expires = now.Add(max(f.o.AdoptWait, l.length+f.o.LeaseGrace))
	l.latest = now.Add(max(f.o.MaxLease, l.length) + f.o.LeaseGrace)
	f.leases[id] = l
	heap.Push(&f.expiry, l)
	if limit, _ := j.polOf(h.key).Host(j.pol.Inside(h.addrs)); h.out == 0 || limit < h.outLimit {
		h.outLimit = limit
	}
	h.out++
	q.leased++
	j.leased++
	if j.maxBytes > 0 {
		j.bytesOut += l.allowance
	}
	return l
}
