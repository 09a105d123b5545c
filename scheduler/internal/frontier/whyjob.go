package frontier

import (
	"context"
	"fmt"
	"slices"
	"time"

	schedulerv1 "lycosa.dev/proto/gen/lycosa/scheduler/v1"
)

const (
	// holdingListed is how many queues and leases are named that hold a job up.
	holdingListed = 10
	// queuesCounted bounds the queues without a slot that are counted.
	queuesCounted = 100_000
)

// ExplainJob tells why a job has not ended, or why it has. Errors: ErrNoJob.
func (f *Frontier) ExplainJob(ctx context.Context, jobID string) (r *schedulerv1.ExplainJobResponse, err error) {
	err = f.counted(jobID, func(j *job) ([]*schedulerv1.QueueStatus, error) {
		x := &jobExplanation{f: f, j: j, now: f.now(), r: &schedulerv1.ExplainJobResponse{Job: f.status(j)}}
		x.countQueues()
		x.listLeases()
		x.wait()
		x.sum()
		r = x.r
		return r.Holding, nil
	})
	return r, err
}

// jobExplanation gathers why a job stands where it does.
type jobExplanation struct {
	f   *Frontier
	j   *job
	now time.Time
	r   *schedulerv1.ExplainJobResponse

	states  map[schedulerv1.QueueState]uint64
	next    time.Time // when something happens by itself
	event   string
	due     bool // something may happen now
	waiting []*schedulerv1.QueueStatus
}

// happens notes that something happens at a time, by itself.
func (x *jobExplanation) happens(t time.Time, format string, args ...any) {
	if !t.IsZero() && (x.next.IsZero() || t.Before(x.next)) {
		x.next, x.event = t, fmt.Sprintf(format, args...)
	}
}

func (x *jobExplanation) countQueues() {
	f, j := x.f, x.j
	x.states = map[schedulerv1.QueueState]uint64{}
	for _, q := range j.queues {
		if q.empty() && q.leased == 0 {
			continue
		}
		state, reason := q.why(x.now)
		s := &schedulerv1.QueueStatus{HostKey: q.host.key, State: state, Reason: reason, Leased: uint64(q.leased), Failures: q.host.failures}
		if q.parked != nil {
			s.NextAt = timestamp(q.parkedUntil)
		}
		if t, ok := q.at(x.now); ok && t.After(x.now) {
			s.NextAt = timestamp(t)
		}
		if w := j.held[q.host.key]; w != nil {
			s.State, s.Reason, s.NextAt, s.Hold = w.state, w.why(), timestamp(w.until), w.proto()
		}
		x.states[s.State]++
		if s.NextAt != nil {
			x.happens(s.NextAt.AsTime(), "%s: %s", s.HostKey, s.Reason)
		}
		if s.State != schedulerv1.QueueState_QUEUE_STATE_READY {
			x.waiting = append(x.waiting, s)
		}
	}
	var inactive uint64
	prefix := numbered(kindQueue, j.num)
	_ = f.st.Scan(prefix, after(prefix), func(k, _ []byte) bool {
		host := string(k[len(prefix):])
		switch w := j.held[host]; {
		case j.queues[host] != nil:
		case w != nil:
			x.states[w.state]++
			x.waiting = append(x.waiting, &schedulerv1.QueueStatus{HostKey: host, State: w.state, Reason: w.why(), NextAt: timestamp(w.until), Hold: w.proto()})
			x.happens(w.until, "%s is released", host)
		default:
			inactive++
		}
		return inactive < queuesCounted
	})
	if j.cnt.queued == 0 {
		inactive = 0 // records of queues that have run empty and are about to go
	}
	x.states[schedulerv1.QueueState_QUEUE_STATE_INACTIVE] += inactive
	if j.nextDue > 0 && inactive > 0 {
		x.happens(x.now.Add(time.Duration(j.nextDue-f.dueNow(x.now))), "a queue without a slot is due")
	}
	for s := range schedulerv1.QueueState_name {
		if n := x.states[schedulerv1.QueueState(s)]; n > 0 {
			x.r.Queues = append(x.r.Queues, &schedulerv1.QueueCount{State: schedulerv1.QueueState(s), Queues: n})
		}
	}
	slices.SortFunc(x.r.Queues, func(a, b *schedulerv1.QueueCount) int { return int(a.State) - int(b.State) })
	// Those that wait longest are those that hold the job up: by hand first.
	slices.SortFunc(x.waiting, func(a, b *schedulerv1.QueueStatus) int {
		ta, tb := forever(a), forever(b)
		if c := tb.Compare(ta); c != 0 {
			return c
		}
		if a.HostKey < b.HostKey {
			return -1
		}
		return 1
	})
	x.r.Holding = x.waiting[:min(len(x.waiting), holdingListed)]
}

// forever is when a queue goes on; very late where that is not known and it is
// held by hand.
func forever(s *schedulerv1.QueueStatus) time.Time {
	switch {
	case s.NextAt != nil:
		return s.NextAt.AsTime()
	case s.Hold != nil:
		return time.Unix(1<<40, 0)
	}
	return time.Time{}
}

func (x *jobExplanation) listLeases() {
	var list []*lease
	for _, l := range x.f.leases {
		if l.job == x.j {
			list = append(list, l)
			x.happens(l.expires, "the lease of %s by %s runs out if nobody renews it", l.url, l.member)
		}
	}
	slices.SortFunc(list, func(a, b *lease) int { return a.expires.Compare(b.expires) })
	for _, l := range list[:min(len(list), holdingListed)] {
		x.r.Leases = append(x.r.Leases, &schedulerv1.LeaseStatus{LeaseId: l.id, Url: l.url, Downloader: l.member,
			ExpiresAt: timestamp(l.expires), Fetched: l.fetched, LeasedAt: timestamp(l.issued)})
	}
}

func (x *jobExplanation) waitsFor(format string, args ...any) {
	x.r.WaitsFor = append(x.r.WaitsFor, fmt.Sprintf(format, args...))
}

// wait lists what the job waits for.
func (x *jobExplanation) wait() {
	f, j := x.f, x.j
	if j.over() {
		return
	}
	stuck := false // ready queues are not served
	if t, problem := f.trouble(j); j.state == jobRunning && t != schedulerv1.Trouble_TROUBLE_UNSPECIFIED {
		x.waitsFor("%s", problem)
		stuck = t != schedulerv1.Trouble_TROUBLE_BLOCKED
		if !f.hold.pass(x.now) {
			x.happens(f.hold.probe, "storage is tried again")
		}
		if !f.network.down.pass(x.now) {
			x.happens(f.network.down.probe, "the network is tried again")
		}
	}
	if j.requeue != nil {
		x.waitsFor("what was fetched in the round before is being queued again")
		x.due = true
	}
	if n := j.cnt.pending; n > 0 {
		x.waitsFor("%d links are journalled and not yet decided", n)
		x.due = true
	}
	if n := j.leased; n > 0 {
		x.waitsFor("%d leases are out (of %d at a time)", n, j.capacity)
	}
	for _, c := range []struct {
		state schedulerv1.QueueState
		text  string
	}{
		{schedulerv1.QueueState_QUEUE_STATE_BLOCKED, "%d queues are blocked by hand"},
		{schedulerv1.QueueState_QUEUE_STATE_READY, "%d queues are ready and wait for a downloader to take a URL"},
		{schedulerv1.QueueState_QUEUE_STATE_WAITING, "%d queues wait for a delay, a back-off, addresses, robots.txt or a shared clock"},
		{schedulerv1.QueueState_QUEUE_STATE_INACTIVE, "%d queues have no slot and get one in turn"},
		{schedulerv1.QueueState_QUEUE_STATE_RETIRED, "%d queues are retired; the job does not wait for them"},
	} {
		if n := x.states[c.state]; n > 0 {
			x.waitsFor(c.text, n)
			x.due = x.due || !stuck && c.state == schedulerv1.QueueState_QUEUE_STATE_READY
		}
	}
	if j.maxTime > 0 && j.state == jobRunning {
		x.happens(x.now.Add(j.maxTime-(j.running(x.now)-j.base.ran)), "max_duration ends the job")
	}
	if j.state == jobStopping {
		x.happens(j.drainUntil, "what is still out is given up")
	}
}

// sum makes one sentence of it.
func (x *jobExplanation) sum() {
	j, r := x.j, x.r
	if !x.due && !j.over() {
		r.NextAt, r.NextEvent = timestamp(x.next), x.event
	}
	switch {
	case j.over():
		r.Reason = "it has " + stateName(j.state) + ": " + orElse(endReasons[j.reason], j.reason)
		return
	case j.state == jobCreated:
		r.Reason = "it has not been started"
	case j.state == jobPaused:
		r.Reason = "it is paused by hand, until it is resumed"
	case j.state == jobPausing:
		r.Reason = fmt.Sprintf("it is being paused: %d leases are still out", j.leased)
	case j.state == jobStopping:
		r.Reason = fmt.Sprintf("it is ending (%s): %d leases are still out, until %s at the latest", j.stopReason, j.leased, j.drainUntil.UTC().Format(time.RFC3339))
	case len(r.WaitsFor) > 0:
		r.Reason = "it has not ended: " + r.WaitsFor[0]
	case j.cnt.queued > 0:
		r.Reason = fmt.Sprintf("it has not ended: %d URLs are queued", j.cnt.queued)
	default:
		r.Reason = "nothing is left: it ends now"
	}
}

// endReasons say why a job has finished.
var endReasons = map[string]string{
	reasonEmpty:       "nothing is left to be fetched",
	reasonMore:        "nothing was left to be fetched; URLs were queued since, which are fetched when it is started",
	reasonMaxPages:    "limits.max_pages is reached",
	reasonMaxBytes:    "limits.max_total_bytes is reached",
	reasonMaxDuration: "limits.max_duration is reached",
	reasonStopped:     "it was stopped by hand",
	reasonRetired:     "only queues that were retired by hand are left",
}
