package frontier

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"net/netip"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	crawlv1 "lycosa.dev/proto/gen/lycosa/crawl/v1"
	schedulerv1 "lycosa.dev/proto/gen/lycosa/scheduler/v1"

	"lycosa.dev/scheduler/internal/frontier/sieve"
)

func sampleEntry() *entry {
	return &entry{key: 0x0102030405060708, url: "https://a.test:8443/x?y=1", pos: position{class: 1, prio: 7, seq: 1 << 40}, depth: 3, redirects: 2,
		attempts: 1, crashes: 2, lastLease: 1<<63 + 5, lastMod: -62135596800, seed: true, reserved: true, hop: "LLR", referrer: "http://r.test/",
		rule: "scope host", foundBy: "00-0123", outcome: []byte{1, 2, 3}, round: 4}
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
	h := &hostRecord{next: 99, firm: 97, wait: time.Second, failures: 3, lastEnd: 98, lastTook: time.Minute}
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
	ak := dnsKey("a.test")
	a := &crawlv1.HostAddresses{Host: "a.test", Status: crawlv1.HostStatus_HOST_STATUS_RESOLVED, Addresses: [][]byte{{10, 0, 0, 1}},
		ExpiresAt: timestamppb.New(time.Unix(99, 0))}
	add("addresses", ak, encodeAddresses(ak, a), func(k, v []byte) (any, error) { return decodeAddresses(k, v) }, nil)
	kk := queueKey(9, "a.test:8443")
	add("queue", kk, encodeQueue(kk, 1<<60), func(k, v []byte) (any, error) { return decodeQueue(k, v) }, int64(1<<60))
	add("queue retired", kk, encodeRetired(kk, "budget: max_host_pages 3"), func(k, v []byte) (any, error) {
		_, err := decodeQueue(k, v)
		return retiredReason(k, v), err
	}, "budget: max_host_pages 3")
	nk := countersKey(9)
	n := counters{queued: 1, leased: 2, done: 3, seq: 1 << 50, status: [6]uint64{1, 2, 3, 4, 5, 6}, ran: time.Hour, due: -5}
	add("counters", nk, n.encode(nk), func(k, v []byte) (any, error) { return decodeCounters(k, v) }, n)
	mk := []byte{kindMeta}
	add("meta", mk, encodeMeta(mk, 17), func(k, v []byte) (any, error) { return decodeMeta(k, v) }, meta{storeFormat, 17})
	bk := jobKey("a job")
	b := &job{id: "a job", num: 9, secret: 1 << 63, epoch: 8, version: 7, state: jobStopping, reason: "r", round: 2, created: time.Unix(0, 5),
		started: time.Unix(0, 6), base: limitsBase{1, 2, 3}, stopReason: "s", requeue: []byte("at"), roots: []string{"http://a.test/", "http://b.test/"},
		spec: testSpec(open24)}
	add("job", bk, b.payload().seal(bk), func(k, v []byte) (any, error) { return jobSeed(decodeJob(k, v)) }, b.payload().seal(bk))
	bk = jobCopyKey("a job")
	add("job copy", bk, b.payload().seal(bk), func(k, v []byte) (any, error) { return jobSeed(decodeJob(k, v)) }, b.payload().seal(jobKey("a job")))
	wk := holdKey(9, "a.test")
	w := &held{state: queueBlocked, until: time.Unix(0, 9), since: time.Unix(0, 8), reason: "by me"}
	add("hold", wk, w.encode(wk), func(k, v []byte) (any, error) { return decodeHeld(k, v) }, w)
	vk := sweepKey(9)
	v := &sweep{reviving: true, at: []byte("here"), loosened: true}
	add("sweep", vk, v.encode(vk), func(k, v []byte) (any, error) { return decodeSweep(k, v) }, v)
	gk := generationKey(9, 3)
	g := generation{num: 3, start: 5, seq: 6, bytes: 7}
	add("generation", gk, g.encode(gk), func(k, v []byte) (any, error) { return decodeGeneration(k, v) }, g)
	sk := append(stepPrefix(9, 3, 0xdeadbeef), 0, 0, 0, 0, 0, 0, 0, 77, 0, 1)
	s := &step{kind: schedulerv1.UrlStepKind_URL_STEP_KIND_TRIED, at: 77, seq: 6, state: stateFailed, reason: "timeout", lease: 5, leased: 4, attempt: 3,
		member: "d1", robots: "allowed", next: 2, fetch: &crawlv1.FetchResult{Class: crawlv1.OutcomeClass_OUTCOME_CLASS_TIMEOUT, Status: 200, Error: "x",
			Address: []byte{10, 0, 0, 1}, ReceivedBytes: 9, ReusedConnection: true, Timings: &crawlv1.Timings{Total: durationpb.New(time.Second)}}}
	add("step", sk, s.encode(sk), func(k, v []byte) (any, error) { return decodeStep(k, v) }, s)
	add("step without a fetch", sk, (&step{kind: schedulerv1.UrlStepKind_URL_STEP_KIND_ENDED, reason: "r"}).encode(sk),
		func(k, v []byte) (any, error) { return decodeStep(k, v) }, nil)
	xk := markKey(9, 1<<40)
	add("mark", xk, encodeMark(xk, time.Unix(0, 77)), func(k, v []byte) (any, error) { return decodeMark(k, v) }, time.Unix(0, 77))
	yk := lowerKey(9, 0xdeadbeef)
	add("lower", yk, encodeLower(yk, 4, 2), func(k, v []byte) (any, error) {
		depth, part, err := decodeLower(k, v)
		return [2]uint32{depth, part}, err
	}, [2]uint32{4, 2})
	zk := runsKey(9)
	add("runs", zk, encodeRuns(zk, []*sieve.Run{{Number: 3}, {Number: 1 << 40}}), func(k, v []byte) (any, error) { return decodeRuns(k, v) },
		[]uint64{3, 1 << 40})
	ik := recentKey(9, 5)
	recent := []sieve.Entry{{Key: 1 << 63, Depth: 3}, {Key: 2, Depth: 255}}
	add("recent", ik, encodeRecent(ik, recent), func(k, v []byte) (any, error) {
		list, _, err := decodeRecent(k, v)
		return list, err
	}, recent)
	return out
}

// jobSeed is a decoded job as it would be written again.
func jobSeed(j *job, err error) ([]byte, error) {
	if err != nil {
		return nil, err
	}
	return j.payload().seal(jobKey(j.id)), nil
}

// Every kind of key that the code has is in the table of keys, and either has no
// record or has a decoder in the fuzz target and a seed there that it reads.
func TestEveryKindIsFuzzed(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "keys.go", nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	kinds, table := map[string]byte{}, ""
	for _, d := range file.Decls {
		g, ok := d.(*ast.GenDecl)
		if !ok || g.Tok != token.CONST {
			continue
		}
		for _, s := range g.Specs {
			v := s.(*ast.ValueSpec)
			if name := v.Names[0].Name; strings.HasPrefix(name, "kind") {
				c, _, _, err := strconv.UnquoteChar(strings.Trim(v.Values[0].(*ast.BasicLit).Value, "'"), '\'')
				if err != nil {
					t.Fatalf("%s: %v", name, err)
				}
				kinds[name] = byte(c)
				table = g.Doc.Text()
			}
		}
	}
	if len(kinds) < 20 {
		t.Fatalf("only %d kinds were found in keys.go", len(kinds))
	}
	seeds, of := map[byte]string{}, map[byte]string{}
	for name, r := range records() {
		seeds[r.key[0]] = name
		if err := badRecord(r.key, r.value); err != nil {
			t.Errorf("the seed %q cannot be read by its kind's decoder: %v", name, err)
		}
	}
	for name, kind := range kinds {
		if other := of[kind]; other != "" {
			t.Errorf("%s and %s are both %q", name, other, kind)
		}
		of[kind] = name
		if !regexp.MustCompile(`(?m)^\s*` + string(kind) + `(\s|$)`).MatchString(table) {
			t.Errorf("%s (%c) is not in the table of keys", name, kind)
		}
		_, record := recordKinds[kind]
		switch {
		case record == bareKinds[kind]:
			t.Errorf("%s (%c): it has to be either in recordKinds or in bareKinds", name, kind)
		case record && seeds[kind] == "":
			t.Errorf("%s (%c) has no seed in records()", name, kind)
		case !record && seeds[kind] != "":
			t.Errorf("%s (%c) has the seed %q and no decoder", name, kind, seeds[kind])
		}
	}
	for kind := range recordKinds {
		if of[kind] == "" {
			t.Errorf("recordKinds has %c, which is no kind of key", kind)
		}
	}
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

// FuzzRecords gives payloads with a right checksum to the decoders of all kinds,
// whatever their keys: none may panic, or take memory that the record's size does not justify.
func FuzzRecords(f *testing.F) {
	for _, r := range records() {
		f.Add(r.key, r.value[:len(r.value)-4])
	}
	f.Fuzz(func(t *testing.T, key, body []byte) {
		w := &writer{b: bytes.Clone(body)}
		v := w.seal(key)
		if len(key) == 0 {
			return
		}
		for _, kind := range recordKinds {
			_ = kind.decode(key, v)
		}
		_ = retiredReason(key, v)
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
