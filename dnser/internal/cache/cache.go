// Package cache is a bounded map whose entries expire: the memory of the
// resolver. It knows nothing of DNS and has no clock of its own: the caller
// says what time it is, so that one reading of the clock serves a whole batch.
//
// Invariant: no more than the configured number of entries is ever held; when
// a new one does not fit, the one used longest ago goes. An expired entry is
// not removed by time, only by its age of use: its owner may still learn from
// it that it has been there.
package cache

import (
	"hash/maphash"
	"sync"
	"time"
)

// shardCount is a power of two; it only spreads lock contention.
const shardCount = 16

// Cache maps names to values of V with an expiry each. It is safe for
// concurrent use. Values are handed out as they were put in: V should be
// immutable or a pointer to something immutable.
type Cache[V any] struct {
	seed   maphash.Seed
	shards [shardCount]shard[V]
}

type shard[V any] struct {
	mu      sync.Mutex
	max     int
	byKey   map[string]*node[V]
	root    node[V] // ring: root.next is the most recently used
	evicted uint64
}

type node[V any] struct {
	prev, next *node[V]
	key        string
	value      V
	expires    time.Time
}

// New makes a cache of at most limit entries, but no fewer than one a shard.
func New[V any](limit int) *Cache[V] {
	c := &Cache[V]{seed: maphash.MakeSeed()}
	for i := range c.shards {
		s := &c.shards[i]
		// The remainder goes to the first shards, so that the sum is limit.
		s.max = limit / shardCount
		if i < limit%shardCount {
			s.max++
		}
		s.max = max(s.max, 1)
		s.byKey = make(map[string]*node[V])
		s.root.prev, s.root.next = &s.root, &s.root
	}
	return c
}

func (c *Cache[V]) shardOf(key string) *shard[V] {
	return &c.shards[maphash.String(c.seed, key)&(shardCount-1)]
}

// Get returns what is held under key. held says whether there is an entry at
// all, fresh whether it has not expired at now. A fresh entry counts as used.
func (c *Cache[V]) Get(key string, now time.Time) (value V, fresh, held bool) {
	s := c.shardOf(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.byKey[key]
	if n == nil {
		return value, false, false
	}
	if !now.Before(n.expires) {
		return n.value, false, true
	}
	s.toFront(n)
	return n.value, true, true
}

// Put stores value under key until expires, in place of what was there.
func (c *Cache[V]) Put(key string, value V, expires time.Time) {
	s := c.shardOf(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.put(key, value, expires)
}

// Add stores value only if nothing is held under key, and says whether it did.
func (c *Cache[V]) Add(key string, value V, expires time.Time) bool {
	s := c.shardOf(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byKey[key] != nil {
		return false
	}
	s.put(key, value, expires)
	return true
}

// Len is the number of entries held, expired ones included.
func (c *Cache[V]) Len() int {
	n := 0
	for i := range c.shards {
		s := &c.shards[i]
		s.mu.Lock()
		n += len(s.byKey)
		s.mu.Unlock()
	}
	return n
}

// Evicted is how many entries have been dropped for want of room.
func (c *Cache[V]) Evicted() uint64 {
	var n uint64
	for i := range c.shards {
		s := &c.shards[i]
		s.mu.Lock()
		n += s.evicted
		s.mu.Unlock()
	}
	return n
}

// Each calls fn for every entry, within a shard from the one used longest ago
// to the latest, so that putting them back in that order restores their ages.
// fn runs under the shard's lock and must not call the cache.
func (c *Cache[V]) Each(fn func(key string, value V, expires time.Time)) {
	for i := range c.shards {
		s := &c.shards[i]
		s.mu.Lock()
		for n := s.root.prev; n != &s.root; n = n.prev {
			fn(n.key, n.value, n.expires)
		}
		s.mu.Unlock()
	}
}

func (s *shard[V]) put(key string, value V, expires time.Time) {
	if n := s.byKey[key]; n != nil {
		n.value, n.expires = value, expires
		s.toFront(n)
		return
	}
	if len(s.byKey) >= s.max {
		oldest := s.root.prev
		oldest.unlink()
		delete(s.byKey, oldest.key)
		s.evicted++
	}
	n := &node[V]{key: key, value: value, expires: expires}
	s.byKey[key] = n
	s.link(n)
}

func (s *shard[V]) toFront(n *node[V]) {
	if s.root.next == n {
		return
	}
	n.unlink()
	s.link(n)
}

func (s *shard[V]) link(n *node[V]) {
	n.prev, n.next = &s.root, s.root.next
	n.prev.next, n.next.prev = n, n
}

func (n *node[V]) unlink() {
	n.prev.next, n.next.prev = n.next, n.prev
}
