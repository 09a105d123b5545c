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

type shard struct {
	mu   sync.Mutex
	keys []uint64 // sets × ways; 0 is empty, the newest first
	dep  []uint8  // depth, 255 and above as 255
	_    [40]byte // one shard's lock a cache line
}

// New returns a cache of about entries links (9 bytes each), at least 1024.
func New(entries int) *Cache {
	c := &Cache{secret: rand.Uint64(), sets: 1}
	for c.sets*ways*shards < uint64(max(entries, shards*ways)) {
		c.sets *= 2
	}
	for i := range c.shard {
		c.shard[i].keys = make([]uint64, c.sets*ways)
		c.shard[i].dep = make([]uint8, c.sets*ways)
	}
	return c
}

// Key is the fingerprint of a URL under a generation: what a job's id, its
// frontier's epoch and its spec's version make (Generation).
func (c *Cache) Key(generation uint64, url string) uint64 {
	k := xxh3.HashStringSeed(url, generation^c.secret)
	if k == 0 {
		k = 1
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

func clip(depth uint32) uint8 { return uint8(min(depth, 255)) }

// Knows tells whether the link was acknowledged with this depth or a smaller
// one. A depth of 255 or more is never known: depths are not told apart there.
func (c *Cache) Knows(key uint64, depth uint32) bool {
	if depth >= 255 {
		return false
	}
	s, at := c.at(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := at; i < at+ways; i++ {
		if s.keys[i] == key {
			return s.dep[i] <= clip(depth)
		}
	}
	return false
}

// Add remembers a link that the frontier has acknowledged.
func (c *Cache) Add(key uint64, depth uint32) {
	s, at := c.at(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	last := at + ways - 1
	d := clip(depth)
	for i := at; i < at+ways; i++ {
		if s.keys[i] == key {
			d = min(d, s.dep[i])
			last = i
			break
		}
	}
	copy(s.keys[at+1:last+1], s.keys[at:last])
	copy(s.dep[at+1:last+1], s.dep[at:last])
	s.keys[at], s.dep[at] = key, d
}

func (c *Cache) at(key uint64) (*shard, uint64) {
	return &c.shard[key%shards], (key / shards % c.sets) * ways
}
