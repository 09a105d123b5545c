package frontier

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"slices"

	crawlv1 "lycosa.dev/proto/gen/lycosa/crawl/v1"
	schedulerv1 "lycosa.dev/proto/gen/lycosa/scheduler/v1"

	"lycosa.dev/scheduler/internal/frontier/sieve"
	"lycosa.dev/scheduler/internal/frontier/store"
)

// Violation is one broken invariant.
type Violation struct {
	// Rule names the invariant: "conservation", "queue-entry", "lease",
	// "queue-order", "stored-before-done", "seen-set", "record", "orphan".
	Rule string
	// Job is the job concerned; empty: the deployment.
	Job string
	// Detail says what is wrong and where.
	Detail string
}

// maxViolations bounds how many of one rule are listed for one job; the last
// entry says how many more there are.
const maxViolations = 20

// AuditReport is what Audit found.
type AuditReport struct {
	// Jobs by id, with the counters that are on disk.
	Jobs []*schedulerv1.JobStatus
	// Recomputed holds, by job id, the counters as counted from the URLs:
	// known, queued, leased, done, excluded, failed, pending.
	Recomputed map[string]*schedulerv1.Counters
	// Records is the number read.
	Records uint64
	// Quarantined is the number of bad records that were set aside before.
	Quarantined uint64
	// Violations found; empty: all invariants hold.
	Violations []Violation
}

// Audit recomputes the invariants of a directory that nobody runs. An error
// means that it could not be read; what is wrong in it is in the report.
func Audit(dir string) (*AuditReport, error) {
	if _, err := os.Stat(dir); err != nil {
		return nil, fmt.Errorf("audit the frontier: %w", err)
	}
	s, err := store.OpenPebble(dir, store.PebbleOptions{ReadOnly: true})
	if errors.Is(err, store.ErrNone) { // its process ended before the first write
		return &AuditReport{Recomputed: map[string]*schedulerv1.Counters{}}, nil
	}
	if err != nil {
		return nil, err
	}
	defer s.Close()
	return AuditStore(s)
}

// AuditStore audits a store that nobody changes meanwhile.
func AuditStore(s Store) (*AuditReport, error) { return auditStore(s, func() {}) }

// auditStore audits a store; it calls opened when it has opened all files that
// it will read.
func auditStore(s Store, opened func()) (*AuditReport, error) {
	a := &auditor{s: s, report: &AuditReport{Recomputed: map[string]*schedulerv1.Counters{}}, counts: map[uint32]*counters{},
		listed: map[[2]string]int{}, retired: map[uint32]uint64{}}
	f := newFrontier(Options{Store: s, questionsOnly: true})
	f.readOnly = true
	if err := f.loadControl(); err != nil {
		if !errors.Is(err, ErrCorrupt) {
			return nil, err
		}
		a.add("record", "", "%v", err)
	}
	a.f = f
	defer a.openSeen()()
	opened()
	for _, j := range f.order {
		a.report.Jobs = append(a.report.Jobs, f.status(j))
		a.counts[j.num] = &counters{}
	}
	if err := a.scan(); err != nil {
		return nil, err
	}
	a.compare()
	a.seen()
	return a.report, nil
}

type auditor struct {
	s       Store
	f       *Frontier
	report  *AuditReport
	counts  map[uint32]*counters
	listed  map[[2]string]int
	retired map[uint32]uint64 // URLs in retired queues
	err     error
}

func (a *auditor) add(rule, job, format string, args ...any) {
	k := [2]string{rule, job}
	a.listed[k]++
	if a.listed[k] <= maxViolations {
		a.report.Violations = append(a.report.Violations, Violation{Rule: rule, Job: job, Detail: fmt.Sprintf(format, args...)})
	}
}

// scan reads every record once, and for each the one that must stand across.
func (a *auditor) scan() error {
	err := a.s.Scan(nil, nil, func(k, v []byte) bool {
		a.report.Records++
		if len(k) == 0 {
			return true
		}
		switch k[0] {
		case kindURL:
			a.url(bytes.Clone(k), v)
		case kindQueued:
			a.queued(bytes.Clone(k), v)
		case kindLease:
			a.lease(bytes.Clone(k), v)
		case kindJournal:
			if e, err := decodeJournal(k, v); err != nil {
				a.add("record", "", "journal entry %x: %v", k[1:], err)
			} else if c := a.counts[e.job]; c != nil {
				c.pending += uint64(len(e.cands))
			}
		case kindQueue:
			a.queue(bytes.Clone(k), v)
		case kindInactive:
			a.inactive(bytes.Clone(k))
		case kindHold, kindMark:
			if j, _ := a.jobOf(k); j != nil {
				a.record(j.id, k, v)
			}
		case kindBad:
			a.report.Quarantined++
		case kindRecent, kindRuns:
			a.jobOf(k) // read by openSeen
		default:
			if _, ok := recordKinds[k[0]]; ok {
				a.record("", k, v)
			} else if !bareKinds[k[0]] {
				a.add("orphan", "", "key %q of no known kind", k)
			}
		}
		return a.err == nil
	})
	if err == nil {
		err = a.err
	}
	return err
}

// record checks that a record can be read.
func (a *auditor) record(job string, k, v []byte) {
	if err := badRecord(k, v); err != nil {
		a.add("record", job, "%v", err)
	}
}

func (a *auditor) get(key []byte) ([]byte, bool) {
	v, ok, err := a.s.Get(key)
	if err != nil {
		a.err = err
	}
	return v, ok
}

// jobOf finds the job of a numbered key.
func (a *auditor) jobOf(k []byte) (*job, *counters) {
	if len(k) < 5 {
		return nil, nil
	}
	num := jobNumberOf(k)
	j := a.f.byNum[num]
	if j == nil {
		a.add("orphan", "", "key %q belongs to job number %d, which does not exist", k, num)
		return nil, nil
	}
	return j, a.counts[num]
}

func (a *auditor) url(k, v []byte) {
	j, c := a.jobOf(k)
	if j == nil {
		return
	}
	rec, err := decodeURL(k, v)
	if err != nil {
		a.add("record", j.id, "URL %x: %v", k[5:], err)
		return
	}
	*c.of(rec.state)++
	seen := []sieve.Lookup{{Key: keyOfURL(k)}}
	if err := j.seen.Find(seen, false); err != nil {
		a.add("seen-set", j.id, "%v", err)
	} else if depth := seen[0].Depth; !seen[0].Found {
		a.add("seen-set", j.id, "URL %x is known and not in the seen set: it would be fetched again", k[5:])
	} else if depth > sieve.Depth(rec.depth) {
		a.add("seen-set", j.id, "URL %x has depth %d, and %d in the seen set", k[5:], rec.depth, depth)
	}
	switch rec.state {
	case stateQueued:
		qk := queuedKey(j.num, rec.host, rec.scheme, rec.pos, binary.BigEndian.Uint64(k[5:]))
		if _, ok := a.get(qk); !ok {
			a.add("queue-entry", j.id, "URL %x is queued at %s and not in its queue", k[5:], rec.host)
		}
	case stateLeased:
		if _, ok := a.get(leaseKey(rec.lease)); !ok {
			a.add("lease", j.id, "URL %x is leased as %016x, which does not exist", k[5:], rec.lease)
		}
	default:
		if rec.entry.url != "" && j.key(rec.entry.url) != rec.entry.key {
			a.add("record", j.id, "URL %x holds %s, whose key is %x", k[5:], rec.entry.url, j.key(rec.entry.url))
		}
		if rec.state == stateDone {
			a.stored(j, rec)
		}
	}
}

// stored checks that a done URL's page is in every store that the job names,
// but those for which a rule is named that let it go.
func (a *auditor) stored(j *job, rec *urlRecord) {
	o := rec.entry.outcomeOf(j.id, rec.host)
	if o == nil {
		a.add("stored-before-done", j.id, "%s is done without an outcome", rec.entry.url)
		return
	}
	if o.GetFetch().GetClass() != crawlv1.OutcomeClass_OUTCOME_CLASS_HTTP {
		a.add("stored-before-done", j.id, "%s is done by an outcome of class %s", rec.entry.url, className(o.GetFetch().GetClass()))
		return
	}
	if j.spec.GetStorage().GetNone() || o.GetSkippedBy() != "" && len(o.GetSkippedStores()) == 0 {
		return
	}
	for _, want := range j.spec.GetStorage().GetStores() {
		found := o.GetSkippedBy() != "" && slices.Contains(o.GetSkippedStores(), want)
		for _, s := range o.GetStored() {
			found = found || s.GetStore() == want
		}
		if !found {
			a.add("stored-before-done", j.id, "%s is done, is not in store %q, and no rule is named that skipped it", rec.entry.url, want)
		}
	}
}

func (a *auditor) queued(k, v []byte) {
	j, c := a.jobOf(k)
	if j == nil {
		return
	}
	e, err := decodeQueued(k, v)
	if err != nil {
		a.add("record", j.id, "queued URL %q: %v", k[5:], err)
		return
	}
	_, host, _, pos, key, _ := parseQueuedKey(k)
	if e.reserved {
		c.reserved++
	}
	uk := urlKey(j.num, key)
	if uv, ok := a.get(uk); !ok {
		a.add("queue-entry", j.id, "%s is in a queue and not known", e.url)
	} else if rec, err := decodeURL(uk, uv); err == nil && (rec.state != stateQueued || rec.pos != pos || rec.host != host) {
		a.add("queue-entry", j.id, "%s is in queue %s and stands as %s elsewhere", e.url, host, rec.state)
	}
	if j.key(e.url) != key {
		a.add("queue-entry", j.id, "%s is queued under the key of another URL", e.url)
	}
	byHand := j.held[host] != nil && j.held[host].state == queueRetired
	if v, ok := a.get(queueKey(j.num, host)); ok && (byHand || retiredReason(queueKey(j.num, host), v) != "") {
		a.retired[j.num]++
	} else if !ok {
		a.add("queue-order", j.id, "queue %s holds %s and is in no order: it would never be served", host, e.url)
	}
}

func (a *auditor) lease(k, v []byte) {
	rec, err := decodeLease(k, v)
	if err != nil {
		a.add("record", "", "lease %x: %v", k[1:], err)
		return
	}
	j := a.f.byNum[rec.job]
	if j == nil {
		a.add("orphan", "", "lease %x belongs to job number %d, which does not exist", k[1:], rec.job)
		return
	}
	if rec.page == nil {
		return
	}
	if rec.page.reserved {
		a.counts[rec.job].reserved++
	}
	uk := urlKey(j.num, rec.page.key)
	uv, ok := a.get(uk)
	if !ok {
		a.add("lease", j.id, "%s is leased and not known", rec.url)
		return
	}
	if u, err := decodeURL(uk, uv); err == nil && (u.state != stateLeased || u.lease != binary.BigEndian.Uint64(k[1:])) {
		a.add("lease", j.id, "%s has lease %x and stands as %s", rec.url, k[1:], u.state)
	}
}

func (a *auditor) queue(k, v []byte) {
	j, _ := a.jobOf(k)
	if j == nil {
		return
	}
	due, err := decodeQueue(k, v)
	if err != nil {
		a.add("record", j.id, "queue %q: %v", k[5:], err)
		return
	}
	if _, ok := a.get(inactiveKey(j.num, due, string(k[5:]))); !ok {
		a.add("queue-order", j.id, "queue %s is not in the order under its due time", k[5:])
	}
}

func (a *auditor) inactive(k []byte) {
	j, _ := a.jobOf(k)
	if j == nil || len(k) < 14 {
		return
	}
	qk := queueKey(j.num, string(k[13:]))
	v, ok := a.get(qk)
	if !ok {
		a.add("queue-order", j.id, "the order names queue %s, which does not exist", k[13:])
		return
	}
	if due, err := decodeQueue(qk, v); err == nil && uint64(due) != binary.BigEndian.Uint64(k[5:13]) {
		a.add("queue-order", j.id, "queue %s is in the order twice", k[13:])
	}
}

// openSeen opens the seen sets for questions; what it returns closes them.
func (a *auditor) openSeen() func() {
	fs, dir := a.s.Files()
	a.f.seenDir = sieve.ViewDir(fs, fs.PathJoin(dir, seenFolder), a.f.o.SeenCacheBytes)
	for _, j := range a.f.order {
		if err := a.f.loadSeen(j, map[uint64]bool{}); err != nil {
			a.err = err
		}
		if j.seenBad {
			a.add("seen-set", j.id, "a run or a record of the seen set cannot be read; the next start builds it anew")
		}
	}
	return func() {
		for _, j := range a.f.order {
			j.seen.Close()
		}
	}
}

// seen checks that the seen sets hold no key of a URL that is not known: it
// would never be fetched.
func (a *auditor) seen() {
	for _, j := range a.f.order {
		keys, err := j.seen.Check()
		if err != nil {
			a.add("seen-set", j.id, "%v", err)
		} else if known := a.counts[j.num].known(); !j.seenBad && keys > known {
			a.add("seen-set", j.id, "it holds %d keys, %d URLs are known: the others would never be fetched", keys, known)
		}
	}
}

// compare sets the counters on disk against what was counted.
func (a *auditor) compare() {
	for _, j := range a.f.order {
		c := a.counts[j.num]
		a.report.Recomputed[j.id] = c.proto()
		for _, x := range []struct {
			name       string
			disk, real uint64
		}{
			{"queued", j.cnt.queued, c.queued}, {"leased", j.cnt.leased, c.leased}, {"done", j.cnt.done, c.done},
			{"excluded", j.cnt.excluded, c.excluded}, {"failed", j.cnt.failed, c.failed},
			{"pending", j.cnt.pending, c.pending}, {"pages reserved", j.cnt.reserved, c.reserved},
		} {
			if x.disk != x.real {
				a.add("conservation", j.id, "%s: the counter says %d, the records say %d", x.name, x.disk, x.real)
			}
		}
		if j.maxPages > 0 && j.cnt.pages-j.base.pages+j.cnt.reserved > j.maxPages {
			a.add("limits", j.id, "%d pages and %d reserved, max_pages is %d", j.cnt.pages-j.base.pages, j.cnt.reserved, j.maxPages)
		}
		if j.state == jobFinished && j.reason == reasonEmpty && c.queued-a.retired[j.num]+c.leased+c.pending > 0 {
			a.add("conservation", j.id, "the job is finished as empty with %d queued, %d leased, %d pending", c.queued, c.leased, c.pending)
		}
	}
	for k, n := range a.listed {
		if n > maxViolations {
			a.report.Violations = append(a.report.Violations, Violation{Rule: k[0], Job: k[1], Detail: fmt.Sprintf("and %d more", n-maxViolations)})
		}
	}
}
