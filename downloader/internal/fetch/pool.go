package fetch

import (
	"sync"
	"time"
)

// pool holds the connections that no exchange uses. It is bounded in number,
// over all hosts and per key; what is too much or too old is closed, the least
// recently used first.
type pool struct {
	maxIdle, maxPerKey int

	mu     sync.Mutex
	closed bool
	n      int
	idle   map[connKey][]*conn // most recently used last
	newest *conn
	oldest *conn
}

func newPool(maxIdle, maxPerKey int) *pool {
	return &pool{maxIdle: maxIdle, maxPerKey: maxPerKey, idle: make(map[connKey][]*conn)}
}

// take returns a connection for key that is not known to be stale, or nil.
func (p *pool) take(key connKey, now time.Time) *conn {
	for {
		p.mu.Lock()
		list := p.idle[key]
		if len(list) == 0 {
			p.mu.Unlock()
			return nil
		}
		c := list[len(list)-1]
		p.remove(c)
		old := now.After(c.expires)
		p.mu.Unlock()
		if !old && !c.stale() {
			return c
		}
		c.close()
	}
}

// put keeps c until expires, or closes it if there is no room.
func (p *pool) put(c *conn, expires time.Time) {
	var victim *conn
	p.mu.Lock()
	switch {
	case p.closed || p.maxIdle < 1 || len(p.idle[c.key]) >= p.maxPerKey:
		victim = c
	case p.n >= p.maxIdle:
		victim = p.oldest
		p.remove(victim)
		fallthrough
	default:
		c.expires = expires
		p.idle[c.key] = append(p.idle[c.key], c)
		c.old, c.newer = p.newest, nil
		if p.newest != nil {
			p.newest.newer = c
		} else {
			p.oldest = c
		}
		p.newest = c
		p.n++
	}
	p.mu.Unlock()
	if victim != nil {
		victim.close()
	}
}

// yield closes the connection that was used longest ago, and tells whether there
// was one.
func (p *pool) yield() bool {
	p.mu.Lock()
	c := p.oldest
	if c != nil {
		p.remove(c)
	}
	p.mu.Unlock()
	if c == nil {
		return false
	}
	c.close()
	return true
}

// remove takes c out of the pool. The lock is held.
func (p *pool) remove(c *conn) {
	list := p.idle[c.key]
	for i := len(list) - 1; i >= 0; i-- {
		if list[i] == c {
			copy(list[i:], list[i+1:])
			list[len(list)-1] = nil
			list = list[:len(list)-1]
			break
		}
	}
	if len(list) == 0 {
		delete(p.idle, c.key)
	} else {
		p.idle[c.key] = list
	}
	if c.newer != nil {
		c.newer.old = c.old
	} else {
		p.newest = c.old
	}
	if c.old != nil {
		c.old.newer = c.newer
	} else {
		p.oldest = c.newer
	}
	c.newer, c.old = nil, nil
	p.n--
}

// sweep closes what has expired or was closed by the server, so that neither
// memory nor file descriptors wait for a host's next turn.
func (p *pool) sweep(now time.Time) {
	var out []*conn
	p.mu.Lock()
	for c := p.oldest; c != nil; {
		next := c.newer
		if now.After(c.expires) {
			p.remove(c)
			out = append(out, c)
		} else if c.raw != nil {
			if _, gone := c.peek(); gone {
				p.remove(c)
				out = append(out, c)
			}
		}
		c = next
	}
	p.mu.Unlock()
	for _, c := range out {
		c.close()
	}
}

// close closes all connections and every later one.
func (p *pool) close() {
	p.mu.Lock()
	p.closed = true
	var out []*conn
	for c := p.oldest; c != nil; c = p.oldest {
		p.remove(c)
		out = append(out, c)
	}
	p.mu.Unlock()
	for _, c := range out {
		c.close()
	}
}

func (p *pool) size() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.n
}
