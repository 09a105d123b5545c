// Package cache is a bounded map whose entries expire: the memory of the
// resolver. It knows nothing of DNS and has no clock of its own: the caller
// says what time it is, so that one reading of the clock serves a whole batch.
//
// Invariant: no more than the configured number of entries, nor of bytes as the
// owner counts them, is ever held; when a new one does not fit, those used
// longest ago go. An expired entry is not removed by time, only by its age of
// use: its owner may still learn from it that it has been there.
package cache

import (
	"hash/maphash"
	"math"
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
	size   func(key string, value V) int
	shards [shardCount]shard[V]
}

type shard[V any] struct {
	mu       sync.Mutex
	max      int
	maxBytes int
	bytes    int
	byKey    map[string]*node[V]
	root     node[V] // ring: root.next is the most recently used
	evicted  uint64
}

type node[V any] struct {
	prev, next *node[V]
	key        string
	value      V
	expires    time.Time
	bytes      int32
	uses       uint32
}

// Limits bound a cache. Each shard has its even part of them, and holds at least
// one entry whatever they say.
type Limits[V any] struct {
	// Entries held at most.
	Entries int
	// Bytes held at most, counted by Size; not positive: no such limit.
	Bytes int
	// Size of an entry; nil counts nothing.
	Size func(key string, value V) int
}

// New makes a cache of at most limit entries.
func New[V any](limit int) *Cache[V] { return NewLimited(Limits[V]{Entries: limit}) }

// NewLimited makes a cache with all the limits there are.
func NewLimited[V any](l Limits[V]) *Cache[V] {
	c := &Cache[V]{seed: maphash.MakeSeed(), size: l.Size}
	limit := l.Entries
	for i := range c.shards {
		s := &c.shards[i]
		// The remainder goes to the first shards, so that the sum is limit.
		s.max = limit / shardCount
		if i < limit%shardCount {
			s.max++
		}
		s.max = max(s.max, 1)
		if s.maxBytes = math.MaxInt; l.Bytes > 0 {
			s.maxBytes = l.Bytes / shardCount
		}
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
	value, fresh, held, _ = c.Use(key, now)
	return value, fresh, held
}

// Use is Get that also tells how often the value has been used since it was
// put, this time included.
func (c *Cache[V]) Use(key string, now time.Time) (value V, fresh, held bool, uses uint32) {
	s := c.shardOf(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.byKey[key]
	if n == nil {
		return value, false, false, 0
	}
	if !now.Before(n.expires) {
		return n.value, false, true, n.uses
	}
	s.toFront(n)
	if n.uses < math.MaxUint32 {
		n.uses++
	}
	return n.value, true, true, n.uses
}

// Peek returns what is held under key, fresh or not, without counting as a use.
func (c *Cache[V]) Peek(key string) (value V, held bool) {
	s := c.shardOf(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.byKey[key]
	if n == nil {
		return value, false
	}
	return n.value, true
}

// Put stores value under key until expires, in place of what was there.
func (c *Cache[V]) Put(key string, value V, expires time.Time) {
	size := c.sizeOf(key, value)
	s := c.shardOf(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.put(key, value, expires, size)
}

// Add stores value only if nothing is held under key, and says whether it did.
func (c *Cache[V]) Add(key string, value V, expires time.Time) bool {
	size := c.sizeOf(key, value)
	s := c.shardOf(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byKey[key] != nil {
		return false
	}
	s.put(key, value, expires, size)
	return true
}

func (c *Cache[V]) sizeOf(key string, value V) int {
	if c.size == nil {
		return 0
	}
	return min(c.size(key, value), math.MaxInt32)
}

// Bytes is what the entries held take, as Limits.Size counts.
func (c *Cache[V]) Bytes() int {
	n := 0
	for i := range c.shards {
		s := &c.shards[i]
		s.mu.Lock()
		n += s.bytes
		s.mu.Unlock()
	}
	return n
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

func (s *shard[V]) put(key string, value V, expires time.Time, size int) {
	n := s.byKey[key]
	if n != nil {
		s.bytes += size - int(n.bytes)
		n.value, n.expires, n.bytes, n.uses = value, expires, int32(size), 0
		s.toFront(n)
	} else {
		n = &node[V]{key: key, value: value, expires: expires, bytes: int32(size)}
		s.byKey[key] = n
		s.link(n)
		s.bytes += size
	}
	for len(s.byKey) > s.max || s.bytes > s.maxBytes {
		oldest := s.root.prev
		if oldest == n {
			return // alone, and too large: it stays until the next comes
		}
		oldest.unlink()
		delete(s.byKey, oldest.key)
		s.bytes -= int(oldest.bytes)
		s.evicted++
	}
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
