package frontier

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"net/netip"
	"time"

	schedulerv1 "lycosa.dev/proto/gen/lycosa/scheduler/v1"
)

// A record on disk is a version, a payload and a checksum over the key, the
// version and the payload: a record under a wrong key is as bad as a damaged
// one. A bad record is set aside and reported, never fatal.
const recordVersion = 1

// storeFormat is the number of the layout as a whole: keys, records, seen set.
// It grows with every change that an older or newer program would misread; a
// frontier of another format is refused and left as it is.
const storeFormat = 3

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// errBadRecord: a record cannot be read.
var errBadRecord = errors.New("bad record")

// writer appends a payload.
type writer struct{ b []byte }

func newWriter() *writer { return &writer{b: append(make([]byte, 0, 160), recordVersion)} }

func (w *writer) uint(v uint64) { w.b = binary.AppendUvarint(w.b, v) }
func (w *writer) int(v int64)   { w.b = binary.AppendVarint(w.b, v) }
func (w *writer) fixed(v uint64) {
	w.b = binary.LittleEndian.AppendUint64(w.b, v)
}
func (w *writer) str(s string) {
	w.uint(uint64(len(s)))
	w.b = append(w.b, s...)
}
func (w *writer) bytes(s []byte) {
	w.uint(uint64(len(s)))
	w.b = append(w.b, s...)
}
func (w *writer) bool(v bool) {
	if v {
		w.b = append(w.b, 1)
	} else {
		w.b = append(w.b, 0)
	}
}

// seal returns the record for its key. The payload stays as it is: it may be
// sealed for another key once this record has been copied.
func (w *writer) seal(key []byte) []byte {
	sum := crc32.Update(crc32.Checksum(key, castagnoli), castagnoli, w.b)
	return binary.LittleEndian.AppendUint32(w.b, sum)
}

// reader reads a payload; after the first error all reads give zero.
type reader struct {
	b   []byte
	err error
}

// open checks a record and returns a reader of its payload.
func open(key, value []byte) (*reader, error) {
	if len(value) < 5 {
		return nil, fmt.Errorf("%w: %d bytes", errBadRecord, len(value))
	}
	body := value[:len(value)-4]
	sum := crc32.Update(crc32.Checksum(key, castagnoli), castagnoli, body)
	if got := binary.LittleEndian.Uint32(value[len(value)-4:]); got != sum {
		return nil, fmt.Errorf("%w: checksum %08x, want %08x", errBadRecord, got, sum)
	}
	if body[0] != recordVersion {
		return nil, fmt.Errorf("%w: version %d, this program reads %d", errBadRecord, body[0], recordVersion)
	}
	return &reader{b: body[1:]}, nil
}

func (r *reader) fail() {
	if r.err == nil {
		r.err = fmt.Errorf("%w: too short", errBadRecord)
	}
	r.b = nil
}

func (r *reader) uint() uint64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 {
		r.fail()
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *reader) u32() uint32 { return uint32(r.uint()) }

func (r *reader) int() int64 {
	v, n := binary.Varint(r.b)
	if n <= 0 {
		r.fail()
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *reader) fixed() uint64 {
	if len(r.b) < 8 {
		r.fail()
		return 0
	}
	v := binary.LittleEndian.Uint64(r.b)
	r.b = r.b[8:]
	return v
}

func (r *reader) raw() []byte {
	n := r.uint()
	if n > uint64(len(r.b)) {
		r.fail()
		return nil
	}
	s := r.b[:n:n]
	r.b = r.b[n:]
	return s
}

func (r *reader) str() string { return string(r.raw()) }

func (r *reader) bytes() []byte {
	if s := r.raw(); len(s) > 0 {
		return append([]byte(nil), s...)
	}
	return nil
}

func (r *reader) bool() bool {
	if len(r.b) == 0 {
		r.fail()
		return false
	}
	v := r.b[0]
	r.b = r.b[1:]
	return v != 0
}

// entry is a URL in the frontier with how it came there.
type entry struct {
	key        uint64
	url        string
	pos        position
	depth      uint32
	redirects  uint32
	attempts   uint32        // tries that count
	priority   uint32        // as the candidate had it
	failures   uint64        // tries by failure class, a byte each
	interval   time.Duration // until the next visit; 0: none
	due        int64         // of the next visit, by the due clock; 0: none
	validators []byte        // of the last visit
	round      uint32        // in which it was done before the round's pass was through; 0: not so
	crashes    uint32        // times it was out when its process died
	lastLease  uint64        // the lease that an outcome has ended last
	lastMod    int64         // lastmod of a sitemap, Unix seconds; 0: none
	seed       bool
	reserved   bool // it keeps a page unit
	hop        string
	referrer   string
	rule       string
	foundBy    string // traceparent of the lease that found it
	outcome    []byte // the last try's outcome, without what the entry says
}

func (e *entry) scheme() uint8 { return schemeOf(e.url) }

// write appends the entry, which ends a record; key and position are in the
// record's key.
func (e *entry) write(w *writer) {
	w.str(e.url)
	w.uint(uint64(e.depth))
	w.uint(uint64(e.redirects))
	w.uint(uint64(e.attempts))
	w.uint(uint64(e.priority))
	w.uint(e.failures)
	w.uint(uint64(e.crashes))
	flags := byte(0)
	if e.seed {
		flags |= 1
	}
	if e.reserved {
		flags |= 2
	}
	if e.lastLease != 0 {
		flags |= 4
	}
	w.b = append(w.b, flags)
	if e.lastLease != 0 {
		w.fixed(e.lastLease)
	}
	w.int(e.lastMod)
	w.str(e.hop)
	w.str(e.referrer)
	w.str(e.rule)
	w.str(e.foundBy)
	w.bytes(e.outcome)
	w.int(int64(e.interval))
	w.int(e.due)
	w.bytes(e.validators)
	if e.round != 0 {
		w.uint(uint64(e.round))
	}
}

func (e *entry) read(r *reader) {
	e.url = r.str()
	e.depth, e.redirects, e.attempts = r.u32(), r.u32(), r.u32()
	e.priority, e.failures, e.crashes = r.u32(), r.uint(), r.u32()
	flags := byte(0)
	if len(r.b) == 0 {
		r.fail()
	} else {
		flags, r.b = r.b[0], r.b[1:]
	}
	e.seed, e.reserved = flags&1 != 0, flags&2 != 0
	if flags&4 != 0 {
		e.lastLease = r.fixed()
	}
	e.lastMod = r.int()
	e.hop, e.referrer, e.rule, e.foundBy = r.str(), r.str(), r.str(), r.str()
	e.outcome = r.bytes()
	e.interval, e.due, e.validators = time.Duration(r.int()), r.int(), r.bytes()
	if len(r.b) > 0 {
		e.round = r.u32()
	}
}

func writePosition(w *writer, p position) {
	w.uint(uint64(p.class))
	w.uint(uint64(p.prio))
	w.uint(p.seq)
}

func readPosition(r *reader) position {
	return position{class: uint8(r.uint()), prio: r.u32(), seq: r.uint()}
}

// urlRecord says where a URL stands. A queued one points to its place, a
// leased one to its lease, any other holds the entry.
type urlRecord struct {
	state  schedulerv1.UrlState
	depth  uint32
	host   string
	scheme uint8    // queued
	pos    position // queued
	lease  uint64   // leased
	reason string   // ended
	at     int64    // ended: Unix nanoseconds
	entry  *entry   // ended
}

const (
	stateQueued   = schedulerv1.UrlState_URL_STATE_QUEUED
	stateLeased   = schedulerv1.UrlState_URL_STATE_LEASED
	stateDone     = schedulerv1.UrlState_URL_STATE_DONE
	stateExcluded = schedulerv1.UrlState_URL_STATE_EXCLUDED
	stateFailed   = schedulerv1.UrlState_URL_STATE_FAILED
)

func (u *urlRecord) encode(key []byte) []byte {
	w := newWriter()
	w.uint(uint64(u.state))
	w.uint(uint64(u.depth))
	w.str(u.host)
	switch u.state {
	case stateQueued:
		w.uint(uint64(u.scheme))
		writePosition(w, u.pos)
	case stateLeased:
		w.fixed(u.lease)
	default:
		w.str(u.reason)
		w.int(u.at)
		u.entry.write(w)
	}
	return w.seal(key)
}

func decodeURL(key, value []byte) (*urlRecord, error) {
	r, err := open(key, value)
	if err != nil {
		return nil, err
	}
	u := &urlRecord{state: schedulerv1.UrlState(r.uint()), depth: r.u32(), host: r.str()}
	switch u.state {
	case stateQueued:
		u.scheme = uint8(r.uint())
		u.pos = readPosition(r)
	case stateLeased:
		u.lease = r.fixed()
	case stateDone, stateExcluded, stateFailed:
		u.reason, u.at = r.str(), r.int()
		u.entry = &entry{}
		u.entry.read(r)
		if len(key) >= 8 {
			u.entry.key = binary.BigEndian.Uint64(key[len(key)-8:])
		}
	default:
		return nil, fmt.Errorf("%w: URL state %d", errBadRecord, u.state)
	}
	if r.err != nil {
		return nil, r.err
	}
	return u, nil
}

func encodeQueued(key []byte, e *entry) []byte {
	w := newWriter()
	e.write(w)
	return w.seal(key)
}

func decodeQueued(key, value []byte) (*entry, error) {
	_, _, _, p, k, ok := parseQueuedKey(key)
	if !ok {
		return nil, fmt.Errorf("%w: key of %d bytes", errBadRecord, len(key))
	}
	r, err := open(key, value)
	if err != nil {
		return nil, err
	}
	e := &entry{key: k, pos: p}
	e.read(r)
	return e, r.err
}

// hostRecord is a host's clock on disk. The wait is kept beside its end, so
// that a wall clock set back makes a wait no longer than it was, and never
// shorter.
type hostRecord struct {
	next     int64 // Unix nanoseconds
	firm     int64 // of next, what is no back-off of ours; 0: nothing
	wait     time.Duration
	failures uint32
	lastEnd  int64
	lastTook time.Duration
}

func (h *hostRecord) encode(key []byte) []byte {
	w := newWriter()
	w.int(h.next)
	w.int(int64(h.wait))
	w.uint(uint64(h.failures))
	w.int(h.lastEnd)
	w.int(int64(h.lastTook))
	w.int(h.firm)
	return w.seal(key)
}

func decodeHost(key, value []byte) (*hostRecord, error) {
	r, err := open(key, value)
	if err != nil {
		return nil, err
	}
	h := &hostRecord{next: r.int(), wait: time.Duration(r.int()), failures: r.u32(), lastEnd: r.int(), lastTook: time.Duration(r.int())}
	if len(r.b) > 0 { // one that was written before this was told apart has no more
		h.firm = r.int()
	}
	return h, r.err
}

// remaining is what is left of the wait at a wall time, until the time given: the
// record's next, or firm.
func (h *hostRecord) remaining(until int64, now time.Time) time.Duration {
	return min(max(0, time.Duration(until-now.UnixNano())), h.wait)
}

// leaseRecord is a lease on disk.
type leaseRecord struct {
	job       uint32
	host      string
	url       string
	member    string
	issued    int64 // Unix nanoseconds
	length    time.Duration
	allowance int64
	addrs     []netip.Addr
	solo      bool
	page      *entry // nil: robots.txt
	told      uint32 // the depth that the downloader knows
	origin    string // robots.txt: host key of the origin that asks
	scheme    uint8  // robots.txt: the origin's
	visited   []string
}

func (l *leaseRecord) encode(key []byte) []byte {
	w := newWriter()
	w.uint(uint64(l.job))
	w.str(l.host)
	w.str(l.url)
	w.str(l.member)
	w.int(l.issued)
	w.int(int64(l.length))
	w.int(l.allowance)
	w.uint(uint64(len(l.addrs)))
	for _, a := range l.addrs {
		w.bytes(a.AsSlice())
	}
	w.bool(l.solo)
	w.bool(l.page != nil)
	if l.page != nil {
		w.fixed(l.page.key)
		w.uint(uint64(l.told))
		writePosition(w, l.page.pos)
		l.page.write(w)
		return w.seal(key)
	}
	w.str(l.origin)
	w.uint(uint64(l.scheme))
	w.uint(uint64(len(l.visited)))
	for _, v := range l.visited {
		w.str(v)
	}
	return w.seal(key)
}

func decodeLease(key, value []byte) (*leaseRecord, error) {
	r, err := open(key, value)
	if err != nil {
		return nil, err
	}
	l := &leaseRecord{job: r.u32(), host: r.str(), url: r.str(), member: r.str(), issued: r.int(), length: time.Duration(r.int()), allowance: r.int()}
	for range min(r.uint(), 64) {
		if a, ok := netip.AddrFromSlice(r.raw()); ok {
			l.addrs = append(l.addrs, a)
		}
	}
	l.solo = r.bool()
	if r.bool() {
		l.page = &entry{key: r.fixed()}
		l.told = r.u32()
		l.page.pos = readPosition(r)
		l.page.read(r)
		return l, r.err
	}
	l.origin, l.scheme = r.str(), uint8(r.uint())
	for range min(r.uint(), 16) {
		l.visited = append(l.visited, r.str())
	}
	return l, r.err
}

// robotsRecord is what an origin's robots.txt said.
type robotsRecord struct {
	status    uint32 // HTTP status at the end of the redirects; 0: none
	fetchedAt int64  // Unix nanoseconds
	expires   int64
	gaveUp    bool // unreachable, and the tries are spent
	reason    string
	body      []byte
}

func (o *robotsRecord) encode(key []byte) []byte {
	w := newWriter()
	w.uint(uint64(o.status))
	w.int(o.fetchedAt)
	w.int(o.expires)
	w.bool(o.gaveUp)
	w.str(o.reason)
	w.bytes(o.body)
	return w.seal(key)
}

func decodeRobots(key, value []byte) (*robotsRecord, error) {
	r, err := open(key, value)
	if err != nil {
		return nil, err
	}
	o := &robotsRecord{status: r.u32(), fetchedAt: r.int(), expires: r.int(), gaveUp: r.bool(), reason: r.str(), body: r.bytes()}
	return o, r.err
}
