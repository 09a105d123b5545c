package frontier

import (
	"fmt"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	crawlv1 "lycosa.dev/proto/gen/lycosa/crawl/v1"
	jobv1 "lycosa.dev/proto/gen/lycosa/job/v1"
	schedulerv1 "lycosa.dev/proto/gen/lycosa/scheduler/v1"

	"lycosa.dev/scheduler/internal/frontier/store"
)

// versioned is an outcome of a page in a version.
func versioned(l *crawlv1.Lease, version int) *crawlv1.Outcome {
	etag := fmt.Sprintf("%q", fmt.Sprint("v", version))
	if l.GetValidators().GetEtag() == etag {
		return outcomeOf(l, 304)
	}
	o := outcomeOf(l, 200)
	o.PayloadDigest = fmt.Sprint("sha1:", version)
	o.Validators = &crawlv1.Validators{Etag: etag, PayloadDigest: o.PayloadDigest}
	return o
}

func recrawling(policy jobv1.RecrawlPolicy) func(*jobv1.Spec) {
	return func(s *jobv1.Spec) {
		s.Recrawl = &jobv1.Recrawl{Policy: policy, Interval: durationpb.New(time.Hour),
			MinInterval: durationpb.New(15 * time.Minute), MaxInterval: durationpb.New(4 * time.Hour)}
	}
}

// A page comes again at its due time, with the validators of its last visit,
// also after a restart in between.
func TestRecrawlAtAFixedInterval(t *testing.T) {
	mem := store.NewMemory()
	r := newRig(t, mem)
	r.job("j", testSpec(open24, recrawling(jobv1.RecrawlPolicy_RECRAWL_POLICY_FIXED)), "http://a.test/")
	var last time.Time
	for n := range 6 {
		l := r.mustLease("http://a.test/")
		now := r.clock.Now()
		if n > 0 && (now.Sub(last) < time.Hour || now.Sub(last) > time.Hour+2*time.Second) {
			t.Errorf("visit %d came after %s", n, now.Sub(last))
		}
		if got := l.GetValidators().GetEtag(); n > 0 && got != `"v1"` || n == 0 && got != "" {
			t.Errorf("visit %d: etag %q", n, got)
		}
		last = now
		r.commit(versioned(l, 1))
		if n == 2 {
			r.audit()
			_ = r.f.Close()
			mem = mem.Reopen()
			r.open(mem)
		}
	}
	if s := r.status("j"); s.State != jobRunning || s.Counters.Known != 1 || s.Counters.Done != 1 {
		t.Errorf("%s %v", s.State, s.Counters)
	}
	r.audit()
}

func TestRecrawlAdapts(t *testing.T) {
	r := newRig(t, store.NewMemory())
	r.job("j", testSpec(open24, recrawling(jobv1.RecrawlPolicy_RECRAWL_POLICY_ADAPTIVE)), "http://a.test/")
	versions := []int{1, 1, 1, 1, 2, 3, 4, 5, 6, 6}
	// First an hour; twice as long while nothing changes, up to 4h; half as
	// long when it has, down to 15m.
	want := []time.Duration{time.Hour, 2 * time.Hour, 4 * time.Hour, 4 * time.Hour, 2 * time.Hour, time.Hour, 30 * time.Minute, 15 * time.Minute, 15 * time.Minute}
	var last time.Time
	for n, v := range versions {
		l := r.mustLease("http://a.test/")
		now := r.clock.Now()
		if n > 0 {
			if d := now.Sub(last); d < want[n-1] || d > want[n-1]+2*time.Second {
				t.Errorf("visit %d came after %s, want %s", n, d, want[n-1])
			}
		}
		last = now
		r.commit(versioned(l, v))
	}
}

// A failed visit neither loses the validators nor ends the visits.
func TestRecrawlAfterFailure(t *testing.T) {
	r := newRig(t, store.NewMemory())
	r.job("j", testSpec(open24, recrawling(jobv1.RecrawlPolicy_RECRAWL_POLICY_FIXED), func(s *jobv1.Spec) { s.Politeness.MaxTries = 1 }), "http://a.test/")
	r.commit(versioned(r.mustLease("http://a.test/"), 1))
	r.commit(failureOf(r.mustLease("http://a.test/"), crawlv1.OutcomeClass_OUTCOME_CLASS_TIMEOUT))
	if l := r.mustLease("http://a.test/"); l.GetValidators().GetEtag() != `"v1"` {
		t.Errorf("validators %v", l.GetValidators())
	}
}

func TestRecrawlBySitemap(t *testing.T) {
	r := newRig(t, store.NewMemory())
	list := func(mod time.Time) *crawlv1.Candidate {
		c := candidates(1, "http://a.test/page")[0]
		c.HopPath, c.LastModified = "M", timestamppb.New(mod)
		return c
	}
	seed := candidates(0, "http://a.test/sitemap.xml")[0]
	seed.HopPath = "M"
	r.job("j", testSpec(open24, recrawling(jobv1.RecrawlPolicy_RECRAWL_POLICY_SITEMAP)))
	if _, _, err := r.f.AddSeeds(r.ctx, "j", []*crawlv1.Candidate{seed}); err != nil {
		t.Fatal(err)
	}
	r.work()
	start := r.clock.Now()
	mod := start.Add(-time.Hour)
	pages := 0
	for range 12 {
		l := r.wait(3 * time.Hour)
		if l == nil {
			t.Fatal("the sitemap is not visited again")
		}
		if l.Url == "http://a.test/page" {
			pages++
			r.commit(outcomeOf(l, 200))
			continue
		}
		if pages == 1 && r.clock.Now().Sub(start) > 3*time.Hour {
			mod = start.Add(3 * time.Hour) // the page has changed
		}
		r.commit(outcomeOf(l, 200), list(mod))
	}
	if pages != 2 {
		t.Errorf("the page was visited %d times, its lastmod changed once", pages)
	}
	r.audit()
}

// Another round asks by the validators of the last.
func TestRoundIsConditional(t *testing.T) {
	r := newRig(t, store.NewMemory())
	r.job("j", testSpec(open24), "http://a.test/")
	r.commit(versioned(r.mustLease("http://a.test/"), 1))
	r.wantEnd("j", reasonEmpty)
	if _, err := r.f.SetJobState(r.ctx, "j", schedulerv1.JobWish_JOB_WISH_RECRAWL); err != nil {
		t.Fatal(err)
	}
	r.work()
	l := r.mustLease("http://a.test/")
	if l.GetValidators().GetEtag() != `"v1"` {
		t.Errorf("validators %v", l.GetValidators())
	}
	r.commit(versioned(l, 1))
	r.wantEnd("j", reasonEmpty)
}

// A page that another round finds, or fetches, before the pass that queues the
// known ones has come to it is fetched once in that round, also over a restart
// and in the round after.
func TestRoundFetchesEachPageOnce(t *testing.T) {
	mem := store.NewMemory()
	r := newRig(t, mem)
	n := 0
	round := func(urls ...string) {
		t.Helper()
		want := map[string]bool{}
		for _, u := range urls {
			want[u] = true
		}
		for l := r.wait(time.Hour); l != nil; l = r.wait(time.Hour) {
			if !want[l.Url] {
				t.Errorf("round %d: %s is fetched, or once too often", n, l.Url)
			}
			delete(want, l.Url)
			r.commit(versioned(l, n))
		}
		for u := range want {
			t.Errorf("round %d: %s is not fetched", n, u)
		}
		r.wantEnd("j", reasonEmpty)
		r.audit()
		n++
	}
	// early fetches a new page of a round before its pass has begun.
	early := func(url string) {
		t.Helper()
		if _, err := r.f.SetJobState(r.ctx, "j", schedulerv1.JobWish_JOB_WISH_RECRAWL); err != nil {
			t.Fatal(err)
		}
		r.seed("j", url)
		ls := r.leaseBefore(1)
		if len(ls) != 1 || ls[0].Url != url {
			t.Fatalf("leased %v", ls)
		}
		a := r.f.Commit(r.ctx, &schedulerv1.CommitRequest{Outcome: versioned(ls[0], n), Candidates: candidates(1, url)})
		if a.Verdict != crawlv1.Verdict_VERDICT_DONE {
			t.Fatal(a)
		}
	}
	r.job("j", testSpec(open24), "http://a.test/")
	round("http://a.test/")
	early("http://b.test/")
	round("http://a.test/")
	early("http://c.test/")
	if err := r.f.Close(); err != nil {
		t.Fatal(err)
	}
	mem = mem.Reopen()
	r.open(mem)
	round("http://a.test/", "http://b.test/")
	// A pass that is given up for another round's leaves no page out.
	early("http://d.test/")
	r.wishNow(schedulerv1.JobWish_JOB_WISH_STOP)
	r.wishNow(schedulerv1.JobWish_JOB_WISH_RECRAWL)
	round("http://a.test/", "http://b.test/", "http://c.test/", "http://d.test/")
}

// leaseBefore leases what is queued, before the frontier does anything else that
// is due.
func (r *rig) leaseBefore(max int) []*crawlv1.Lease {
	r.t.Helper()
	for {
		ls, err := r.f.Lease(r.ctx, "d1", max)
		if err != nil {
			r.t.Fatal(err)
		}
		if len(ls) > 0 || !r.f.lookupOne(r.ctx) {
			return ls
		}
	}
}

// wishNow changes a job's state and lets nothing else happen.
func (r *rig) wishNow(w schedulerv1.JobWish) {
	r.t.Helper()
	if _, err := r.f.SetJobState(r.ctx, "j", w); err != nil {
		r.t.Fatal(err)
	}
}

// A lastmod without a time of day is some time of that day.
func TestLastModWithoutTime(t *testing.T) {
	day := time.Date(2024, 5, 1, 0, 0, 0, 0, time.UTC)
	if got, want := latestOf(day.Unix()), day.Add(24*time.Hour-time.Second).Unix(); got != want {
		t.Errorf("a date alone means at latest %d, want %d", got, want)
	}
	if at := day.Add(time.Hour).Unix(); latestOf(at) != at {
		t.Errorf("a time means at latest %d, want itself, %d", latestOf(at), at)
	}
}
