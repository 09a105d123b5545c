package frontier

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"time"

	jobv1 "lycosa.dev/proto/gen/lycosa/job/v1"
	schedulerv1 "lycosa.dev/proto/gen/lycosa/scheduler/v1"

	"lycosa.dev/scheduler/internal/frontier/store"
)

// Budgets of a host and of a registrable domain in a job. A place is taken when
// a page is leased and used or given back when the lease ends, so that they are
// exact. A queue that has used up a budget is retired: it lies on disk behind
// all due times, takes no memory, and is never looked at until a budget is
// raised. A job of which only retired queues are left has finished as empty,
// and its status lists them.

const (
	// retiredDue is the due time of retired queues: behind every other.
	retiredDue = int64(1) << 62
	// budgetReason begins the reason of a queue that a budget has retired.
	budgetReason = "budget: "
	// statusListed bounds the queues and hosts that a job's status lists.
	statusListed = 100
	// broughtBack is the number of retired queues that are looked at at once.
	broughtBack = 1000
)

// budget is what a job allows a host, or a domain; 0: no limit.
type budget struct {
	pages uint64
	bytes int64
}

// tally is what a job has had of a host or a domain in a round.
type tally struct {
	key      []byte
	round    uint32
	pages    uint64
	bytes    int64
	out      uint64 // pages leased
	bytesOut int64  // bytes that they may take
	refs     int    // queues in memory that use it
}

func tallyKey(num uint32, kind byte, name string) []byte {
	return append(append(numbered(kindTally, num), kind), name...)
}

func (t *tally) encode() []byte {
	w := newWriter()
	w.uint(uint64(t.round))
	w.uint(t.pages)
	w.int(t.bytes)
	return w.seal(t.key)
}

func decodeTally(key, value []byte) (*tally, error) {
	r, err := open(key, value)
	if err != nil {
		return nil, err
	}
	t := &tally{key: bytes.Clone(key), round: r.u32(), pages: r.uint(), bytes: r.int()}
	return t, r.err
}

// hasBudgets tells whether a spec or one of its overlays gives hosts or domains
// budgets.
func hasBudgets(spec *jobv1.Spec) bool {
	l := spec.GetLimits()
	some := l.GetMaxHostPages()+l.GetMaxDomainPages() > 0 || l.GetMaxHostBytes() > 0 || l.GetMaxDomainBytes() > 0
	for _, o := range spec.GetOverlays() {
		some = some || o.GetMaxHostPages()+o.GetMaxDomainPages() > 0 || o.GetMaxHostBytes() > 0 || o.GetMaxDomainBytes() > 0
	}
	return some
}

// budgetOf is the budget of a queue's host (0) or domain (1).
func (q *queue) budgetOf(i int) budget {
	if i == 0 {
		return q.job.of(q.host.key).budget
	}
	return q.job.of(q.host.domainName()).domain
}

// tallyOf finds a tally in memory or on disk.
func (f *Frontier) tallyOf(j *job, kind byte, name string) *tally {
	key := tallyKey(j.num, kind, name)
	if t := j.tallies[string(key)]; t != nil {
		if t.round != j.round {
			t.round, t.pages, t.bytes = j.round, 0, 0
		}
		return t
	}
	t := &tally{key: key, round: j.round}
	if v, ok := f.get(key); ok {
		if kept, err := decodeTally(key, v); err != nil {
			f.noteBad(key, v)
		} else if kept.round == j.round {
			t = kept
		}
	}
	j.tallies[string(key)] = t
	j.looseTallies = append(j.looseTallies, t)
	return t
}

// talliesOf are the host's and the domain's tallies of a queue; none where the
// job has no budgets.
func (f *Frontier) talliesOf(q *queue) []*tally {
	j := q.job
	if !j.budgets {
		return nil
	}
	if len(q.tallies) == 0 || q.tallies[0].round != j.round {
		j.dropTallies(q) // of the round before
		for _, n := range [2]struct {
			kind byte
			name string
		}{{'h', q.host.key}, {'d', q.host.domainName()}} {
			t := f.tallyOf(j, n.kind, n.name)
			t.refs++
			q.tallies = append(q.tallies, t)
		}
	}
	return q.tallies
}

// dropTallies lets go of a queue's tallies.
func (j *job) dropTallies(q *queue) {
	for _, t := range q.tallies {
		if t.refs--; t.refs == 0 {
			j.looseTallies = append(j.looseTallies, t)
		}
	}
	q.tallies = nil
}

// sweepTallies forgets what no queue in memory uses.
func (j *job) sweepTallies() {
	for _, t := range j.looseTallies {
		if t.refs == 0 {
			delete(j.tallies, string(t.key))
		}
	}
	clear(j.looseTallies)
	j.looseTallies = j.looseTallies[:0]
}

// spent tells whether the budget has nothing left, or only what is out.
func (b budget) spent(t *tally) (over, waits bool) {
	over = b.pages > 0 && t.pages >= b.pages || b.bytes > 0 && t.bytes >= b.bytes
	waits = b.pages > 0 && t.pages+t.out >= b.pages || b.bytes > 0 && t.bytes+t.bytesOut >= b.bytes
	return over, waits
}

func (b budget) why(what string, t *tally) string {
	if b.pages > 0 && t.pages >= b.pages {
		return fmt.Sprintf("%smax_%s_pages %d", budgetReason, what, b.pages)
	}
	return fmt.Sprintf("%smax_%s_bytes %d", budgetReason, what, b.bytes)
}

// overBudget tells whether a queue has used up a budget, with the reason, or
// has to wait whether what is out counts.
func (f *Frontier) overBudget(q *queue) (reason string, waits bool) {
	for i, t := range f.talliesOf(q) {
		b, what := q.budgetOf(i), "host"
		if i == 1 {
			what = "domain"
		}
		over, wait := b.spent(t)
		if over {
			return b.why(what, t), false
		}
		waits = waits || wait
	}
	return "", waits
}

// budgetBytes is what the budgets leave of an allowance.
func (f *Frontier) budgetBytes(q *queue, allowance int64) int64 {
	for i, t := range f.talliesOf(q) {
		if b := q.budgetOf(i); b.bytes > 0 {
			allowance = min(allowance, b.bytes-t.bytes-t.bytesOut)
		}
	}
	return allowance
}

// promise reserves a page and bytes for a lease; settleBudget ends it.
func (f *Frontier) promise(l *lease) {
	for _, t := range f.talliesOf(l.queue) {
		if l.page != nil {
			t.out++
		}
		t.bytesOut += l.allowance
		l.tallies = append(l.tallies, t)
	}
}

func (f *Frontier) settleBudget(l *lease, now time.Time) {
	for _, t := range l.tallies {
		if l.page != nil {
			t.out--
		}
		t.bytesOut -= l.allowance
	}
	if len(l.tallies) > 0 {
		f.uncap(l.job, now)
	}
	l.tallies = nil
}

// spend books what a fetch took.
func (f *Frontier) spend(b *store.Batch, j *job, host string, pages uint64, received int64) {
	if !j.budgets || pages == 0 && received <= 0 {
		return
	}
	for _, t := range [2]*tally{f.tallyOf(j, 'h', host), f.tallyOf(j, 'd', domainOf(host))} {
		t.pages += pages
		t.bytes += max(0, received)
		b.Set(t.key, t.encode())
	}
}

// retireQueue puts a queue behind all others until a budget is raised.
func (f *Frontier) retireQueue(b *store.Batch, q *queue, reason string) {
	j, key := q.job, q.host.key
	f.log.Info("a queue is retired", "job", j.id, "host", key, "reason", reason)
	if q.stored {
		b.Delete(inactiveKey(j.num, q.due, key))
	}
	k := queueKey(j.num, key)
	b.Set(k, encodeRetired(k, reason))
	b.Set(inactiveKey(j.num, retiredDue, key), nil)
	j.anyRetired = true
	f.dropQueue(q)
}

// encodeRetired is the record of a queue that is retired.
func encodeRetired(key []byte, reason string) []byte {
	w := newWriter()
	w.int(retiredDue)
	w.str(reason)
	return w.seal(key)
}

// retiredReason is why a queue on disk is retired; empty: it is not.
func retiredReason(key, value []byte) string {
	r, err := open(key, value)
	if err != nil || r.int() < retiredDue {
		return ""
	}
	return orElse(r.str(), "retired")
}

// onlyRetired tells whether nothing of a job is left but retired queues.
func (j *job) onlyRetired() bool {
	if !j.anyRetired || j.unretire != nil || j.moreInactive || j.nextDue != 0 || j.cnt.leased+j.cnt.pending > 0 {
		return false
	}
	for _, q := range j.queues {
		if !q.empty() || len(q.tasks) > 0 {
			return false
		}
	}
	return true
}

// lookAtRetired makes the tick bring back what a change of budgets allows.
func (j *job) lookAtRetired() { j.unretire = inactiveKey(j.num, retiredDue, "") }

// bringBack goes on with the search for retired queues whose budgets have
// something left, or whose hosts have another try.
func (f *Frontier) bringBack(now time.Time) {
	for _, j := range f.order {
		if j.unretire == nil || j.state != jobRunning {
			continue
		}
		var hosts []string
		prefix := numbered(kindInactive, j.num)
		if bytes.Equal(j.unretire, inactiveKey(j.num, retiredDue, "")) {
			j.anyRetired = false
		}
		var next []byte
		err := f.st.Scan(j.unretire, after(prefix), func(k, _ []byte) bool {
			if len(hosts) == broughtBack {
				next = slices.Clone(k)
				return false
			}
			hosts = append(hosts, string(k[13:]))
			return true
		})
		if err != nil {
			f.fail(err)
			return
		}
		b := f.newBatch()
		for _, name := range hosts {
			key := queueKey(j.num, name)
			v, ok := f.get(key)
			if !ok {
				continue
			}
			was := retiredReason(key, v)
			dead := strings.HasPrefix(was, deadReason)
			switch {
			case dead && j.forgiving:
				f.forgive(b, j, name, now)
			case dead && f.stillDead(j, name, now), !dead && !strings.HasPrefix(was, budgetReason):
				j.anyRetired = true
				continue
			}
			q := &queue{job: j, host: &host{key: name}}
			reason, _ := f.overBudget(q)
			j.dropTallies(q)
			if reason != "" {
				j.anyRetired = true
				continue
			}
			f.unretireQueue(b, j, name, now)
		}
		if j.unretire = next; next == nil {
			j.forgiving = false
		}
		if _, err := f.apply(b, false); err != nil {
			return
		}
		if next != nil {
			f.dueAt(now)
		}
	}
}

// unretireQueue puts a retired queue back into the order.
func (f *Frontier) unretireQueue(b *store.Batch, j *job, name string, now time.Time) {
	due := f.nextDue(now)
	b.Delete(inactiveKey(j.num, retiredDue, name))
	writeQueue(b, j.num, name, due)
	f.inactiveAdded(j, name, due)
	if q := j.queues[name]; q != nil {
		q.due = due
	}
}

// retiredOf lists the first retired queues of a job.
func (f *Frontier) retiredOf(j *job) []*schedulerv1.RetiredQueue {
	if !j.anyRetired {
		return nil
	}
	var list []*schedulerv1.RetiredQueue
	_ = f.st.Scan(inactiveKey(j.num, retiredDue, ""), after(numbered(kindInactive, j.num)), func(k, _ []byte) bool {
		list = append(list, &schedulerv1.RetiredQueue{HostKey: string(k[13:])})
		return len(list) < statusListed
	})
	for _, r := range list {
		key := queueKey(j.num, r.HostKey)
		if v, ok := f.get(key); ok {
			r.Reason = retiredReason(key, v)
		}
	}
	return list
}
