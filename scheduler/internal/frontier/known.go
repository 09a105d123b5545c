package frontier

import "github.com/zeebo/xxh3"

// knownCache remembers keys that were found known or made so, with the least
// depth known. It has a fixed size; a key in it is known for certain, of
// others nothing is said.
type knownCache struct {
	keys   []uint64
	depths []uint32
}

const knownSlots = 1 << 18

func (c *knownCache) init() {
	c.keys, c.depths = make([]uint64, knownSlots), make([]uint32, knownSlots)
}

// tag makes keys of jobs, and of a job's frontiers, differ.
func tag(j *job, key uint64) uint64 { return key ^ j.epoch }

func (c *knownCache) has(t uint64, depth uint32) bool {
	i := t % knownSlots
	return c.keys[i] == t && t != 0 && c.depths[i] <= depth
}

func (c *knownCache) put(t uint64, depth uint32) {
	i := t % knownSlots
	c.keys[i], c.depths[i] = t, depth
}

// queueCache remembers queues that lie on disk without a slot, so that a new
// URL of one costs no read. It has a fixed size; a queue in it exists for
// certain, of others nothing is said. Guarded by the frontier's mutex.
type queueCache struct {
	slots []queueName
}

const queueCacheSlots = 1 << 18

func (c *queueCache) slot(n queueName) *queueName {
	if c.slots == nil {
		c.slots = make([]queueName, queueCacheSlots)
	}
	return &c.slots[xxh3.HashStringSeed(n.host, uint64(n.job))%queueCacheSlots]
}

func (c *queueCache) has(n queueName) bool { return *c.slot(n) == n }

func (c *queueCache) put(n queueName) { *c.slot(n) = n }

// drop forgets a queue whose records go away.
func (c *queueCache) drop(n queueName) {
	if s := c.slot(n); *s == n {
		*s = queueName{}
	}
}

// forget forgets all queues of a job.
func (c *queueCache) forget(job uint32) {
	for i := range c.slots {
		if c.slots[i].job == job {
			c.slots[i] = queueName{}
		}
	}
}
