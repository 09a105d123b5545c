package frontier

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	crawlv1 "lycosa.dev/proto/gen/lycosa/crawl/v1"
	schedulerv1 "lycosa.dev/proto/gen/lycosa/scheduler/v1"

	"lycosa.dev/scheduler/internal/frontier/store"
)

// cpuTime is the processor time of the process so far.
func cpuTime() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkFrontier crawls b.N pages of 1000 synthetic hosts: leases in
// batches, commits from many goroutines, decisions beside. "cpu-us/page" is
// all the processor time of the process, the making of the candidates and the
// store's background work included.
//
// links is the number of candidates a page that reach the frontier, fresh how
// many of them are new: 1.2 and 1 behind the extractors' cache, 40 and 1
// without it.
func BenchmarkFrontier(b *testing.B) {
	for _, c := range []struct {
		name  string
		extra float64 // known candidates a page beside the new one
	}{{"candidates=1.2", 0.2}, {"candidates=40", 39}} {
		b.Run(c.name, func(b *testing.B) { benchFrontier(b, c.extra) })
	}
}

func benchFrontier(b *testing.B, extra float64) {
	const hosts = 1000
	s, err := store.OpenPebble(b.TempDir(), store.PebbleOptions{})
	if err != nil {
		b.Fatal(err)
	}
	f, err := Open(b.Context(), Options{Store: s, Lookup: testLookup(ClockFunc(time.Now))})
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(b.Context())
	var wg sync.WaitGroup
	wg.Go(func() { _ = f.Run(ctx) })
	f.SetMembers(1, []string{"d1"})
	spec := testSpec(open24)
	spec.Limits.Concurrency = 512
	if _, _, err := f.ApplyJob(ctx, "j", spec, true); err != nil {
		b.Fatal(err)
	}
	var seeds []*crawlv1.Candidate
	for h := range hosts {
		for p := range 3 {
			seeds = append(seeds, candidates(0, fmt.Sprintf("http://host-%d.test/seed/%d", h, p))...)
		}
	}
	if _, _, err := f.AddSeeds(ctx, "j", seeds); err != nil {
		b.Fatal(err)
	}
	if _, err := f.SetJobState(ctx, "j", schedulerv1.JobWish_JOB_WISH_START); err != nil {
		b.Fatal(err)
	}
	leases := make(chan *crawlv1.Lease, 512)
	var done, made atomic.Int64
	var workers sync.WaitGroup
	commit := func(l *crawlv1.Lease) {
		o := outcomeOf(l, 200)
		o.PayloadDigest, o.ContentType = "sha1:ABCDEFGHIJKLMNOPQRSTUVWXYZ234567", "text/html"
		o.Stored = []*crawlv1.StoredRecord{{Store: "warc", File: "job-20260101000000-00001.warc.gz", Offset: done.Load() * 20000, Length: 20000}}
		n := made.Add(1)
		req := &schedulerv1.CommitRequest{Outcome: o}
		add := func(page int64) {
			host := fmt.Sprintf("host-%d.test", page%hosts)
			req.Candidates = append(req.Candidates, &crawlv1.Candidate{Url: fmt.Sprintf("http://%s/section/page-%d.html", host, page),
				HostKey: host, Depth: l.Depth + 1, HopPath: "L", Referrer: l.Url, Rule: "scope any"})
		}
		add(n)
		known := int(extra)
		if frac := extra - float64(known); frac > 0 && float64(n%10) < frac*10 {
			known++
		}
		for i := range known {
			add(max(0, n-1-int64(i)*37))
		}
		f.Commit(ctx, req)
		done.Add(1)
	}
	for range 256 {
		workers.Go(func() {
			for l := range leases {
				commit(l)
			}
		})
	}
	b.ResetTimer()
	cpu := cpuTime()
	given := 0
	for given < b.N {
		ls, err := f.Lease(ctx, "d1", min(128, b.N-given))
		if err != nil {
			b.Fatal(err)
		}
		if len(ls) == 0 {
			<-f.Ready("d1")
			continue
		}
		given += len(ls)
		for _, l := range ls {
			leases <- l
		}
	}
	close(leases)
	workers.Wait()
	b.ReportMetric(float64((cpuTime()-cpu).Microseconds())/float64(b.N), "cpu-us/page")
	b.StopTimer()
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	b.ReportMetric(float64(m.HeapAlloc)/(1<<20), "heap-MiB")
	cancel()
	wg.Wait()
	if err := f.Close(); err != nil {
		b.Fatal(err)
	}
}
