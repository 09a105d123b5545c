package frontier

import (
	"context"
	"fmt"
	"slices"

	crawlv1 "lycosa.dev/proto/gen/lycosa/crawl/v1"
)

// AddSeeds adds seeds to a job and decides them at once. It returns how many
// are new to the job and how many it knew; they are durable then. They join
// what the scope is relative to. Candidates must have URL and host key.
// Errors: ErrNoJob.
func (f *Frontier) AddSeeds(ctx context.Context, id string, cands []*crawlv1.Candidate) (added, known int, err error) {
	f.decideMu.Lock()
	defer f.decideMu.Unlock()
	for {
		n, err := f.decide(decideBatch) // what came before is decided before
		if err != nil {
			return 0, 0, err
		}
		if n == 0 {
			break
		}
	}
	for batch := range slices.Chunk(cands, decideBatch) {
		n, err := f.addSeeds(ctx, id, batch)
		if err != nil {
			return added, known, err
		}
		added += n
		known += len(batch) - n
	}
	return added, known, nil
}

func (f *Frontier) addSeeds(ctx context.Context, id string, cands []*crawlv1.Candidate) (int, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	if err := f.flushSeen(); err != nil {
		return 0, err
	}
	f.mu.Lock()
	j, err := f.find(id)
	if err == nil {
		err = f.usable()
	}
	f.mu.Unlock()
	if err != nil {
		return 0, err
	}
	e := journalEntry{job: j.num}
	for _, c := range cands {
		e.cands = append(e.cands, seedOf(c))
	}
	picks := f.pick([]journalEntry{e}, []*job{j})
	if err := f.sift(picks); err != nil {
		return 0, err
	}
	added := 0
	for _, p := range picks {
		if p.fresh {
			added++
		}
	}
	f.mu.Lock()
	if f.jobs[id] != j {
		f.mu.Unlock()
		return 0, fmt.Errorf("job %q: %w", id, ErrNoJob)
	}
	b := f.newBatch()
	f.admit(b, picks, make([]journalEntry, 1), f.now())
	roots := len(j.roots)
	for _, c := range cands {
		j.takeRoot(c.GetUrl())
	}
	if len(j.roots) > roots {
		j.version++
		f.publish()
		f.saveJob(b, j)
	}
	f.saveCounters(b, j)
	p, err := f.apply(b, true)
	if err == nil {
		f.activate(f.now()) // it reads what the batch has written
	}
	f.mu.Unlock()
	if err != nil {
		return 0, err
	}
	return added, f.await(p)
}

// seedOf is a candidate marked as a seed.
func seedOf(c *crawlv1.Candidate) *crawlv1.Candidate {
	return &crawlv1.Candidate{Url: c.GetUrl(), HostKey: c.GetHostKey(), Priority: c.GetPriority(), Depth: c.GetDepth(),
		HopPath: c.GetHopPath(), Referrer: c.GetReferrer(), Seed: true, Redirects: c.GetRedirects(),
		Rule: orElse(c.GetRule(), "seed"), LastModified: c.GetLastModified()}
}
