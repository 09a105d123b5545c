package frontier

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	crawlv1 "lycosa.dev/proto/gen/lycosa/crawl/v1"
	jobv1 "lycosa.dev/proto/gen/lycosa/job/v1"

	"lycosa.dev/scheduler/internal/politeness"
)

// Big hosts do not starve small ones, hosts that fail do not hold up others,
// Retry-After is kept, and the crawl ends with a list of what it gave up:
// a crawl that stands still without a reason is heritrix3 #203, #252 and #420.
//
// The bound: with q queues and m slots, a queue gets its slot after q/m turns at
// most, each of turnLength leases of the longest fetch and the longest delay. That
// holds for each service of each host that answers, from when its delay and its
// Retry-After are over, and after a crash and a stop as well.
func TestNothingStarves(t *testing.T) {
	t.Run("many hosts", func(t *testing.T) {
		nothingStarves(t, 100, simSize(40, 1000), simSize(150, 800), simSize(1200, 9000), simSize(3, 25))
	})
	// There are more big hosts than slots, and each alone takes longer than the
	// bound: without rotation the others would wait for all that time.
	t.Run("big hosts in all slots", func(t *testing.T) { nothingStarves(t, 20, 24, 900, 36, 3) })
}

func nothingStarves(t *testing.T, slots, big, bigPages, small, smallPages int) {
	synctest.Test(t, func(t *testing.T) {
		const longestFetch, longestDelay = 2 * time.Second, 10 * time.Second
		var seeds []string
		want := 0
		for h := range big { // the big ones come first
			for p := range bigPages {
				seeds = append(seeds, fmt.Sprintf("http://big%d.test/%d", h, p))
				want++
			}
		}
		for h := range small {
			kind := "small"
			switch {
			case h%100 == 7:
				kind = "dead"
			case h%10 == 3:
				kind = "busy"
			}
			for p := range smallPages {
				seeds = append(seeds, fmt.Sprintf("http://%s%d.test/%d", kind, h, p))
				if kind != "dead" {
					want++
				}
			}
		}
		queues := big + small
		bound := time.Duration((queues+slots-1)/slots+1) * turnLength * (longestFetch + longestDelay)
		start := time.Now()
		web := newSimWeb(func(host string, _ netip.Addr) map[string]politeness.Limit {
			return map[string]politeness.Limit{host: {Delay: time.Second, Concurrency: 1}}
		})
		web.turns = newTurnLaw(bound, longestDelay)
		web.answer = func(l *crawlv1.Lease, n int) *crawlv1.Outcome {
			switch {
			case strings.HasPrefix(l.HostKey, "dead"):
				return failureOf(l, crawlv1.OutcomeClass_OUTCOME_CLASS_CONNECT)
			case strings.HasPrefix(l.HostKey, "busy") && n == 0:
				o := outcomeOf(l, 429)
				o.Fetch.RetryAfter = durationpb.New(17 * time.Minute)
				return o
			}
			return outcomeOf(l, 200)
		}
		spec := testSpec(func(s *jobv1.Spec) {
			s.Politeness.AddressDelay = durationpb.New(time.Millisecond)
		})
		s := web.simulate(t, Options{Lookup: simLookup(1 << 22), MaxActiveHosts: slots}, []phase{{time.Duration(simSize(20, 150)) * time.Minute, true}, {time.Duration(simSize(15, 45)) * time.Minute, false}, {30 * 24 * time.Hour, false}}, func(f *Frontier) {
			startJob(t, f, "j", spec, seeds)
		})
		if s.State != jobFinished || s.Reason != reasonEmpty || s.Counters.Done != uint64(want) || s.Counters.Failed+s.Counters.Queued != uint64(len(seeds)-want) {
			t.Fatalf("the job is %s (%s) with %v, want %d done of %d", s.State, s.Reason, s.Counters, want, len(seeds))
		}
		if n := len(web.turns.ended); n != queues {
			t.Errorf("%d of %d hosts were fetched", n, queues)
		}
		if small > 1000 && web.restarts["crash"]*web.restarts["stop"] == 0 {
			t.Errorf("waits after a Retry-After over restarts: %v", web.restarts)
		}
		dead := 0
		for _, d := range s.Deferred {
			if strings.HasPrefix(d.HostKey, "dead") {
				dead++
			}
		}
		if dead != min(statusListed, (small+92)/100) {
			t.Errorf("%d dead hosts are listed: %v", dead, s.Deferred)
		}
		t.Logf("%d fetches in %s; no ready queue waited longer than %s, the bound is %s; Retry-After kept over restarts: %v", web.fetches, time.Since(start), web.turns.worst, bound, web.restarts)
	})
}

// Queues that wait under one clock are served in the order in which they came
// to it: the hosts of a domain take turns. From one fetch of a host to its next
// there are as many as there are other hosts at most, beside those in the time
// in which the host's own delay keeps it away (10s, a fetch in 200ms).
func TestTurnsUnderAClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hosts := simHosts(200, 1)
		last := map[string]int{}
		n := 0
		web := newSimWeb(func(host string, _ netip.Addr) map[string]politeness.Limit {
			n++
			if was, ok := last[host]; ok && n-was > len(hosts)+50+3 {
				t.Errorf("%s waited for %d fetches of its domain, which has %d hosts", host, n-was, len(hosts))
			}
			last[host] = n
			return map[string]politeness.Limit{"domain": {Delay: 200 * time.Millisecond, Concurrency: 3}}
		})
		spec := testSpec(func(s *jobv1.Spec) {
			s.Politeness.DomainLimit = &jobv1.ClockLimit{MinDelay: durationpb.New(200 * time.Millisecond), Concurrency: 3}
		})
		s := web.simulate(t, Options{Lookup: simLookup(1 << 22)}, []phase{{24 * time.Hour, false}}, func(f *Frontier) {
			startJob(t, f, "j", spec, simSeeds(hosts, 8))
		})
		if s.State != jobFinished || s.Counters.Done != 1600 {
			t.Errorf("the job is %s with %v", s.State, s.Counters)
		}
	})
}
