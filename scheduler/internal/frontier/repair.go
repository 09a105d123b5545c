package frontier

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	crawlv1 "lycosa.dev/proto/gen/lycosa/crawl/v1"
)

// What the frontier is opened by and can make anew where it is damaged: the
// deployment's record from the numbers in use, a job's record from its copy, its
// counters from its URLs. Each costs nothing where all is well.

// findNumbers makes the deployment's record anew: the next job number is above
// every one that stands in a record.
func (f *Frontier) findNumbers() error {
	err := f.st.Scan([]byte{kindJournal}, after([]byte{kindJournal}), func(k, v []byte) bool {
		if e, err := decodeJournal(k, v); err == nil {
			f.nextNum = max(f.nextNum, e.job+1)
		}
		return true
	})
	return errors.Join(err, f.st.Scan([]byte{kindLease}, after([]byte{kindLease}), func(k, v []byte) bool {
		if l, err := decodeLease(k, v); err == nil {
			f.nextNum = max(f.nextNum, l.job+1)
		}
		return true
	}))
}

// jobFromCopy reads the copy of a job's record.
func (f *Frontier) jobFromCopy(id string) (*job, error) {
	key := jobCopyKey(id)
	v, ok, err := f.st.Get(key)
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, fmt.Errorf("%w: there is no copy", errBadRecord)
	}
	return decodeJob(key, v)
}

// recount makes a job's counters anew from its records. What only they knew,
// such as links found, begins again; pages and bytes are those of the last
// outcomes of its URLs, and of a round's limits all of them are spent.
func (f *Frontier) recount(j *job) error {
	c := counters{pages: j.base.pages, bytes: j.base.bytes, ran: j.base.ran}
	scan := func(prefix []byte, visit func(k, v []byte)) error {
		return f.st.Scan(prefix, after(prefix), func(k, v []byte) bool {
			visit(k, v)
			return true
		})
	}
	position := func(e *entry) {
		c.seq = max(c.seq, e.pos.given()+1)
		if e.reserved {
			c.reserved++
		}
	}
	err := errors.Join(
		scan(numbered(kindURL, j.num), func(k, v []byte) {
			rec, err := decodeURL(k, v)
			if err != nil {
				return
			}
			*c.of(rec.state)++
			if rec.entry == nil {
				return
			}
			r := rec.entry.outcomeOf(j.id, rec.host).GetFetch()
			c.bytes += uint64(max(0, r.GetReceivedBytes()))
			if r.GetClass() == crawlv1.OutcomeClass_OUTCOME_CLASS_HTTP {
				c.pages++
				c.fetches++
				c.status[min(int(r.GetStatus()/100), len(c.status)-1)]++
			}
		}),
		scan(numbered(kindQueued, j.num), func(k, v []byte) {
			if e, err := decodeQueued(k, v); err == nil {
				position(e)
			}
		}),
		scan([]byte{kindLease}, func(k, v []byte) {
			if l, err := decodeLease(k, v); err == nil && l.job == j.num && l.page != nil {
				position(l.page)
			}
		}),
		scan([]byte{kindJournal}, func(k, v []byte) {
			if e, err := decodeJournal(k, v); err == nil && e.job == j.num {
				c.pending += uint64(len(e.cands))
			}
		}),
		scan(numbered(kindMark, j.num), func(k, _ []byte) { c.seq = max(c.seq, binary.BigEndian.Uint64(k[len(k)-8:])+1) }),
	)
	j.cnt = c
	return err
}

// loadJobs reads the jobs' records.
func (f *Frontier) loadJobs() error {
	var bad [][2][]byte
	err := f.st.Scan([]byte{kindJob}, after([]byte{kindJob}), func(k, v []byte) bool {
		j, err := decodeJob(k, v)
		if err != nil {
			bad = append(bad, [2][]byte{slices.Clone(k), slices.Clone(v)})
			return true
		}
		f.addJob(j)
		return true
	})
	if err != nil {
		return err
	}
	for _, d := range bad {
		id := string(d[0][1:])
		j, err := f.jobFromCopy(id)
		if err != nil {
			// A job without its record has lost its secret: its URLs are not
			// readable. Going on without it would look like an empty crawl.
			return fmt.Errorf("%w: neither the record of job %q nor its copy can be read: %w", ErrCorrupt, id, err)
		}
		f.addJob(j)
		f.noteBad(d[0], d[1])
	}
	for _, j := range f.order {
		f.nextNum = max(f.nextNum, j.num+1)
	}
	return nil
}

// loadCounters reads a job's counters, or counts again.
func (f *Frontier) loadCounters(j *job) error {
	key := countersKey(j.num)
	v, ok, err := f.st.Get(key)
	if err != nil || !ok {
		return err
	}
	if j.cnt, err = decodeCounters(key, v); err == nil {
		return nil
	}
	f.log.Error("a job's counters are damaged; its URLs are counted again", "job", j.id, "error", err)
	f.noteBad(key, v)
	return f.recount(j)
}
