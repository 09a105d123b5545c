package frontier

import (
	"bytes"
	"net/netip"
	"reflect"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	crawlv1 "lycosa.dev/proto/gen/lycosa/crawl/v1"
)

func sampleEntry() *entry {
	return &entry{key: 0x0102030405060708, url: "https://a.test:8443/x?y=1", pos: position{class: 1, prio: 7, seq: 1 << 40}, depth: 3, redirects: 2,
		attempts: 1, crashes: 2, lastLease: 1<<63 + 5, lastMod: -62135596800, seed: true, reserved: true, hop: "LLR", referrer: "http://r.test/",
		rule: "scope host", foundBy: "00-0123", outcome: []byte{1, 2, 3}}
}

// records are one of each kind, with its key and how it is read.
func records() map[string]struct {
	key, value []byte
	read       func(k, v []byte) (any, error)
	want       any
} {
	type row = struct {
		key, value []byte
		read       func(k, v []byte) (any, error)
		want       any
	}
	e := sampleEntry()
	out := map[string]row{}
	add := func(name string, key []byte, value []byte, read func(k, v []byte) (any, error), want any) {
		out[name] = row{key, value, read, want}
	}
	uk := urlKey(9, e.key)
	readURL := func(k, v []byte) (any, error) { return decodeURL(k, v) }
	queued := &urlRecord{state: stateQueued, depth: 3, host: "a.test:8443", scheme: 1, pos: e.pos}
	leased := &urlRecord{state: stateLeased, depth: 3, host: "a.test:8443", lease: 77}
	ended := *e
	ended.pos = position{}
	done := &urlRecord{state: stateDone, depth: 3, host: "a.test:8443", reason: "HTTP 200", at: 12345, entry: &ended}
	add("url queued", uk, queued.encode(uk), readURL, queued)
	add("url leased", uk, leased.encode(uk), readURL, leased)
	add("url done", uk, done.encode(uk), readURL, done)
	qk := queuedKey(9, "a.test:8443", 1, e.pos, e.key)
	add("queued", qk, encodeQueued(qk, e), func(k, v []byte) (any, error) { return decodeQueued(k, v) }, e)
	hk := hostKeyOf("a.test")
	h := &hostRecord{next: 99, wait: time.Second, failures: 3, lastEnd: 98, lastTook: time.Minute}
	add("host", hk, h.encode(hk), func(k, v []byte) (any, error) { return decodeHost(k, v) }, h)
	lk := leaseKey(77)
	l := &leaseRecord{job: 9, host: "a.test", url: e.url, member: "d1", issued: 5, length: time.Minute, allowance: 1 << 20,
		addrs: []netip.Addr{netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("2001:db8::1")}, solo: true, page: e, told: 4}
	add("lease", lk, l.encode(lk), func(k, v []byte) (any, error) { return decodeLease(k, v) }, l)
	p := &leaseRecord{job: 9, host: "b.test", url: "http://b.test/robots.txt", member: "d1", issued: 5, length: time.Minute,
		origin: "a.test", scheme: 1, visited: []string{"https://a.test/robots.txt"}}
	add("robots lease", lk, p.encode(lk), func(k, v []byte) (any, error) { return decodeLease(k, v) }, p)
	rk := robotsKey(1, "a.test")
	o := &robotsRecord{status: 200, fetchedAt: 1, expires: 2, gaveUp: true, reason: "x", body: []byte("User-agent: *")}
	add("robots", rk, o.encode(rk), func(k, v []byte) (any, error) { return decodeRobots(k, v) }, o)
	jk := journalKey(3)
	j := journalEntry{seq: 3, job: 9, foundBy: "tp", cands: []*crawlv1.Candidate{{Url: e.url, HostKey: "a.test:8443", Priority: 1, Depth: 2,
		HopPath: "LL", Referrer: "r", Seed: true, Redirects: 3, Rule: "x", LastModified: timestamppb.New(time.Unix(55, 0))}}}
	add("journal", jk, j.encode(jk), func(k, v []byte) (any, error) { return decodeJournal(k, v) }, nil)
	ck := limiterKey("domain a.test")
	c := &limiterRecord{next: 9, lastEnd: 8, paid: 7, day: 6, pages: 5}
	add("clock", ck, c.encode(ck), func(k, v []byte) (any, error) { return decodeLimiter(k, v) }, c)
	tk := tallyKey(9, 'h', "a.test")
	y := &tally{key: tk, round: 2, pages: 3, bytes: 4}
	add("tally", tk, y.encode(), func(k, v []byte) (any, error) { return decodeTally(k, v) }, y)
	ek := edgesKey(9, 0xdeadbeef)
	links := []edge{{key: 1, adds: 0}, {key: 2, adds: 1}}
	add("links", ek, encodeEdges(ek, links), func(k, v []byte) (any, error) { return decodeEdges(k, v) }, links)
	fk := numbered(kindDeferred, 9)
	dead := []deferredHost{{"a.test", "HTTP 503 after 3 tries"}}
	add("deferred", fk, encodeDeferred(fk, dead), func(k, v []byte) (any, error) { return decodeDeferred(k, v) }, dead)
	return out
}

func TestRecordsRoundTrip(t *testing.T) {
	for name, r := range records() {
		got, err := r.read(r.key, r.value)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if r.want != nil && !reflect.DeepEqual(got, r.want) {
			t.Errorf("%s: got %+v, want %+v", name, got, r.want)
		}
		other := bytes.Clone(r.key)
		other[len(other)-1] ^= 1
		if _, err := r.read(other, r.value); err == nil {
			t.Errorf("%s: read under another key", name)
		}
		for i := range r.value {
			bad := bytes.Clone(r.value)
			bad[i] ^= 0x10
			if _, err := r.read(r.key, bad); err == nil {
				t.Errorf("%s: a flipped bit in byte %d was not noticed", name, i)
			}
			if _, err := r.read(r.key, r.value[:i]); err == nil {
				t.Errorf("%s: cut to %d bytes it was read", name, i)
			}
		}
	}
}

// FuzzRecords gives payloads with a right checksum to every decoder: none may
// panic, or take memory that the record's size does not justify.
func FuzzRecords(f *testing.F) {
	for _, r := range records() {
		f.Add(r.key, r.value[:len(r.value)-4])
	}
	f.Fuzz(func(t *testing.T, key, body []byte) {
		w := &writer{b: bytes.Clone(body)}
		v := w.seal(key)
		_, _ = decodeURL(key, v)
		_, _ = decodeQueued(key, v)
		_, _ = decodeHost(key, v)
		_, _ = decodeLease(key, v)
		_, _ = decodeRobots(key, v)
		_, _ = decodeJournal(key, v)
		_, _ = decodeAddresses(key, v)
		_, _ = decodeLimiter(key, v)
		_, _ = decodeTally(key, v)
		_, _ = decodeEdges(key, v)
		_, _ = decodeDeferred(key, v)
		_ = retiredReason(key, v)
		_, _ = decodeQueue(key, v)
		_, _ = decodeCounters(key, v)
		if len(key) > 0 {
			_, _ = decodeJob(key, v)
		}
	})
}

func TestKeysKeepTheirOrder(t *testing.T) {
	a := queuedKey(1, "a.test", 0, position{0, 9, 9}, 1)
	for _, next := range []position{{1, 0, 0}, {1, 0, 1}, {1, 0, 256}, {1, 1, 0}, {1, 1 << 31, 5}} {
		b := queuedKey(1, "a.test", 0, next, 1)
		if bytes.Compare(a, b) >= 0 {
			t.Errorf("%v does not come after the one before", next)
		}
		num, host, scheme, p, key, ok := parseQueuedKey(b)
		if !ok || num != 1 || host != "a.test" || scheme != 0 || p != next || key != 1 {
			t.Errorf("parse: %v %v %v %v %v %v", num, host, scheme, p, key, ok)
		}
		a = b
	}
	if end := after(subPrefix(1, "a.test", 0)); bytes.Compare(a, end) >= 0 || bytes.Compare(queuedKey(1, "a.test", 1, position{}, 0), end) < 0 {
		t.Error("a scheme's range does not hold its own keys alone")
	}
	if after([]byte{0xff, 0xff}) != nil {
		t.Error("after the last")
	}
}

func TestHostNames(t *testing.T) {
	for in, want := range map[string]string{"a.test": "a.test", "a.test:8080": "a.test", "[::1]": "::1", "[::1]:80": "::1", "10.0.0.1:1": "10.0.0.1"} {
		if got := hostName(in); got != want {
			t.Errorf("hostName(%q) = %q", in, got)
		}
	}
	for in, want := range map[string]string{"http://a.test/": "a.test", "https://a.test:8/x?y": "a.test:8", "http://u@a.test/": "a.test", "x": ""} {
		if got := hostKeyFromURL(in); got != want {
			t.Errorf("hostKeyFromURL(%q) = %q", in, got)
		}
	}
}
