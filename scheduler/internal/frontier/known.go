package frontier

import (
	"math/rand/v2"
	"slices"

	"github.com/zeebo/xxh3"
)

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

// queueCache remembers queues that lie on disk, so that a new URL of one costs
// no read. It has a fixed size and keeps fingerprints of 64 bits, keyed anew in
// each process: of n queues n²/2⁶⁵ are expected to be mistaken for another,
// 0.0003 of a hundred million. Guarded by the frontier's mutex.
type queueCache struct {
	seed  uint64
	lines [][queueCacheWays]uint64 // each a line of the processor's cache
}

const (
	queueCacheWays  = 8
	queueCacheLines = 1 << 18
)

// find returns the line of a queue, its fingerprint and its place in the line;
// -1: it is not there.
func (c *queueCache) find(n queueName) (line *[queueCacheWays]uint64, print uint64, at int) {
	if c.lines == nil {
		c.lines, c.seed = make([][queueCacheWays]uint64, queueCacheLines), rand.Uint64()
	}
	print = max(1, xxh3.HashStringSeed(n.host, c.seed^uint64(n.job)))
	line = &c.lines[print%queueCacheLines]
	return line, print, slices.Index(line[:], print)
}

func (c *queueCache) has(n queueName) bool {
	_, _, at := c.find(n)
	return at >= 0
}

// put remembers a queue, in place of the one that came to its line first.
func (c *queueCache) put(n queueName) {
	if line, print, at := c.find(n); at < 0 {
		copy(line[1:], line[:queueCacheWays-1])
		line[0] = print
	}
}

// drop forgets a queue whose records go away.
func (c *queueCache) drop(n queueName) {
	if line, _, at := c.find(n); at >= 0 {
		line[at] = 0
	}
}

// forget forgets all queues: those of a job go away.
func (c *queueCache) forget() { clear(c.lines) }
