package frontier

import (
	"encoding/binary"
	"strings"
)

// The first byte of a key names its kind. Integers are big-endian, so that the
// order of the bytes is the order of the numbers.
//
//	m                                              the deployment: format, boots, next job number
//	j <job id>                                     a job: spec, state, times
//	J <job id>                                     the same again: without it nothing of the job can be read
//	c <job u32>                                    its counters
//	u <job u32> <url key u64>                      where a URL stands
//	q <job u32> <host key> 0 <scheme> <position> <url key u64>   a queued URL
//	k <job u32> <host key>                         a queue that holds URLs: its due time
//	i <job u32> <due u64> <host key>               the same queues in the order in which they get a slot
//	h <host key>                                   a host's clock
//	d <host>                                       its addresses
//	r <scheme> <host key>                          an origin's robots.txt
//	l <lease u64>                                  a lease that is out
//	s <job u32>                                    the live runs of its seen set, oldest first
//	n <job u32> <number u64>                       keys of its seen set that are in no run yet
//	p <sequence u64>                               a journalled commit's candidates
//	t <job u32> h|d <host key or domain>            what a job has had of a host or domain
//	f <job u32>                                    the hosts that a job has deferred
//	e <job u32> <url key u64>                      the keys of a page's links, in a job with max_depth
//	y <job u32> <url key u64>                      a page whose links are to come nearer
//	a <job u32> <due u64> <url key u64>            a page that is fetched again then
//	g <name>                                       a clock that hosts share
//	w <job u32> <host key>                         a queue that is blocked or retired by hand
//	v <job u32>                                    a change of rules that is on its way through the URLs
//	H <job u32> <generation u32> <url key u64> <time u64> <n u16>   a step of a URL's history
//	G <job u32> <generation u32>                   a generation of a job's history
//	T <job u32> <sequence u64>                     when a sequence number was given
//	x <key>                                        a bad record, set aside
const (
	kindMeta       = 'm'
	kindJob        = 'j'
	kindJobCopy    = 'J'
	kindCounters   = 'c'
	kindURL        = 'u'
	kindQueued     = 'q'
	kindQueue      = 'k'
	kindInactive   = 'i'
	kindHost       = 'h'
	kindDNS        = 'd'
	kindRobots     = 'r'
	kindLease      = 'l'
	kindJournal    = 'p'
	kindLimiter    = 'g'
	kindRuns       = 's'
	kindRecent     = 'n'
	kindTally      = 't'
	kindEdges      = 'e'
	kindDue        = 'a'
	kindLower      = 'y'
	kindDeferred   = 'f'
	kindHold       = 'w'
	kindSweep      = 'v'
	kindStep       = 'H'
	kindGeneration = 'G'
	kindMark       = 'T'
	kindBad        = 'x'
)

// Schemes index what a host has one of for each.
const (
	schemeHTTP  = 0
	schemeHTTPS = 1
)

// schemeOf is the scheme of a canonical URL.
func schemeOf(url string) uint8 {
	if strings.HasPrefix(url, "https:") {
		return schemeHTTPS
	}
	return schemeHTTP
}

func schemeName(s uint8) string {
	if s == schemeHTTPS {
		return "https"
	}
	return "http"
}

// Classes of a position: what keeps a page unit comes before all else, so that
// a job at its limit finds it at the front.
const (
	classRetry  = 0
	classNormal = 1
)

// position is a URL's place in its queue.
type position struct {
	class uint8
	prio  uint32
	seq   uint64
}

// less orders positions.
func (p position) less(o position) bool {
	if p.class != o.class {
		return p.class < o.class
	}
	if p.prio != o.prio {
		return p.prio < o.prio
	}
	return p.seq < o.seq
}

func jobCopyKey(id string) []byte { return append([]byte{kindJobCopy}, id...) }

func jobKey(id string) []byte { return append([]byte{kindJob}, id...) }

func numbered(kind byte, num uint32) []byte {
	return binary.BigEndian.AppendUint32(append(make([]byte, 0, 64), kind), num)
}

func countersKey(num uint32) []byte { return numbered(kindCounters, num) }

func urlKey(num uint32, key uint64) []byte {
	return binary.BigEndian.AppendUint64(numbered(kindURL, num), key)
}

// queuePrefix is the common start of the keys of a queue's URLs.
func queuePrefix(num uint32, host string) []byte {
	return append(append(numbered(kindQueued, num), host...), 0)
}

// subPrefix is the common start of the keys of one scheme's URLs in a queue.
func subPrefix(num uint32, host string, scheme uint8) []byte {
	return append(queuePrefix(num, host), scheme)
}

func queuedKey(num uint32, host string, scheme uint8, p position, key uint64) []byte {
	b := appendPosition(subPrefix(num, host, scheme), p)
	return binary.BigEndian.AppendUint64(b, key)
}

func appendPosition(b []byte, p position) []byte {
	b = append(b, p.class)
	b = binary.BigEndian.AppendUint32(b, p.prio)
	return binary.BigEndian.AppendUint64(b, p.seq)
}

// queuedTail is the length of what follows the host key's zero byte.
const queuedTail = 1 + 1 + 4 + 8 + 8

// parseQueuedKey takes a queued URL's key apart.
func parseQueuedKey(k []byte) (num uint32, host string, scheme uint8, p position, key uint64, ok bool) {
	if len(k) < 5+1+queuedTail || k[0] != kindQueued || k[len(k)-queuedTail-1] != 0 {
		return
	}
	num = binary.BigEndian.Uint32(k[1:5])
	host = string(k[5 : len(k)-queuedTail-1])
	t := k[len(k)-queuedTail:]
	p = position{class: t[1], prio: binary.BigEndian.Uint32(t[2:6]), seq: binary.BigEndian.Uint64(t[6:14])}
	return num, host, t[0], p, binary.BigEndian.Uint64(t[14:]), true
}

func queueKey(num uint32, host string) []byte { return append(numbered(kindQueue, num), host...) }

func inactiveKey(num uint32, due int64, host string) []byte {
	b := binary.BigEndian.AppendUint64(numbered(kindInactive, num), uint64(due))
	return append(b, host...)
}

func runsKey(num uint32) []byte { return numbered(kindRuns, num) }

func recentKey(num uint32, n uint64) []byte {
	return binary.BigEndian.AppendUint64(numbered(kindRecent, num), n)
}

func sweepKey(num uint32) []byte { return numbered(kindSweep, num) }

func holdKey(num uint32, host string) []byte { return append(numbered(kindHold, num), host...) }

func hostKeyOf(host string) []byte { return append([]byte{kindHost}, host...) }

func dnsKey(name string) []byte { return append([]byte{kindDNS}, name...) }

func robotsKey(scheme uint8, host string) []byte { return append([]byte{kindRobots, scheme}, host...) }

func leaseKey(id uint64) []byte {
	return binary.BigEndian.AppendUint64([]byte{kindLease}, id)
}

func journalKey(seq uint64) []byte {
	return binary.BigEndian.AppendUint64([]byte{kindJournal}, seq)
}

// after returns the first key behind all that begin with prefix.
func after(prefix []byte) []byte {
	end := append([]byte(nil), prefix...)
	for i := len(end) - 1; i >= 0; i-- {
		if end[i] != 0xff {
			end[i]++
			return end[:i+1]
		}
	}
	return nil
}

// hostName is a host key without its port; brackets of IPv6 are dropped, as
// the dnser wants it.
func hostName(hostKey string) string {
	if strings.HasPrefix(hostKey, "[") {
		if i := strings.IndexByte(hostKey, ']'); i > 0 {
			return hostKey[1:i]
		}
	}
	if i := strings.LastIndexByte(hostKey, ':'); i >= 0 {
		return hostKey[:i]
	}
	return hostKey
}

// pathOf is the path and query of a canonical URL.
func pathOf(url string) string {
	i := strings.Index(url, "://")
	if i < 0 {
		return url
	}
	if j := strings.IndexByte(url[i+3:], '/'); j >= 0 {
		return url[i+3+j:]
	}
	return "/"
}

// hostKeyFromURL is the host key of a canonical URL.
func hostKeyFromURL(url string) string {
	i := strings.Index(url, "://")
	if i < 0 {
		return ""
	}
	rest := url[i+3:]
	if j := strings.IndexAny(rest, "/?#"); j >= 0 {
		rest = rest[:j]
	}
	return rest[strings.LastIndexByte(rest, '@')+1:]
}

// keyNumber is the number at the end of a key.
func keyNumber(k []byte) uint64 { return binary.BigEndian.Uint64(k[len(k)-8:]) }

// keyOfURL is the fingerprint in a URL's key.
func keyOfURL(k []byte) uint64 { return keyNumber(k) }
