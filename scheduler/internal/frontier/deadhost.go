package frontier

import (
	"fmt"
	"strings"
	"time"

	"lycosa.dev/scheduler/internal/frontier/store"
)

// Hosts that have only failed for long. Each of a host's URLs has its tries, and
// a host that fails backs off for up to a day: with thousands of URLs a dead
// host would keep a crawl open for years. So its queue is retired after so many
// failures in a row that the back-offs between them sum up to most of a day by
// default (politeness.Rules.DeadAfter). Its URLs stay queued on disk, the job
// ends without them and lists them; starting the job again, or releasing the
// queue by hand, gives the host one more try.

// deadReason begins the reason of a queue whose host has only failed.
const deadReason = "dead host: "

// hostDead tells whether a host has failed too often in a row for a job.
func (j *job) hostDead(h *host) bool { return h.failures >= j.polOf(h.key).DeadAfter() }

// dead tells why a queue's host is given up; empty: it is not.
func (q *queue) dead() string {
	if !q.job.hostDead(q.host) {
		return ""
	}
	why := ""
	for _, d := range q.job.deferred {
		if d.host == q.host.key {
			why = ", the last of them: " + d.reason
		}
	}
	return fmt.Sprintf("%sit has failed %d times in a row%s", deadReason, q.host.failures, why)
}

// forgive gives a dead host one more try in a job.
func (f *Frontier) forgive(b *store.Batch, j *job, name string, now time.Time) {
	h := f.load(name, now)
	if j.hostDead(h) {
		h.failures = j.polOf(name).DeadAfter() - 1
		f.saveHost(b, h, now)
	}
	f.place(h, now)
}

// stillDead tells whether a retired queue's host has failed as often as before.
func (f *Frontier) stillDead(j *job, name string, now time.Time) bool {
	h := f.load(name, now)
	dead := j.hostDead(h)
	f.place(h, now)
	return dead
}

// reviveQueue brings back a queue whose host was given up; false: it is none.
func (f *Frontier) reviveQueue(b *store.Batch, j *job, name string, now time.Time) bool {
	key := queueKey(j.num, name)
	if v, ok := f.get(key); !ok || !strings.HasPrefix(retiredReason(key, v), deadReason) {
		return false
	}
	f.forgive(b, j, name, now)
	f.unretireQueue(b, j, name, now)
	f.dueAt(now)
	return true
}
