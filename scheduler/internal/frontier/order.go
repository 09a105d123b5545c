package frontier

import (
	specs "lycosa.dev/internal/job"
	jobv1 "lycosa.dev/proto/gen/lycosa/job/v1"
)

// strategy gives URLs their places in the queue of their host. A place is a
// key of an ordered map, so that ordering costs O(log n) of the queue's length
// and nothing of the crawl's. A place may depend on the URL, its depth, its
// priority and the number in which it was first seen, and on nothing that
// changes while it is queued but the depth: a URL whose depth becomes less gets
// a new place.
type strategy interface {
	place(depth, priority uint32, seq uint64) (prio uint32, order uint64)
}

// byPriority: the least priority first, then first seen, first fetched.
type byPriority struct{}

func (byPriority) place(_, priority uint32, seq uint64) (uint32, uint64) { return priority, seq }

// breadthFirst: the least depth first, then by priority up to 255, then first
// seen, first fetched.
type breadthFirst struct{}

func (breadthFirst) place(depth, priority uint32, seq uint64) (uint32, uint64) {
	return min(depth, 1<<24-1)<<8 | min(priority, 255), seq
}

// depthFirst: what was seen last comes first.
type depthFirst struct{}

func (depthFirst) place(_, _ uint32, seq uint64) (uint32, uint64) { return 0, ^seq }

// strategyOf is the strategy of a spec.
func strategyOf(spec *jobv1.Spec) strategy {
	switch spec.GetOrder().GetStrategy() {
	case jobv1.OrderStrategy_ORDER_STRATEGY_BREADTH_FIRST:
		return breadthFirst{}
	case jobv1.OrderStrategy_ORDER_STRATEGY_DEPTH_FIRST:
		return depthFirst{}
	}
	return byPriority{}
}

// position is a new place for a URL among those that are no retries.
func (j *job) position(depth, priority uint32) position {
	j.cnt.seq++
	p := position{class: classNormal}
	p.prio, p.seq = j.strategy.place(depth, priority, j.cnt.seq)
	return p
}

// precedenceOf is the level of a host in the ready list: 0 is served first.
func (j *job) precedenceOf(hostKey string) uint8 {
	if n := j.of(hostKey).precedence; n >= 0 {
		return uint8(n)
	}
	for _, r := range j.spec.GetOrder().GetPrecedence() {
		for _, p := range r.GetHosts() {
			if specs.MatchHost(p, hostKey) {
				return uint8(min(r.GetPrecedence(), specs.MaxPrecedence))
			}
		}
	}
	return specs.DefaultPrecedence
}

// readyQueues are a job's queues that are ready, first in, first out for each
// precedence. Of four queues that are taken, three are of the first precedence
// that has one, and the fourth of a later one, and so on: a queue of precedence
// p at place n of its list is taken after n×4^(p+1)/3 + 4^p takings at most. A
// queue goes
// to the end each time, so that one with many URLs comes no more often than one
// with few.
type readyQueues struct {
	levels [specs.MaxPrecedence + 1]readyList
	taken  uint64
}

func (r *readyQueues) push(q *queue) { r.levels[q.level].push(q) }

func (r *readyQueues) pop() *queue {
	r.taken++
	level := 0
	for n := r.taken; level < specs.MaxPrecedence && n%4 == 0; n /= 4 {
		level++
	}
	for i := level; i < len(r.levels); i++ {
		if q := r.levels[i].pop(); q != nil {
			return q
		}
	}
	for i := range level {
		if q := r.levels[i].pop(); q != nil {
			return q
		}
	}
	return nil
}

func (r *readyQueues) len() int {
	n := 0
	for i := range r.levels {
		n += r.levels[i].len()
	}
	return n
}
