package dnser

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/miekg/dns"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"lycosa.dev/dnser/internal/dnstest"
	"lycosa.dev/internal/rpc"
	"lycosa.dev/internal/service"
	crawlv1 "lycosa.dev/proto/gen/lycosa/crawl/v1"
	dnserv1 "lycosa.dev/proto/gen/lycosa/dnser/v1"
	schedulerv1 "lycosa.dev/proto/gen/lycosa/scheduler/v1"
)

const soa = "test. 3600 IN SOA ns.test. admin.test. 1 7200 900 1209600 90"

var zone = dnstest.Zone(soa,
	"a.test. 300 IN A 198.18.0.1", "a.test. 300 IN A 93.184.216.34", "a.test. 300 IN AAAA 2606:2800:220:1::1",
	"b.test. 300 IN CNAME a.test.",
	"inner.test. 300 IN A 10.0.0.1", "inner.test. 300 IN AAAA ::1",
	"mail.test. 300 IN MX 1 a.test.",
)

// script is the zone, and names that are broken or slow.
func script(q dnstest.Query, reply *dns.Msg) dnstest.Action {
	switch {
	case strings.HasPrefix(q.Name, "fail"):
		reply.Rcode = dns.RcodeServerFailure
		return dnstest.Action{Reply: reply}
	case strings.HasPrefix(q.Name, "silent"):
		return dnstest.Action{Silent: true}
	}
	return zone(q, reply)
}

// told is a host as the scheduler got it, in short.
func told(h *crawlv1.HostAddresses) string {
	var list []string
	for _, b := range h.GetAddresses() {
		ip, _ := netip.AddrFromSlice(b)
		list = append(list, ip.String())
	}
	name := strings.TrimPrefix(h.GetStatus().String(), "HOST_STATUS_")
	return strings.TrimSpace(fmt.Sprintf("%s %s %s", h.GetHost(), name, strings.Join(list, ",")))
}

func allTold(hosts []*crawlv1.HostAddresses) []string {
	var out []string
	for _, h := range hosts {
		out = append(out, told(h))
	}
	return out
}

func TestItemIsResolvedCommittedAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScheduler(jobSpec("j", 1, nil, nil))
		r := startRing(t, s, script, time.Millisecond, nil)
		it := item(7, "j", "a.test", "a.test:8080", "a.test", "b.test", "gone.test", "mail.test", "fail.test", "inner.test",
			"93.184.216.34", "127.0.0.1:8080", "[2606:2800:220:1::1]:8443", "[::1]", "localhost", "a..test", "silent.test")
		want := proto.Clone(it).(*dnserv1.ResolveRequest)
		begin := time.Now()
		answers := r.send(t, it)
		if got := answers[7].GetVerdict(); got != crawlv1.Verdict_VERDICT_DONE {
			t.Fatalf("answers %v", answers)
		}
		if took := time.Since(begin); took != 500*time.Millisecond {
			t.Errorf("took %v, want resolve_wait for the name that is silent", took)
		}
		commits := s.committed()
		if len(commits) != 1 {
			t.Fatalf("%d commits, want 1", len(commits))
		}
		got := commits[0]
		if !proto.Equal(got.GetOutcome(), want.GetOutcome()) || len(got.GetCandidates()) != len(want.GetCandidates()) || got.GetPart() != 0 {
			t.Errorf("not passed on as it came: %v", got)
		}
		for i, c := range got.GetCandidates() {
			if !proto.Equal(c, want.GetCandidates()[i]) {
				t.Errorf("candidate %d: %v, want %v", i, c, want.GetCandidates()[i])
			}
		}
		if hosts, want := allTold(got.GetHosts()), []string{
			"a.test RESOLVED 93.184.216.34,2606:2800:220:1::1", // 198.18.0.0/15 is for benchmarks
			"b.test RESOLVED 93.184.216.34,2606:2800:220:1::1",
			"gone.test NOT_FOUND_CONFIRMED",
			"mail.test NOT_FOUND_CONFIRMED",
			"fail.test UNAVAILABLE",
			"inner.test FORBIDDEN",
			"93.184.216.34 RESOLVED 93.184.216.34",
			"127.0.0.1 FORBIDDEN",
			"[2606:2800:220:1::1] RESOLVED 2606:2800:220:1::1",
			"[::1] FORBIDDEN",
			"localhost FORBIDDEN",
			"a..test NOT_FOUND_CONFIRMED",
		}; !slices.Equal(hosts, want) {
			t.Errorf("hosts\n%s\nwant\n%s", strings.Join(hosts, "\n"), strings.Join(want, "\n"))
		}
		for _, h := range got.GetHosts() {
			if h.GetStatus() != crawlv1.HostStatus_HOST_STATUS_RESOLVED && h.GetError() == "" {
				t.Errorf("%s: no reason", told(h))
			}
			if !h.GetExpiresAt().AsTime().After(time.Now()) {
				t.Errorf("%s: expires at %v", told(h), h.GetExpiresAt().AsTime())
			}
		}
	})
}

// TestSlowNameDoesNotHoldOthers: rule two of the four that keep the ring going.
func TestSlowNameDoesNotHoldOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScheduler(jobSpec("j", 1, nil, nil))
		r := startRing(t, s, func(q dnstest.Query, reply *dns.Msg) dnstest.Action {
			if q.Name == "slow.test" {
				time.Sleep(800 * time.Millisecond)
				reply.Answer = append(reply.Answer, dnstest.RR("slow.test. 300 IN A 93.184.216.34"))
				return dnstest.Action{Reply: reply}
			}
			return script(q, reply)
		}, 0, nil)
		slow := item(0, "j", "slow.test")
		stream, err := r.client.Resolve(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for i, it := range []*dnserv1.ResolveRequest{slow, item(1, "j", "a.test"), item(2, "j")} {
			it.Id = uint64(i)
			if err := stream.Send(it); err != nil {
				t.Fatal(err)
			}
		}
		begin := time.Now()
		var order []string
		for range 3 {
			res, err := stream.Recv()
			if err != nil {
				t.Fatal(err)
			}
			order = append(order, fmt.Sprint(res.GetId(), " ", time.Since(begin)))
		}
		slices.Sort(order[:2])
		if want := []string{"1 0s", "2 0s", "0 500ms"}; !slices.Equal(order, want) {
			t.Errorf("answered %v, want %v", order, want)
		}
		if hosts := s.committed()[2].GetHosts(); len(hosts) != 0 {
			t.Errorf("an unanswered host is told of: %v", allTold(hosts))
		}
		time.Sleep(time.Second)
		it := item(3, "j", "slow.test")
		if err := stream.Send(it); err != nil {
			t.Fatal(err)
		}
		if _, err := stream.Recv(); err != nil {
			t.Fatal(err)
		}
		if got := allTold(s.committed()[3].GetHosts()); !slices.Equal(got, []string{"slow.test RESOLVED 93.184.216.34"}) {
			t.Errorf("later: %v, want the answer that came meanwhile", got)
		}
	})
}

func TestJobsRulesAndPolicy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScheduler(
			jobSpec("open", 1, []string{"a.test:127.0.0.1"}, []string{"127.0.0.0/8", "::1"}),
			jobSpec("all", 1, []string{"*:127.0.0.9"}, []string{"127.0.0.9"}),
			jobSpec("shut", 1, []string{"a.test:127.0.0.1"}, nil),
			jobSpec("plain", 1, nil, nil),
		)
		r := startRing(t, s, script, 0, nil)
		check := func(jobID string, want ...string) {
			t.Helper()
			r.send(t, item(1, jobID, "a.test:8080", "b.test", "localhost"))
			commits := s.committed()
			if got := allTold(commits[len(commits)-1].GetHosts()); !slices.Equal(got, want) {
				t.Errorf("job %s: %q, want %q", jobID, got, want)
			}
		}
		const public = "b.test RESOLVED 93.184.216.34,2606:2800:220:1::1"
		check("open", "a.test RESOLVED 127.0.0.1", public, "localhost RESOLVED 127.0.0.1,::1")
		check("all", "a.test RESOLVED 127.0.0.9", "b.test RESOLVED 127.0.0.9", "localhost RESOLVED 127.0.0.9")
		check("shut", "a.test FORBIDDEN", public, "localhost FORBIDDEN")
		check("plain", "a.test RESOLVED 93.184.216.34,2606:2800:220:1::1", public, "localhost FORBIDDEN")
		check("unknown") // neither its rules nor its policy are known
		check("plain", "a.test RESOLVED 93.184.216.34,2606:2800:220:1::1", public, "localhost FORBIDDEN")

		s.setJobs(jobSpec("plain", 2, nil, []string{"127.0.0.1"}), jobSpec("bad", 1, []string{"nonsense"}, nil))
		synctest.Wait()
		check("plain", "a.test RESOLVED 93.184.216.34,2606:2800:220:1::1", public, "localhost RESOLVED 127.0.0.1")
		check("bad")
		check("open") // gone
	})
}

// TestJobThatIsOnItsWay: an item may come before the topology that holds its
// job.
func TestJobThatIsOnItsWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScheduler()
		r := startRing(t, s, script, 0, nil)
		go func() {
			time.Sleep(100 * time.Millisecond)
			s.setJobs(jobSpec("new", 1, nil, nil))
		}()
		begin := time.Now()
		r.send(t, item(1, "new", "a.test"))
		if got := s.committed()[0].GetHosts(); len(got) != 1 || time.Since(begin) != 100*time.Millisecond {
			t.Errorf("after %v: %v", time.Since(begin), allTold(got))
		}
	})
}

func TestAnswersArePassedOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScheduler(jobSpec("j", 1, nil, nil))
		s.commit = func(n int, req *schedulerv1.CommitRequest) (*crawlv1.Answer, error) {
			switch req.GetOutcome().GetLeaseId() {
			case 1001:
				return &crawlv1.Answer{Verdict: crawlv1.Verdict_VERDICT_NEVER, Reason: "job deleted"}, nil
			case 1002:
				return &crawlv1.Answer{Verdict: crawlv1.Verdict_VERDICT_RETRY_LATER, Reason: "disk full", StorageUnavailable: true}, nil
			case 1003:
				return nil, nil
			}
			return &crawlv1.Answer{Verdict: crawlv1.Verdict_VERDICT_DONE}, nil
		}
		r := startRing(t, s, script, 0, nil)
		got := r.send(t, item(1, "j"), item(2, "j"), item(3, "j"), item(4, "j"))
		if a := got[1]; a.GetVerdict() != crawlv1.Verdict_VERDICT_NEVER || a.GetReason() != "job deleted" {
			t.Errorf("1: %v", a)
		}
		if a := got[2]; a.GetVerdict() != crawlv1.Verdict_VERDICT_RETRY_LATER || !a.GetStorageUnavailable() {
			t.Errorf("2: %v", a)
		}
		if a := got[3]; a.GetVerdict() != crawlv1.Verdict_VERDICT_RETRY_LATER {
			t.Errorf("3: %v", a)
		}
		if a := got[4]; a.GetVerdict() != crawlv1.Verdict_VERDICT_DONE {
			t.Errorf("4: %v", a)
		}
	})
}

func TestBrokenCommitStreamIsTriedAgain(t *testing.T) {
	for code, wantDone := range map[codes.Code]bool{codes.Unavailable: true, codes.InvalidArgument: false} {
		synctest.Test(t, func(t *testing.T) {
			s := newScheduler(jobSpec("j", 1, nil, nil))
			s.commit = func(n int, req *schedulerv1.CommitRequest) (*crawlv1.Answer, error) {
				if n < 5 {
					return nil, status.Error(code, "broken for the test")
				}
				return &crawlv1.Answer{Verdict: crawlv1.Verdict_VERDICT_DONE}, nil
			}
			r := startRing(t, s, script, 0, nil)
			a := r.send(t, item(1, "j", "a.test"))[1]
			if done := a.GetVerdict() == crawlv1.Verdict_VERDICT_DONE; done != wantDone {
				t.Errorf("%s: %v after %d commits", code, a, len(s.committed()))
			}
			if !wantDone && len(s.committed()) != refusals {
				t.Errorf("%s: sent %d times, want %d", code, len(s.committed()), refusals)
			}
			for _, c := range s.committed() {
				if c.GetOutcome().GetLeaseId() != 1001 || len(c.GetCandidates()) != 1 || len(c.GetHosts()) != 1 {
					t.Errorf("sent again changed: %v", c)
				}
			}
		})
	}
}

// TestStopLetsItemsComeHome: what is in flight is answered, what comes after is
// sent back, and the scheduler is told.
func TestStopLetsItemsComeHome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScheduler(jobSpec("j", 1, nil, nil))
		s.hold = make(chan struct{})
		r := startRing(t, s, script, 0, nil)
		stream, err := r.client.Resolve(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := stream.Send(item(1, "j", "a.test")); err != nil {
			t.Fatal(err)
		}
		<-s.arrived
		stopped := make(chan error, 1)
		go func() { stopped <- r.stop() }()
		synctest.Wait()
		if err := r.dnser.Health(t.Context()); err == nil {
			t.Error("healthy while stopping")
		}
		s.mu.Lock()
		if !s.draining {
			t.Error("the scheduler was not told")
		}
		s.mu.Unlock()
		if err := stream.Send(item(2, "j", "a.test")); err != nil {
			t.Fatal(err)
		}
		res, err := stream.Recv()
		if err != nil || res.GetId() != 2 || res.GetAnswer().GetVerdict() != crawlv1.Verdict_VERDICT_RETRY_LATER {
			t.Fatalf("%v, %v; want item 2 sent back", res, err)
		}
		select {
		case <-stopped:
			t.Fatal("stopped with an item in flight")
		default:
		}
		close(s.hold)
		if res, err = stream.Recv(); err != nil || res.GetId() != 1 || res.GetAnswer().GetVerdict() != crawlv1.Verdict_VERDICT_DONE {
			t.Errorf("%v, %v; want item 1 done", res, err)
		}
		if err := <-stopped; err != nil {
			t.Error(err)
		}
	})
}

func TestStopDoesNotWaitForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScheduler(jobSpec("j", 1, nil, nil))
		s.hold = make(chan struct{})
		r := startRing(t, s, script, 0, nil)
		stream, err := r.client.Resolve(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := stream.Send(item(1, "j", "a.test")); err != nil {
			t.Fatal(err)
		}
		<-s.arrived
		begin := time.Now()
		if err := r.stop(); err != nil || time.Since(begin) != rpc.DrainTime(0) {
			t.Errorf("stopped after %v: %v; want %v", time.Since(begin), err, rpc.DrainTime(0))
		}
		if res, err := stream.Recv(); err != nil || res.GetAnswer().GetVerdict() != crawlv1.Verdict_VERDICT_RETRY_LATER {
			t.Errorf("%v, %v; want it sent back", res, err)
		}
	})
}

func TestJoinAndHealth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScheduler()
		r := startRing(t, s, script, 0, nil)
		synctest.Wait()
		if err := r.dnser.Health(t.Context()); err != nil {
			t.Error(err)
		}
		h := s.hellos[0]
		if h.GetKind() != schedulerv1.ServiceKind_SERVICE_KIND_DNSER || h.GetId() != "dnser" || h.GetAddress() != "inproc:dnser" || h.GetVersion() == "" {
			t.Errorf("hello %v", h)
		}
		r.local.Unregister("scheduler")
		d, err := New(r.dnser.cfg, service.Deps{Dialer: r.local})
		if err != nil {
			t.Fatal(err)
		}
		if err := d.Health(t.Context()); err == nil {
			t.Error("healthy before Run")
		}
	})
}

func TestLookup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScheduler(jobSpec("j", 1, []string{"a.test:127.0.0.1"}, []string{"127.0.0.1"}))
		r := startRing(t, s, script, 0, nil)
		look := func(host, jobID string, refresh bool) *dnserv1.LookupResponse {
			t.Helper()
			res, err := r.client.Lookup(t.Context(), &dnserv1.LookupRequest{Host: host, JobId: jobID, Refresh: refresh})
			if err != nil {
				t.Fatalf("%s: %v", host, err)
			}
			return res
		}
		const public = " RESOLVED 93.184.216.34,2606:2800:220:1::1"
		if res := look("b.test", "", false); told(res.GetHost()) != "b.test"+public || res.GetFromCache() ||
			!slices.Equal(res.GetCnames(), []string{"a.test"}) || res.GetServer() != "192.0.2.53:53" {
			t.Errorf("%v", res)
		}
		if res := look("b.test", "", false); !res.GetFromCache() || res.GetServer() != "" {
			t.Errorf("again: %v", res)
		}
		if res := look("b.test", "", true); res.GetFromCache() || res.GetServer() == "" {
			t.Errorf("refresh: %v", res)
		}
		for host, want := range map[string]string{
			"a.test": "a.test RESOLVED 127.0.0.1", "a.test:80": "a.test RESOLVED 127.0.0.1", "::1": "::1 FORBIDDEN", "gone.test": "gone.test NOT_FOUND_CONFIRMED",
			"bücher.test": "xn--bcher-kva.test NOT_FOUND_CONFIRMED", "Ａ.TEST:80": "a.test RESOLVED 127.0.0.1",
			"fail.test": "fail.test UNAVAILABLE", "silent.test": "silent.test UNAVAILABLE",
		} {
			if res := look(host, "j", false); told(res.GetHost()) != want {
				t.Errorf("job j: %q, want %q", told(res.GetHost()), want)
			}
		}
		if _, err := r.client.Lookup(t.Context(), &dnserv1.LookupRequest{Host: "a.test", JobId: "none"}); status.Code(err) != codes.NotFound {
			t.Errorf("no such job: %v", err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := r.client.Lookup(ctx, &dnserv1.LookupRequest{Host: "silent2.test"}); status.Code(err) != codes.DeadlineExceeded {
			t.Errorf("out of time: %v", err)
		}
		if _, err := r.client.Lookup(t.Context(), &dnserv1.LookupRequest{}); status.Code(err) != codes.InvalidArgument {
			t.Errorf("no host: %v", err)
		}
	})
}

func TestTraceGoesThrough(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		spans := tracetest.NewSpanRecorder()
		tp := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans), sdktrace.WithSampler(sdktrace.ParentBased(sdktrace.NeverSample())))
		s := newScheduler(jobSpec("j", 1, nil, nil))
		r := startRing(t, s, script, 0, tp)
		const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
		traced, plain := item(1, "j", "a.test"), item(2, "j", "a.test")
		traced.Traceparent = parent
		r.send(t, traced)
		r.send(t, plain)
		ended := spans.Ended()
		if len(ended) != 1 || ended[0].Parent().SpanID().String() != "b7ad6b7169203331" {
			t.Fatalf("spans %v, want one under the sender's", ended)
		}
		commits := s.committed()
		if want := "00-0af7651916cd43dd8448eb211c80319c-" + ended[0].SpanContext().SpanID().String() + "-01"; commits[0].GetTraceparent() != want {
			t.Errorf("traceparent %q, want %q", commits[0].GetTraceparent(), want)
		}
		if commits[1].GetTraceparent() != "" {
			t.Errorf("an untraced item has become traced: %q", commits[1].GetTraceparent())
		}
	})
}

// TestLongItem: addresses that would make a message too long are left out, and
// an item that is too long without them says so.
func TestLongItem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScheduler(jobSpec("j", 1, nil, nil))
		r := startRing(t, s, script, 0, nil)
		var hosts []string
		for i := range manyCandidates {
			hosts = append(hosts, fmt.Sprintf("198.51.%d.%d", i/256, i%256))
		}
		long := item(1, "j", hosts...)
		pad := (tooLong - proto.Size(&schedulerv1.CommitRequest{Outcome: long.GetOutcome(), Candidates: long.GetCandidates()})) / manyCandidates
		for _, c := range long.GetCandidates() {
			c.Referrer = strings.Repeat("x", pad-10)
		}
		if a := r.send(t, long)[1]; a.GetVerdict() != crawlv1.Verdict_VERDICT_DONE || len(s.committed()[0].GetHosts()) != 0 {
			t.Errorf("%v with %d hosts, want done without", a, len(s.committed()[0].GetHosts()))
		}
		longer := item(2, "j", hosts...)
		for _, c := range longer.GetCandidates() {
			c.Referrer = strings.Repeat("x", pad+10)
		}
		if a := r.send(t, longer)[2]; a.GetVerdict() != crawlv1.Verdict_VERDICT_NEVER || len(s.committed()) != 1 {
			t.Errorf("%v, want never", a)
		}
	})
}

func TestConfig(t *testing.T) {
	if err := Default().Validate(); err != nil {
		t.Errorf("the default: %v", err)
	}
	bad := Default()
	bad.Scheduler, bad.ResolveWait, bad.Window = "", 0, 0
	bad.DNS, bad.Resolve = []string{"192.0.2.1", "dns.example"}, []string{"nonsense"}
	bad.Hedge, bad.ServerRate, bad.MaxStale, bad.StaleWait, bad.PrefetchUses, bad.CacheBytes = -1, -1, -1, -1, -1, 0
	bad.MaxTTL, bad.MaxNegativeTTL, bad.CacheFile, bad.CacheSave = 1, 1, "x", 0
	err := bad.Validate()
	for _, name := range []string{"scheduler:", "resolve_wait:", "window:", "dns[1]:", "resolve:", "max_ttl:", "max_negative_ttl:", "cache_save:",
		"hedge:", "server_rate:", "max_stale:", "stale_wait:", "prefetch_uses:", "cache_bytes:"} {
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("no word of %s in %v", name, err)
		}
	}
	if _, err := New(bad, service.Deps{}); err == nil {
		t.Error("New takes bad settings")
	}
	if _, err := New(Default(), service.Deps{}); err == nil {
		t.Error("New works without a dialer")
	}
	none := Default()
	none.ResolvConf = "/nonexistent/resolv.conf"
	if list, err := none.servers(); err == nil || !slices.Equal(list, []netip.AddrPort{localServer}) {
		t.Errorf("without resolv.conf: %v, %v", list, err)
	}
}

func TestHostname(t *testing.T) {
	for key, want := range map[string]string{
		"a.test": "a.test", "a.test:8080": "a.test", "[::1]": "[::1]", "[::1]:8080": "[::1]", "127.0.0.1:80": "127.0.0.1", "": "",
	} {
		if got := hostname(key); got != want {
			t.Errorf("hostname(%q) = %q, want %q", key, got, want)
		}
	}
}
