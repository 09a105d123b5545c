package frontier

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	crawlv1 "lycosa.dev/proto/gen/lycosa/crawl/v1"
	jobv1 "lycosa.dev/proto/gen/lycosa/job/v1"
	schedulerv1 "lycosa.dev/proto/gen/lycosa/scheduler/v1"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"lycosa.dev/scheduler/internal/frontier/store"
)

// damageSpec is a job that makes records of every kind.
func damageSpec(s *jobv1.Spec) {
	s.Limits.MaxHostPages, s.Limits.MaxDepth = 4, proto.Uint32(5)
	s.Politeness.Robots = jobv1.RobotsPolicy_ROBOTS_POLICY_OBEY
	s.Politeness.DomainLimit = &jobv1.ClockLimit{PagesPerDay: 1000, RateBytes: 1 << 30}
	s.Fetch = &jobv1.Fetch{AllowNet: []string{"10.0.0.0/8"}}
	s.Recrawl = &jobv1.Recrawl{}
}

// damageRig is a frontier in the middle of a crawl: a host done, one retired, one
// held, one waiting, leases out.
func damageRig(t *testing.T) (*rig, *store.Memory) {
	t.Helper()
	mem := store.NewMemory()
	r := newRig(t, mem)
	var seeds []string
	for h := range 4 {
		for p := range 6 {
			seeds = append(seeds, fmt.Sprintf("http://h%d.test/%d", h, p))
		}
	}
	r.job("j", testSpec(open24, damageSpec), seeds...)
	if _, _, err := r.f.UpdateQueue(r.ctx, "j", "h3.test", schedulerv1.QueueAction_QUEUE_ACTION_RETIRE, time.Time{}, "test"); err != nil {
		t.Fatal(err)
	}
	for range 14 {
		if l := r.wait(time.Minute); l != nil {
			r.commit(damageOutcome(l), damageLinks(l)...)
		}
	}
	return r, mem
}

func damageOutcome(l *crawlv1.Lease) *crawlv1.Outcome {
	if l.Purpose == crawlv1.Purpose_PURPOSE_ROBOTS {
		o := outcomeOf(l, 200)
		o.RobotsBody = []byte("User-agent: *\nDisallow: /private")
		return o
	}
	return outcomeOf(l, 200)
}

func damageLinks(l *crawlv1.Lease) []*crawlv1.Candidate {
	if l.Purpose == crawlv1.Purpose_PURPOSE_ROBOTS || l.Depth > 1 {
		return nil
	}
	return candidates(l.Depth+1, l.Url+"/x", "http://dead.test/1")
}

// plant makes sure that there is a record of a kind, and flips a bit of it.
func plant(t *testing.T, r *rig, mem *store.Memory, kind byte) (key []byte) {
	t.Helper()
	num := r.f.jobs["j"].num
	var value []byte
	_ = mem.Scan([]byte{kind}, []byte{kind + 1}, func(k, v []byte) bool {
		key, value = bytes.Clone(k), bytes.Clone(v)
		return false
	})
	var b store.Batch
	if key == nil { // a kind that comes and goes
		switch kind {
		case kindJournal:
			key = journalKey(r.f.journal.next)
			e := journalEntry{job: num, cands: candidates(1, "http://j.test/")}
			value = e.encode(key)
		case kindSweep:
			key = sweepKey(num)
			value = (&sweep{}).encode(key)
		case kindLower:
			key = lowerKey(num, 77)
			value = encodeLower(key, 1, 0)
		case kindDeferred:
			key = numbered(kindDeferred, num)
			value = encodeDeferred(key, []deferredHost{{"dead.test", "x"}})
		case kindRuns:
			key = runsKey(num)
			value = encodeRuns(key, nil)
		case kindDNS:
			key = dnsKey("h1.test")
			value = encodeAddresses(key, &crawlv1.HostAddresses{Host: "h1.test", ExpiresAt: timestamppb.New(r.clock.Now())})
		case kindHost:
			key = hostKeyOf("h1.test")
			value = (&hostRecord{failures: 1}).encode(key)
		default:
			t.Fatalf("no record of kind %c", kind)
		}
	}
	value[len(value)-1] ^= 1
	b.Set(key, value)
	if _, err := mem.Apply(&b, true); err != nil {
		t.Fatal(err)
	}
	return key
}

// ask asks all questions that there are.
func (r *rig) ask() {
	r.t.Helper()
	for _, u := range []string{"http://h0.test/0", "http://h1.test/1", "http://h3.test/1", "http://new.test/"} {
		_, _ = r.f.Explain(r.ctx, "j", u)
	}
	_, _ = r.f.Job(r.ctx, "j")
	_ = r.f.EachURL(r.ctx, "j", func(*URLInfo) error { return nil })
}

// A record of any kind with one flipped bit ends nothing, whether it is found at
// the start or while the frontier works: the record is set aside, or rebuilt, or
// left for the audit, and is reported by one of them; the crawl goes on, also
// after another start.
func TestFlippedBitOfEveryKindIsNotFatal(t *testing.T) {
	for kind, k := range recordKinds {
		for _, when := range []string{"at open", "at run time"} {
			t.Run(fmt.Sprintf("%s %c %s", when, kind, k.what), func(t *testing.T) {
				r, mem := damageRig(t)
				leased := r.lease(2)
				reopen := func() {
					_ = r.f.Close()
					mem = mem.Reopen()
				}
				var key []byte
				if when == "at open" {
					reopen()
					key = plant(t, r, mem, kind)
					rep, err := AuditStore(mem)
					if err != nil {
						t.Fatalf("audit: %v", err)
					}
					if !reports(rep, kind) {
						t.Errorf("the audit does not name the damage: %v", rep.Violations)
					}
					r.open(mem)
				} else {
					key = plant(t, r, mem, kind)
					for _, l := range leased {
						r.commit(damageOutcome(l), damageLinks(l)...)
					}
				}
				r.ask()
				for range 4 {
					if l := r.wait(time.Hour); l != nil {
						r.commit(damageOutcome(l))
					}
				}
				if err := r.f.usable(); err != nil {
					t.Fatalf("the frontier has ended: %v", err)
				}
				told := r.f.bad > 0
				reopen()
				rep, err := AuditStore(mem)
				if err != nil {
					t.Fatal(err)
				}
				v, still, _ := mem.Get(key)
				anew := still && badRecord(key, v) == nil || !still // written again, or gone with what it told
				if !told && !anew && !reports(rep, kind) {
					t.Errorf("nobody reports the damage: %v", rep.Violations)
				}
				if told && rep.Quarantined == 0 && kind != kindRuns && kind != kindRecent {
					t.Errorf("the record was not set aside")
				}
				r.open(mem)
				for range 30 {
					if l := r.wait(time.Minute); l != nil {
						r.commit(damageOutcome(l))
					}
				}
				last, err := AuditStore(mem)
				if err != nil {
					t.Fatal(err)
				}
				// What nobody has needed to read stays where it is, and is named; a
				// URL that cannot be read is missed by what counts it, a seen set is
				// built anew with the next link, and a hold's queue is free again.
				for _, v := range last.Violations {
					if v.Rule != "record" && !strings.ContainsRune(string([]byte{kindURL, kindRuns, kindRecent, kindHold}), rune(kind)) {
						t.Errorf("in the end: %s: %s", v.Rule, v.Detail)
					}
				}
				if s := r.status("j"); s.Counters.Done < 6 || s.Counters.Queued > 24 {
					t.Errorf("the crawl has not gone on: %s (%s), %v", s.State, s.Reason, s.Counters)
				}
			})
		}
	}
}

// reports tells whether an audit has found damage to a kind.
func reports(rep *AuditReport, kind byte) bool {
	for _, v := range rep.Violations {
		if v.Rule == "record" || v.Rule == "seen-set" && (kind == kindRuns || kind == kindRecent) {
			return true
		}
	}
	return rep.Quarantined > 0
}

// Both records of a job damaged: its secret is lost, and the frontier says so.
func TestJobWithoutRecordIsRefused(t *testing.T) {
	r, mem := damageRig(t)
	_ = r.f.Close()
	mem = mem.Reopen()
	plant(t, r, mem, kindJob)
	plant(t, r, mem, kindJobCopy)
	_, err := Open(t.Context(), Options{Store: mem})
	if err == nil || !strings.Contains(err.Error(), `job "j"`) {
		t.Errorf("open: %v", err)
	}
}
