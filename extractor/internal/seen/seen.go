// Package seen remembers links that the frontier has acknowledged, so that most
// links of a page (the menu of its site) need not travel again.
//
// It is a cache of fixed memory: forgetting costs a message, never a link. A
// link is held by a 64-bit fingerprint keyed with a secret of the process, so
// that two different links are taken for one with the odds of 2⁻⁶⁴ a pair.
package seen

import (
	"math/rand/v2"
	"sync"

	"github.com/zeebo/xxh3"
)

const (
	shards = 256
	ways   = 4
)

// Cache is safe for concurrent use.
type Cache struct {
	secret uint64
	sets   uint64 // a power of two
	shard  [shards]shard
}

// shard is a part of the cache with its own lock. An entry is the upper 56 bits
// of a key above 8 bits of depth, in one word, so that a look-up touches one
// cache line. The key's lower 8 bits are the shard's number: nothing of it is
// lost.
type shard struct {
	mu      sync.Mutex
	entries []uint64 // sets × ways, the newest of a set first; 0 is empty
	_       [32]byte // one shard's lock a cache line
}

// New returns a cache of about entries links (8 bytes each), at least 1024.
func New(entries int) *Cache {
	c := &Cache{secret: rand.Uint64(), sets: 1}
	for c.sets*ways*shards < uint64(max(entries, shards*ways)) {
		c.sets *= 2
	}
	for i := range c.shard {
		c.shard[i].entries = make([]uint64, c.sets*ways)
	}
	return c
}

// Key is the fingerprint of a URL under a generation: what a job's id, its
// frontier's epoch and its spec's version make (Generation).
func (c *Cache) Key(generation uint64, url string) uint64 {
	k := xxh3.HashStringSeed(url, generation^c.secret)
	if k < shards {
		// An entry of zeros is an empty one.
		k += shards
	}
	return k
}

// Generation makes one number of what a link's acknowledgement depends on.
func Generation(job string, epoch, version uint64) uint64 {
	h := xxh3.HashString(job)
	h ^= epoch * 0x9e3779b97f4a7c15
	h ^= version * 0xd6e8feb86659fd93
	return h
}

// maxDepth is what an entry holds: depths of it and above are not told apart.
const maxDepth = 255

func entry(key uint64, depth uint32) uint64 { return key&^maxDepth | uint64(min(depth, maxDepth)) }

// Knows tells whether the link was acknowledged with this depth or a smaller
// one. A depth of 255 or more is never known: depths are not told apart there.
func (c *Cache) Knows(key uint64, depth uint32) bool {
	if depth >= maxDepth {
		return false
	}
	s, set := c.at(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.entries[set : set+ways] {
		if e&^maxDepth == key&^maxDepth {
			return e&maxDepth <= uint64(depth)
		}
	}
	return false
}

// Add remembers a link that the frontier has acknowledged.
func (c *Cache) Add(key uint64, depth uint32) {
	s, at := c.at(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	set := s.entries[at : at+ways]
	e, last := entry(key, depth), ways-1
	for i, old := range set {
		if old&^maxDepth == e&^maxDepth {
			e, last = min(e, old), i
			break
		}
	}
	copy(set[1:last+1], set[:last])
	set[0] = e
}

func (c *Cache) at(key uint64) (*shard, uint64) {
	return &c.shard[key%shards], (key / shards % c.sets) * ways
}
