package frontier

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	crawlv1 "lycosa.dev/proto/gen/lycosa/crawl/v1"
	jobv1 "lycosa.dev/proto/gen/lycosa/job/v1"
	schedulerv1 "lycosa.dev/proto/gen/lycosa/scheduler/v1"

	"lycosa.dev/scheduler/internal/frontier/store"
)

// crawlAll fetches until nothing comes for a while and counts pages by host.
func (r *rig) crawlAll(each func(l *crawlv1.Lease) *crawlv1.Outcome) map[string]int {
	r.t.Helper()
	got := map[string]int{}
	for {
		l := r.wait(48 * time.Hour)
		if l == nil {
			return got
		}
		if l.Purpose == crawlv1.Purpose_PURPOSE_PAGE {
			got[l.HostKey]++
		}
		if each == nil {
			r.commit(outcomeOf(l, 200))
		} else {
			r.commit(each(l))
		}
	}
}

// A host over its budget is retired, its URLs wait on disk without memory, the
// job ends and lists it; a raised budget brings it back. A crawl that seems to
// stand still because its queues are retired is heritrix3 #203, #252 and #420:
// here it has ended, with the reason at hand.
func TestBudgetOfAHost(t *testing.T) {
	mem := store.NewMemory()
	r := newRig(t, mem)
	spec := func(n uint64) *jobv1.Spec {
		return testSpec(open24, func(s *jobv1.Spec) { s.Limits.MaxHostPages = n })
	}
	var seeds []string
	for i := range 10 {
		seeds = append(seeds, fmt.Sprintf("http://big.test/%d", i))
	}
	r.job("j", spec(4), append(seeds, "http://small.test/1", "http://small.test/2")...)
	got := r.crawlAll(nil)
	if got["big.test"] != 4 || got["small.test"] != 2 {
		t.Fatalf("fetched %v", got)
	}
	s := r.wantEnd("j", reasonEmpty)
	if len(s.Retired) != 1 || s.Retired[0].HostKey != "big.test" || s.Retired[0].Reason != "budget: max_host_pages 4" || s.Counters.Queued != 6 {
		t.Errorf("retired %v, counters %v", s.Retired, s.Counters)
	}
	e := r.explain("j", "http://big.test/9")
	if e.State != stateQueued || e.Queue.State != schedulerv1.QueueState_QUEUE_STATE_RETIRED || e.Queue.Reason != "budget: max_host_pages 4" {
		t.Errorf("why: %s, queue %s %q", e.State, e.Queue.State, e.Queue.Reason)
	}
	if r.f.active != 0 {
		t.Errorf("%d queues are in memory", r.f.active)
	}
	_ = r.f.Close()
	r.open(mem.Reopen())
	r.job("j", spec(7))
	if got = r.crawlAll(nil); got["big.test"] != 3 {
		t.Errorf("a budget raised from 4 to 7 gave %v", got)
	}
	r.wantEnd("j", reasonEmpty)
	r.job("j", spec(0))
	if got = r.crawlAll(nil); got["big.test"] != 3 {
		t.Errorf("without a budget: %v", got)
	}
	if s = r.wantEnd("j", reasonEmpty); s.Counters.Queued != 0 || len(s.Retired) != 0 {
		t.Errorf("at the end: %v, retired %v", s.Counters, s.Retired)
	}
}

func TestBudgetOfADomain(t *testing.T) {
	r := newRig(t, store.NewMemory())
	var seeds []string
	for i := range 40 {
		seeds = append(seeds, fmt.Sprintf("http://h%d.example.test/%d", i%8, i), fmt.Sprintf("http://other.test/%d", i))
	}
	r.job("j", testSpec(open24, func(s *jobv1.Spec) { s.Limits.MaxDomainPages = 13 }), seeds...)
	out := map[uint64]*crawlv1.Lease{}
	pages := map[string]int{}
	for {
		for _, l := range r.lease(5) {
			out[l.Id] = l
		}
		if len(out) == 0 {
			break
		}
		for id, l := range out {
			status := uint32(200)
			if pages[l.HostKey]%3 == 2 {
				status = 503 // a try that is no page yet
			}
			pages[l.HostKey]++
			o := outcomeOf(l, status)
			o.Fetch.RetryAfter = durationpb.New(0)
			r.commit(o)
			delete(out, id)
			break
		}
	}
	s := r.wantEnd("j", reasonEmpty)
	if s.Counters.Pages != 26 {
		t.Errorf("%d pages, two domains may have 13 each", s.Counters.Pages)
	}
	for _, q := range s.Retired {
		if q.Reason != "budget: max_domain_pages 13" {
			t.Errorf("%s: %s", q.HostKey, q.Reason)
		}
	}
}

// No lease may take more bytes than its host's budget leaves.
func TestBudgetOfBytes(t *testing.T) {
	r := newRig(t, store.NewMemory())
	const limit = 10_000_000
	var seeds []string
	for i := range 30 {
		seeds = append(seeds, fmt.Sprintf("http://a.test/%d", i))
	}
	r.job("j", testSpec(open24, func(s *jobv1.Spec) { s.Limits.MaxHostBytes, s.Politeness.PerHost = limit, 4 }), seeds...)
	received := int64(0)
	r.crawlAll(func(l *crawlv1.Lease) *crawlv1.Outcome {
		if received+l.ByteAllowance > limit {
			t.Errorf("a lease may take %d of the %d that are left", l.ByteAllowance, limit-received)
		}
		o := outcomeOf(l, 200)
		o.Fetch.ReceivedBytes = min(l.ByteAllowance, 3_000_000)
		received += o.Fetch.ReceivedBytes
		return o
	})
	if s := r.wantEnd("j", reasonEmpty); received != limit || len(s.Retired) != 1 {
		t.Errorf("received %d of %d, retired %v", received, limit, s.Retired)
	}
}

// Each failure class has its own wait and its own number of tries, and a crawl
// with dead hosts ends and lists them.
func TestFailureClasses(t *testing.T) {
	classes := map[string]crawlv1.OutcomeClass{
		"dns": crawlv1.OutcomeClass_OUTCOME_CLASS_DNS, "connect": crawlv1.OutcomeClass_OUTCOME_CLASS_CONNECT,
		"tls": crawlv1.OutcomeClass_OUTCOME_CLASS_TLS, "timeout": crawlv1.OutcomeClass_OUTCOME_CLASS_TIMEOUT,
		"http": crawlv1.OutcomeClass_OUTCOME_CLASS_HTTP, "content": crawlv1.OutcomeClass_OUTCOME_CLASS_CONTENT,
	}
	rules := []*jobv1.FailureRule{
		{Class: jobv1.FailureClass_FAILURE_CLASS_DNS, Wait: durationpb.New(time.Minute), MaxTries: 2},
		{Class: jobv1.FailureClass_FAILURE_CLASS_CONNECT, Wait: durationpb.New(2 * time.Minute), MaxTries: 3},
		{Class: jobv1.FailureClass_FAILURE_CLASS_TLS, Wait: durationpb.New(10 * time.Minute), MaxTries: 1},
		{Class: jobv1.FailureClass_FAILURE_CLASS_TIMEOUT, Wait: durationpb.New(30 * time.Second), MaxTries: 5},
		{Class: jobv1.FailureClass_FAILURE_CLASS_HTTP, Wait: durationpb.New(time.Hour), MaxTries: 4},
	}
	want := map[string]struct {
		tries int
		wait  time.Duration
	}{"dns": {2, time.Minute}, "connect": {3, 2 * time.Minute}, "tls": {1, 0}, "timeout": {5, 30 * time.Second}, "http": {4, time.Hour}, "content": {1, 0}}
	r := newRig(t, store.NewMemory())
	var seeds []string
	for name := range classes {
		seeds = append(seeds, "http://"+name+".test/")
	}
	slices.Sort(seeds)
	r.job("j", testSpec(open24, func(s *jobv1.Spec) { s.Politeness.Failures = rules }), seeds...)
	last := map[string]time.Time{}
	got := r.crawlAll(func(l *crawlv1.Lease) *crawlv1.Outcome {
		name := strings.TrimSuffix(l.HostKey, ".test")
		now := r.clock.Now()
		if t0 := last[name]; !t0.IsZero() && now.Sub(t0) < want[name].wait {
			t.Errorf("%s was tried again after %s", name, now.Sub(t0))
		}
		last[name] = now
		if name == "http" {
			return outcomeOf(l, 503)
		}
		return failureOf(l, classes[name])
	})
	for name, w := range want {
		if got[name+".test"] != w.tries {
			t.Errorf("%s was tried %d times, want %d", name, got[name+".test"], w.tries)
		}
	}
	s := r.wantEnd("j", reasonEmpty)
	if s.Counters.Failed != 6 || len(s.Deferred) != 5 {
		t.Errorf("failed %d, deferred %v", s.Counters.Failed, s.Deferred)
	}
}

func TestStrategies(t *testing.T) {
	for _, c := range []struct {
		strategy jobv1.OrderStrategy
		want     string
	}{
		{jobv1.OrderStrategy_ORDER_STRATEGY_UNSPECIFIED, "/ /p1 /a /b /c /a/1 /b/1 /a/2"},
		{jobv1.OrderStrategy_ORDER_STRATEGY_BREADTH_FIRST, "/ /p1 /a /b /c /a/1 /b/1 /a/2"},
		{jobv1.OrderStrategy_ORDER_STRATEGY_DEPTH_FIRST, "/ /c /b /b/1 /a /a/1 /a/2 /p1"},
	} {
		r := newRig(t, store.NewMemory())
		r.job("j", testSpec(open24, func(s *jobv1.Spec) { s.Order = &jobv1.Order{Strategy: c.strategy} }), "http://a.test/")
		links := map[string][]string{"/": {"/p1", "/a", "/b", "/c"}, "/a": {"/a/1"}, "/b": {"/b/1"}, "/a/1": {"/a/2"}}
		var order []string
		for {
			l := r.wait(time.Hour)
			if l == nil {
				break
			}
			path := pathOf(l.Url)
			order = append(order, path)
			var cands []*crawlv1.Candidate
			for _, p := range links[path] {
				x := candidates(l.Depth+1, "http://a.test"+p)[0]
				if p != "/p1" {
					x.Priority = 5
				}
				cands = append(cands, x)
			}
			r.commit(outcomeOf(l, 200), cands...)
		}
		if got := strings.Join(order, " "); got != c.want {
			t.Errorf("%s: %s, want %s", c.strategy, got, c.want)
		}
	}
}

// Three of four places go to the hosts of the first precedence that are ready,
// and nobody starves: a ready queue of precedence p, at place n of its list, is
// served after n×4^(p+1)/3 + 4^p others at most.
func TestPrecedenceIsBounded(t *testing.T) {
	var r readyQueues
	const each = 50
	place := map[*queue]int{}
	for level := range uint8(4) {
		for n := range each {
			q := &queue{level: level}
			place[q] = n + 1
			r.push(q)
		}
	}
	first := map[uint8]int{}
	seen := map[*queue]bool{}
	for taken := 1; len(seen) < 4*each; taken++ {
		q := r.pop()
		if taken <= 40 {
			first[q.level]++
		}
		if !seen[q] {
			power := 1
			for range q.level {
				power *= 4
			}
			if taken > place[q]*power*4/3+power {
				t.Errorf("place %d of precedence %d was served as number %d", place[q], q.level, taken)
			}
			seen[q] = true
		}
		r.push(q) // it is ready again at once
	}
	if first[0] != 30 || first[1] < 7 {
		t.Errorf("of the first 40: %v", first)
	}
}
