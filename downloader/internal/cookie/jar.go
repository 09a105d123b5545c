// Package cookie is the memory of one job's cookies: a jar by RFC 6265bis, with
// a bound on its size, that can be read from and written to Netscape's
// cookies.txt. A jar belongs to one job; what one job is told by a server no
// other job repeats.
package cookie

import (
	"bytes"
	"container/list"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/net/publicsuffix"
)

// Bounds of one cookie and of one host's, as browsers have them.
const (
	maxPair      = 4096
	maxAttribute = 1024
	maxPerHost   = 180
	// overhead is what a cookie costs beside its strings.
	overhead = 256
	// longest is how long a cookie is kept at most.
	longest = 400 * 24 * time.Hour
)

// cookie is one cookie. It expires with the jar where expires is zero.
type cookie struct {
	domain   string // lower case, without a leading dot
	hostOnly bool
	path     string
	name     string
	value    string
	expires  time.Time
	secure   bool
	httpOnly bool
	created  uint64 // order of creation
}

func (c *cookie) size() int64 {
	return int64(overhead + len(c.domain) + len(c.path) + len(c.name) + len(c.value))
}

type id struct{ name, path string }

// Jar keeps cookies. Its methods are safe for concurrent use.
type Jar struct {
	max int64

	mu      sync.Mutex
	size    int64
	created uint64
	byHost  map[string]map[id]*list.Element
	lru     *list.List // of *cookie, most recently used first
	dirty   bool
	again   map[string]int
}

// New returns an empty jar of at most maxBytes.
func New(maxBytes int64) *Jar {
	return &Jar{max: maxBytes, byHost: map[string]map[id]*list.Element{}, lru: list.New()}
}

// Len is how many cookies there are, and Size their cost in bytes.
func (j *Jar) Len() int { j.mu.Lock(); defer j.mu.Unlock(); return j.lru.Len() }

// Size is what the cookies cost, in bytes.
func (j *Jar) Size() int64 { j.mu.Lock(); defer j.mu.Unlock(); return j.size }

// Append appends what a Cookie header for a request holds; nothing if there is
// no cookie for it.
func (j *Jar) Append(b []byte, host, path string, secure bool, now time.Time) []byte {
	host, path = hostOf(host), pathOf(path)
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.lru.Len() == 0 {
		return b
	}
	var found []*list.Element
	for domain := host; domain != ""; {
		for _, e := range j.byHost[domain] {
			c := e.Value.(*cookie)
			switch {
			case !c.expires.IsZero() && !now.Before(c.expires):
				j.remove(e)
			case c.hostOnly && domain != host, c.secure && !secure, !pathMatch(path, c.path):
			default:
				found = append(found, e)
			}
		}
		if isAddr(host) {
			break
		}
		_, domain, _ = strings.Cut(domain, ".")
	}
	// RFC 6265 section 5.4: longer paths first, then the older.
	slices.SortFunc(found, func(x, y *list.Element) int {
		a, b := x.Value.(*cookie), y.Value.(*cookie)
		if d := len(b.path) - len(a.path); d != 0 {
			return d
		}
		return int(int64(a.created) - int64(b.created))
	})
	for i, e := range found {
		c := e.Value.(*cookie)
		if i > 0 {
			b = append(b, "; "...)
		}
		if c.name != "" {
			b = append(append(b, c.name...), '=')
		}
		b = append(b, c.value...)
		j.lru.MoveToFront(e)
	}
	return b
}

// Set takes the value of a Set-Cookie header of a response to a request for
// host and path. changed tells whether the next request for the same will carry
// other cookies.
func (j *Jar) Set(value []byte, host, path string, secure bool, now time.Time) (changed bool) {
	host, path = hostOf(host), pathOf(path)
	c, ok := parse(value, host, path, secure, now)
	if !ok || !isHost(host) {
		return false
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.put(c, now) && pathMatch(path, c.path)
}

// put stores a cookie. changed tells whether it is new or other than before.
func (j *Jar) put(c *cookie, now time.Time) (changed bool) {
	key := id{c.name, c.path}
	existed := false
	if e := j.byHost[c.domain][key]; e != nil {
		old := e.Value.(*cookie)
		existed = true
		c.created = old.created
		changed = old.value != c.value
		j.remove(e)
	} else {
		j.created++
		c.created, changed = j.created, true
	}
	j.dirty = true
	if !c.expires.IsZero() && !now.Before(c.expires) {
		return existed // else nothing was there to remove
	}
	if c.size() > j.max {
		return false
	}
	m := j.byHost[c.domain]
	if m == nil {
		m = map[id]*list.Element{}
		j.byHost[c.domain] = m
	}
	if len(m) >= maxPerHost {
		j.remove(oldest(m))
	}
	if j.byHost[c.domain] == nil {
		j.byHost[c.domain] = m
	}
	m[key] = j.lru.PushFront(c)
	j.size += c.size()
	for j.size > j.max {
		j.remove(j.lru.Back())
	}
	return changed
}

func oldest(m map[id]*list.Element) (out *list.Element) {
	for _, e := range m {
		if out == nil || e.Value.(*cookie).created < out.Value.(*cookie).created {
			out = e
		}
	}
	return out
}

func (j *Jar) remove(e *list.Element) {
	c := j.lru.Remove(e).(*cookie)
	j.size -= c.size()
	m := j.byHost[c.domain]
	delete(m, id{c.name, c.path})
	if len(m) == 0 {
		delete(j.byHost, c.domain)
	}
}

// parse reads a Set-Cookie value as RFC 6265bis section 5.6 says.
func parse(value []byte, host, path string, secure bool, now time.Time) (*cookie, bool) {
	if bytes.ContainsFunc(value, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }) {
		return nil, false
	}
	pair, attrs, _ := strings.Cut(string(value), ";")
	name, val, ok := strings.Cut(pair, "=")
	if !ok {
		name, val = "", pair
	}
	c := &cookie{domain: host, hostOnly: true, path: defaultPath(path), name: strings.Trim(name, " \t"), value: strings.Trim(val, " \t")}
	if (c.name == "" && c.value == "") || len(c.name)+len(c.value) > maxPair {
		return nil, false
	}
	maxAge := false
	rootPath := false
	for attr := range strings.SplitSeq(attrs, ";") {
		key, v, _ := strings.Cut(attr, "=")
		key, v = strings.ToLower(strings.Trim(key, " \t")), strings.Trim(v, " \t")
		if len(v) > maxAttribute {
			continue
		}
		switch key {
		case "expires":
			if t, ok := parseDate(v); ok && !maxAge {
				c.expires = t
			}
		case "max-age":
			n, err := strconv.ParseInt(v, 10, 64)
			if err != nil && !strings.Contains(err.Error(), "range") {
				continue
			}
			maxAge = true
			c.expires = now.Add(time.Duration(min(max(n, 0), int64(longest/time.Second))) * time.Second)
			if n <= 0 {
				c.expires = time.Unix(1, 0)
			}
		case "domain":
			if d := strings.ToLower(strings.TrimPrefix(v, ".")); d != "" {
				c.domain, c.hostOnly = d, false
			}
		case "path":
			if strings.HasPrefix(v, "/") {
				c.path, rootPath = v, v == "/"
			}
		case "secure":
			c.secure = true
		case "httponly":
			c.httpOnly = true
		}
	}
	if last := now.Add(longest); c.expires.After(last) {
		c.expires = last
	}
	if !c.hostOnly {
		switch {
		case c.domain == host && (isAddr(host) || isPublic(host)):
			c.hostOnly = true
		case c.domain == host:
		case isAddr(host), isPublic(c.domain), !strings.HasSuffix(host, "."+c.domain):
			return nil, false
		}
	}
	if c.secure && !secure {
		return nil, false
	}
	lower := strings.ToLower(c.name)
	if c.name == "" {
		lower = strings.ToLower(c.value)
	}
	switch {
	case strings.HasPrefix(lower, "__secure-") && !c.secure,
		strings.HasPrefix(lower, "__host-") && (!c.secure || !c.hostOnly || !rootPath):
		return nil, false
	}
	return c, true
}

// isHost tells a canonical host from anything else.
func isHost(host string) bool {
	return host != "" && strings.Trim(host, "abcdefghijklmnopqrstuvwxyz0123456789.-_:[]") == "" && host[0] != '.'
}

func isPublic(domain string) bool {
	suffix, _ := publicsuffix.PublicSuffix(domain)
	return suffix == domain
}

func isAddr(host string) bool { _, err := netip.ParseAddr(host); return err == nil }

// hostOf is a host without port, brackets and a last dot, in lower case.
func hostOf(host string) string {
	return strings.ToLower(strings.TrimSuffix(host, "."))
}

// pathOf is a request target without its query.
func pathOf(target string) string {
	path, _, _ := strings.Cut(target, "?")
	return path
}

// defaultPath is RFC 6265 section 5.1.4.
func defaultPath(path string) string {
	i := strings.LastIndexByte(path, '/')
	if i <= 0 {
		return "/"
	}
	return path[:i]
}

func pathMatch(request, cookie string) bool {
	return request == cookie || strings.HasPrefix(request, cookie) && (strings.HasSuffix(cookie, "/") || request[len(cookie)] == '/')
}

// maxAgain is how often a URL is asked for again because its redirect to itself
// came with new cookies.
const (
	maxAgain = 3
	maxURLs  = 4096
)

// Again tells whether a URL that redirects to itself with new cookies is to be
// asked for again, which it is a few times.
func (j *Jar) Again(url string) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.again == nil || len(j.again) >= maxURLs {
		j.again = map[string]int{}
	}
	j.again[url]++
	return j.again[url] <= maxAgain
}
