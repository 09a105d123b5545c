package frontier

import (
	"fmt"
	"hash/fnv"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	crawlv1 "lycosa.dev/proto/gen/lycosa/crawl/v1"
	jobv1 "lycosa.dev/proto/gen/lycosa/job/v1"
	schedulerv1 "lycosa.dev/proto/gen/lycosa/scheduler/v1"

	"lycosa.dev/scheduler/internal/politeness"
)

// Budgets of hosts and domains are exact, in pages and in bytes: what is out
// never takes more than is left, and nothing is left where URLs remain. Pages a
// day and bytes a second hold as well, and a Retry-After of minutes or hours is
// kept, over crashes and stops. The books are the web's (see ledger).
func TestLawOfEveryClockAndBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// Pages are large beside the MiB that an allowance leaves for headers, so
		// that several of a domain are out when its bytes come to their end.
		const hostPages, domainPages, hostBytes, domainBytes, largest = 14, 120, 12_800_000, 115_200_000, 2_560_000
		spec := testSpec(func(s *jobv1.Spec) {
			l, p := s.Limits, s.Politeness
			l.MaxHostPages, l.MaxDomainPages, l.MaxHostBytes, l.MaxDomainBytes, l.MaxPageBytes = hostPages, domainPages, hostBytes, domainBytes, largest
			p.HostLimit = &jobv1.ClockLimit{PagesPerDay: 9, RateBytes: 64_000}
			p.DomainLimit = &jobv1.ClockLimit{MinDelay: durationpb.New(200 * time.Millisecond), Concurrency: 3, RateBytes: 1_280_000, PagesPerDay: 90}
			p.AddressDelay = durationpb.New(time.Millisecond)
		})
		web := newSimWeb(func(host string, _ netip.Addr) map[string]politeness.Limit {
			return map[string]politeness.Limit{
				"host " + host:              {Delay: time.Second, Concurrency: 1, Rate: 64_000, PagesPerDay: 9},
				"domain " + simDomain(host): {Delay: 200 * time.Millisecond, Concurrency: 3, Rate: 1_280_000, PagesPerDay: 90},
			}
		})
		web.ledger = &ledger{accounts: map[string]*account{}, of: func(host string) map[string]account {
			return map[string]account{
				"host " + host:              {maxPages: hostPages, maxBytes: hostBytes},
				"domain " + simDomain(host): {maxPages: domainPages, maxBytes: domainBytes},
			}
		}}
		web.answer = func(l *crawlv1.Lease, n int) *crawlv1.Outcome {
			h := fnv.New32a()
			_, _ = h.Write([]byte(l.Url))
			x := h.Sum32()
			o := outcomeOf(l, 200)
			if x%11 == 0 && n == 0 {
				o = outcomeOf(l, 429+74*(x/11%2)) // or 503
				o.Fetch.RetryAfter = durationpb.New(time.Minute << (x / 22 % 8))
			}
			// Pages of every other domain are small: there the pages are spent
			// first, while much is out.
			size := int64(largest/2 + x/7%(largest/2))
			if d := simDomain(l.HostKey); d[len(d)-len("0.test")]%2 == 0 {
				size /= 8
			}
			o.Fetch.ReceivedBytes = min(size, l.ByteAllowance)
			return o
		}
		// Of the domains with many hosts the domain's budgets are spent first, of
		// those with three the hosts'.
		const pages = 20
		hosts := simHosts(simSize(160, 3000), simSize(8, 150))
		for h := range simSize(90, 4500) {
			hosts = append(hosts, fmt.Sprintf("h%d.e%d.test", h, h/3))
		}
		var phases []phase
		for i := range 12 {
			phases = append(phases, phase{time.Duration(90+i*i*40) * time.Second, i%2 == 0})
		}
		phases = append(phases, phase{90 * 24 * time.Hour, false})
		s := web.simulate(t, Options{Lookup: simLookup(1 << 22)}, phases, func(f *Frontier) {
			startJob(t, f, "j", spec, simSeeds(hosts, pages))
		})
		web.balance(t, s, hosts, pages)
		if web.restarts["crash"] == 0 || web.restarts["stop"] == 0 {
			t.Errorf("waits after a Retry-After over restarts: %v", web.restarts)
		}
		t.Logf("%d fetches under %d clocks and %d budgets; Retry-After kept over restarts: %v", web.fetches, len(web.clocks), len(web.ledger.accounts), web.restarts)
	})
}

func simDomain(host string) string { return host[strings.IndexByte(host, '.')+1:] }

// balance checks the books at the end: the frontier's counters say what the web
// saw, and a host of which URLs are left has spent a budget.
func (w *simWeb) balance(t *testing.T, s *schedulerv1.JobStatus, hosts []string, pages int) {
	t.Helper()
	if s.State != jobFinished || s.Reason != reasonEmpty {
		t.Errorf("the job is %s (%s) with %v", s.State, s.Reason, s.Counters)
	}
	total, spent := uint64(0), map[string]int{}
	for _, host := range hosts {
		a, d := w.ledger.accounts["host "+host], w.ledger.accounts["domain "+simDomain(host)]
		if a == nil {
			a = &account{}
		}
		total += a.pages
		switch {
		case d == nil || a.pages == uint64(pages):
			spent["nothing"]++
		case a.spent():
			spent[fmt.Sprintf("host, pages %v", a.pages == a.maxPages)]++
		case d.spent():
			spent[fmt.Sprintf("domain, pages %v", d.pages == d.maxPages)]++
		default:
			t.Errorf("%s has had %d of %d pages, %d bytes, its domain %d pages, %d bytes: no budget is spent", host, a.pages, pages, a.bytes, d.pages, d.bytes)
		}
	}
	if s.Counters.Pages != total || s.Counters.Done != total || s.Counters.Queued != uint64(len(hosts)*pages)-total {
		t.Errorf("the web has given %d pages; the frontier's counters are %v", total, s.Counters)
	}
	if len(spent) < 4 {
		t.Errorf("not every kind of budget was spent: %v", spent)
	}
	t.Logf("hosts by the budget that they spent: %v", spent)
}
