// Package seen remembers links that the frontier has acknowledged, so that most
// links of a page (the menu of its site) need not travel again.
//
// It is a cache of bounded memory: forgetting costs a message, never a link. A
// link is held by a 64-bit fingerprint keyed with a secret of the process, so
// that two different links are taken for one with the odds of 2⁻⁶⁴ a pair.
//
// A look-up takes no lock and touches one cache line, so that the look-ups of
// a page's links overlap in the processor. The table starts small, since a
// small table stays in the processor's cache, and doubles when it forgets much.
package seen

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"

	"github.com/zeebo/xxh3"
)

const (
	// ways is the number of entries of a set, half a cache line.
	ways = 4
	// locks guard the sets against concurrent writers; a set's lock is the lower
	// 8 bits of its number.
	locks = 256
	// maxDepth is what an entry holds: depths of it and above are not told apart.
	maxDepth = 255
	// firstSets is the size of a new cache, 64 KiB.
	firstSets = 2048
)

// Cache is safe for concurrent use.
type Cache struct {
	secret  uint64
	maxSets uint64
	table   atomic.Pointer[table]
	evicted atomic.Int64 // since the table was made
	writers [locks]sync.Mutex
}

// table holds sets of entries, the newest of a set first. An entry is the upper
// 56 bits of a key above 8 bits of depth, 0 an empty one. A set's number is the
// key's lower bits, at least 8: nothing of a key is lost. Entries are read and
// written atomically.
type table struct {
	sets    uint64 // a power of two, at least locks
	entries []uint64
}

func newTable(sets uint64) *table {
	return &table{sets: sets, entries: make([]uint64, sets*ways)}
}

// patience is how many links may be forgotten before the table grows.
func (t *table) patience() int64 { return int64(t.sets / 8) }

func (t *table) set(key uint64) []uint64 {
	at := (key & (t.sets - 1)) * ways
	return t.entries[at : at+ways : at+ways]
}

// New returns a cache of at most about entries links (8 bytes each).
func New(entries int) *Cache {
	c := &Cache{secret: rand.Uint64(), maxSets: locks}
	for c.maxSets*ways < uint64(max(entries, 1)) {
		c.maxSets *= 2
	}
	c.table.Store(newTable(min(c.maxSets, firstSets)))
	return c
}

// Key is the fingerprint of a URL under a generation: what a job's id, its
// frontier's epoch and its spec's version make (Generation).
func (c *Cache) Key(generation uint64, url string) uint64 {
	k := xxh3.HashStringSeed(url, generation^c.secret)
	if k <= maxDepth {
		// An entry of zeros is an empty one.
		k += maxDepth + 1
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

// Dated is a generation in which a link is known with the date that a sitemap
// gives it, Unix seconds: with another date it is another link.
func Dated(generation uint64, date int64) uint64 {
	return generation ^ (uint64(date)+1)*0xa0761d6478bd642f
}

func entry(key uint64, depth uint32) uint64 { return key&^maxDepth | uint64(min(depth, maxDepth)) }

// Knows tells whether the link was acknowledged with this depth or a smaller
// one. A depth of 255 or more is never known: depths are not told apart there.
func (c *Cache) Knows(key uint64, depth uint32) bool {
	if depth >= maxDepth {
		return false
	}
	set := c.table.Load().set(key)
	for i := range set {
		if e := atomic.LoadUint64(&set[i]); e&^maxDepth == key&^maxDepth {
			return e&maxDepth <= uint64(depth)
		}
	}
	return false
}

// Add remembers a link that the frontier has acknowledged.
func (c *Cache) Add(key uint64, depth uint32) {
	if c.add(key, depth) && c.evicted.Add(1) > c.table.Load().patience() {
		c.grow()
	}
}

// add tells whether another link was forgotten for it.
func (c *Cache) add(key uint64, depth uint32) (evicted bool) {
	lock := &c.writers[key%locks]
	lock.Lock()
	defer lock.Unlock()
	return c.table.Load().put(entry(key, depth), key)
}

// put adds an entry to its set, as the newest. A reader that comes in between
// may miss a link that moves: it forgets it for a moment.
func (t *table) put(e, key uint64) (evicted bool) {
	set := t.set(key)
	last := ways - 1
	for i, old := range set {
		if old&^maxDepth == e&^maxDepth {
			e, last = min(e, old), i
			break
		}
	}
	evicted = set[last] != 0 && set[last]&^maxDepth != e&^maxDepth
	for i := last; i > 0; i-- {
		atomic.StoreUint64(&set[i], set[i-1])
	}
	atomic.StoreUint64(&set[0], e)
	return evicted
}

// grow doubles the table, up to its bound.
func (c *Cache) grow() {
	for i := range c.writers {
		c.writers[i].Lock()
	}
	defer func() {
		for i := range c.writers {
			c.writers[i].Unlock()
		}
	}()
	old := c.table.Load()
	if c.evicted.Load() <= old.patience() {
		return // another has grown it
	}
	c.evicted.Store(0)
	if old.sets >= c.maxSets {
		return
	}
	next := newTable(2 * old.sets)
	for s := range old.sets {
		set := old.entries[s*ways : (s+1)*ways]
		for i := ways - 1; i >= 0; i-- {
			if e := set[i]; e != 0 {
				// The set's number holds the bits that the depth has taken.
				next.put(e, e&^maxDepth|s&maxDepth)
			}
		}
	}
	c.table.Store(next)
}
