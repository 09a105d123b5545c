package frontier

import (
	"context"
	"fmt"
	"slices"
	"time"

	specs "lycosa.dev/internal/job"
	schedulerv1 "lycosa.dev/proto/gen/lycosa/scheduler/v1"
)

// shownURLs is how many URLs of a queue are shown.
const shownURLs = 5

// ShowQueue shows a job's queue of a host with every clock that it is under.
// Errors: ErrNoJob.
func (f *Frontier) ShowQueue(ctx context.Context, jobID, hostKey string) (r *schedulerv1.ShowQueueResponse, err error) {
	err = f.counted(jobID, func(j *job) ([]*schedulerv1.QueueStatus, error) {
		r, err = f.showQueue(j, hostKey)
		return some(r.GetQueue()), err
	})
	return r, err
}

func (f *Frontier) showQueue(j *job, hostKey string) (*schedulerv1.ShowQueueResponse, error) {
	now := f.now()
	r := &schedulerv1.ShowQueueResponse{Queue: f.queueStatus(j, hostKey, now), Overlays: overlayNames(specs.OverlaysFor(j.spec, hostKey, ""))}
	c := clockList{now: now}
	f.listClocks(&c, j, hostKey)
	slices.SortStableFunc(c.list, func(a, b *schedulerv1.QueueClock) int {
		switch {
		case a.Holds == b.Holds:
			return 0
		case a.Holds:
			return -1
		}
		return 1
	})
	r.Clocks = c.list
	var urls []*entry
	for scheme := range uint8(2) {
		prefix := subPrefix(j.num, hostKey, scheme)
		n := 0
		err := f.st.Scan(prefix, after(prefix), func(k, v []byte) bool {
			if e, err := decodeQueued(k, v); err == nil {
				urls = append(urls, e)
				n++
			}
			return n < shownURLs
		})
		if err != nil {
			return nil, err
		}
	}
	slices.SortFunc(urls, func(a, b *entry) int {
		if a.pos.less(b.pos) {
			return -1
		}
		return 1
	})
	for _, e := range urls[:min(len(urls), shownURLs)] {
		r.NextUrls = append(r.NextUrls, e.url)
	}
	return r, nil
}

// clockList gathers clocks.
type clockList struct {
	now  time.Time
	list []*schedulerv1.QueueClock
}

// add adds a clock that holds until a time; one in the past holds no more.
func (c *clockList) add(name string, until time.Time, format string, args ...any) {
	c.list = append(c.list, &schedulerv1.QueueClock{Name: name, Until: timestamp(until), Reason: fmt.Sprintf(format, args...), Holds: until.After(c.now)})
}

// event adds something that holds until it happens.
func (c *clockList) event(name string, holds bool, format string, args ...any) {
	c.list = append(c.list, &schedulerv1.QueueClock{Name: name, Reason: fmt.Sprintf(format, args...), Holds: holds})
}

// listClocks lists everything that a queue is under, whether it holds it now or
// not.
func (f *Frontier) listClocks(c *clockList, j *job, key string) {
	now := c.now
	if w := j.held[key]; w != nil {
		c.event("by hand", true, "%s", w.why())
		c.list[len(c.list)-1].Until = timestamp(w.until)
	}
	if j.state != jobRunning {
		why := "the job is " + stateName(j.state)
		if j.reason != "" {
			why += " (" + j.reason + ")"
		}
		c.event("job", true, "%s", why)
	} else if t, problem := f.trouble(j); t != schedulerv1.Trouble_TROUBLE_UNSPECIFIED && t != schedulerv1.Trouble_TROUBLE_BLOCKED {
		c.event("job", true, "%s", problem)
	}
	c.event("concurrency", j.leased >= j.capacity, "%d of the job's %d leases are out", j.leased, j.capacity)
	q := j.queues[key]
	if q == nil {
		if j.held[key] == nil {
			c.event("slot", true, "%d of %d queues are in memory; it gets a slot in turn", f.active, f.o.MaxActiveHosts)
			s := f.queueAsItIs(j, key, now)
			c.list[len(c.list)-1].Until = s.NextAt
		}
		return
	}
	h := q.host
	if q.ending != nil {
		c.event("ending", false, "its URLs end instead of being fetched: %s", q.ending.reason)
	}
	c.event("lease", h.out > 0 && h.out >= h.limit(j), "%d of %d fetches of the host are out", h.out, max(1, h.limit(j)))
	name, why := "delay", fmt.Sprintf("%s after the last fetch", h.wait)
	if h.failures > 0 {
		name, why = "back-off", fmt.Sprintf("%s after %d failures in a row", h.wait.Round(time.Millisecond), h.failures)
	}
	c.add(name, h.next, "%s", why)
	switch {
	case h.lookupBusy:
		c.event("addresses", true, "they are being looked up")
	case h.lookupAt.After(now):
		c.add("addresses", h.lookupAt, "the name did not resolve: %s", orElse(h.addrsError, "no answer"))
	case h.usable(now):
		c.event("addresses", false, "%d known", len(h.addrs))
	default:
		c.event("addresses", false, "they are looked up before the next fetch")
	}
	if !j.polOf(key).IgnoreRobots {
		for s, o := range h.origins {
			if !q.subs[s].empty() {
				f.listRobots(c, o)
			}
		}
	}
	for _, a := range h.addrs {
		if l := f.addrs[a]; l != nil {
			f.listLimiter(c, q, under{l, j.pol.AddressLimit(a)})
		}
	}
	for _, u := range f.clocksOf(q, nil) {
		f.listLimiter(c, q, u)
	}
	if q.capped {
		c.event("limits", true, "a limit of the job or a budget is reached, but for what is out")
	}
}

func (f *Frontier) listRobots(c *clockList, o *origin) {
	name := "robots.txt (" + schemeName(o.scheme) + ")"
	f.loadRobots(o)
	switch {
	case o.task != nil && o.task.leased:
		c.event(name, true, "%s is being fetched", o.task.url)
	case o.task != nil:
		c.event(name, true, "%s waits to be fetched, under the clocks of %s", o.task.url, o.task.queue.host.key)
	case o.retryAt.After(c.now):
		c.add(name, o.retryAt, "unreachable: %s; tried %d times", o.rec.reason, o.tries)
	case o.known:
		c.event(name, false, "known (HTTP %d), used until %s", o.rec.status, o.until.UTC().Format(time.RFC3339))
	default:
		c.event(name, false, "fetched before the next page")
	}
}

// listLimiter lists a clock that hosts share.
func (f *Frontier) listLimiter(c *clockList, q *queue, u under) {
	until, refused := f.refuses(u.l, u.limit, q, true, c.now)
	parked := q.parked == u.l
	text := fmt.Sprintf("%d fetches out", u.l.out)
	if n := u.limit.Concurrency; n > 0 {
		text = fmt.Sprintf("%d of %d fetches out", u.l.out, n)
	}
	if u.limit.Delay > 0 {
		text += fmt.Sprintf(", %s between two", u.limit.Delay)
	}
	if parked {
		text += fmt.Sprintf("; %d queues wait there in turn", len(u.l.waiters))
	}
	c.event(u.l.name, refused && parked, "%s", text)
	c.list[len(c.list)-1].Until = timestamp(until)
}
