package resolver

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/miekg/dns"

	"lycosa.dev/dnser/internal/upstream"
	"lycosa.dev/internal/testdeps"
)

// zoneFile is served by a real nsd; TXT padding makes big.real.test too long
// for a UDP packet.
func zoneFile() string {
	var b strings.Builder
	b.WriteString(`$TTL 300
@ IN SOA ns admin 1 7200 900 1209600 120
@ IN NS ns
ns IN A 127.0.0.1
www IN A 192.0.2.1
www IN AAAA 2001:db8::1
alias IN CNAME www
out IN CNAME www.other.test.
mail IN MX 1 www
`)
	for i := range 200 {
		fmt.Fprintf(&b, "big IN A 192.0.2.%d\n", i)
	}
	for i := range 5000 {
		fmt.Fprintf(&b, "h%d IN A 192.0.2.7\n", i)
	}
	return b.String()
}

// freePort is a loopback port that is free for UDP and TCP now.
func freePort(t testing.TB) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().(*net.TCPAddr).Port
}

// daemon starts a name server and waits until it answers; it is killed by its
// process when the test ends.
func daemon(t testing.TB, path string, conf func(dir string, port int) string, args ...string) netip.AddrPort {
	t.Helper()
	bin := testdeps.Program(t, path)
	dir, port := t.TempDir(), freePort(t)
	file := filepath.Join(dir, path+".conf")
	if err := os.WriteFile(file, []byte(conf(dir, port)), 0o600); err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	cmd := exec.Command(bin, append(args, "-c", file)...)
	cmd.Stdout, cmd.Stderr = &log, &log
	cmd.Dir = dir
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	exited := make(chan struct{})
	go func() { defer close(exited); _ = cmd.Wait() }()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt) // nsd and unbound stop on it, children included
		select {
		case <-exited:
		case <-time.After(5 * time.Second):
			_ = cmd.Process.Kill()
			<-exited
		}
	})
	addr := netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), uint16(port))
	g := upstream.New(upstream.Config{Servers: []netip.AddrPort{addr}, TryTimeout: 200 * time.Millisecond, Rounds: 1, UDPSize: 1232})
	for range 100 {
		if _, err := g.Ask(t.Context(), "www.real.test", dns.TypeA, netip.AddrPort{}); err == nil {
			return addr
		}
		select {
		case <-exited:
			t.Fatalf("%s ended: %s", path, log.String())
		case <-time.After(50 * time.Millisecond):
		}
	}
	t.Fatalf("%s does not answer", path)
	return addr
}

func startNSD(t testing.TB) netip.AddrPort {
	return daemon(t, "nsd", func(dir string, port int) string {
		if err := os.WriteFile(filepath.Join(dir, "real.zone"), []byte(zoneFile()), 0o600); err != nil {
			t.Fatal(err)
		}
		return fmt.Sprintf(`server:
    ip-address: 127.0.0.1@%d
    username: ""
    zonesdir: %q
    pidfile: ""
    database: ""
    xfrdfile: %q
    xfrdir: %q
    zonelistfile: %q
    cookie-secret-file: ""
    rrl-ratelimit: 0
remote-control:
    control-enable: no
zone:
    name: real.test
    zonefile: real.zone
zone:
    name: bogus.test
    zonefile: real.zone
`, port, dir, filepath.Join(dir, "xfrd.state"), dir, filepath.Join(dir, "zone.list"))
	}, "-d")
}

func startUnbound(t testing.TB, nsd netip.AddrPort) netip.AddrPort {
	return daemon(t, "unbound", func(dir string, port int) string {
		return fmt.Sprintf(`server:
    interface: 127.0.0.1
    port: %d
    username: ""
    chroot: ""
    directory: %q
    pidfile: ""
    use-syslog: no
    do-ip6: no
    do-not-query-localhost: no
    local-zone: "test." nodefault
    module-config: "validator iterator"
    trust-anchor: "bogus.test. DS 12345 13 2 %s"
    ede: yes
    outbound-msg-retry: 1
remote-control:
    control-enable: no
stub-zone:
    name: "real.test"
    stub-addr: %[4]s@%[5]d
stub-zone:
    name: "bogus.test"
    stub-addr: %[4]s@%[5]d
stub-zone:
    name: "dead.test"
    stub-addr: 127.0.0.1@%[6]d
`, port, dir, strings.Repeat("ab", 32), nsd.Addr(), nsd.Port(), freePort(t))
	}, "-d")
}

// TestRealServers asks a real authoritative server and a real recursive one.
func TestRealServers(t *testing.T) {
	nsd := startNSD(t)
	for name, addr := range map[string]netip.AddrPort{"nsd": nsd, "unbound": startUnbound(t, nsd)} {
		t.Run(name, func(t *testing.T) {
			cfg := Default()
			cfg.Servers = []netip.AddrPort{addr}
			r, _ := run(t, cfg, Deps{})
			for _, c := range []struct {
				host   string
				status Status
				addrs  []netip.Addr
				cnames []string
			}{
				{"www.real.test", Resolved, addrs("192.0.2.1", "2001:db8::1"), nil},
				{"alias.real.test", Resolved, addrs("192.0.2.1", "2001:db8::1"), []string{"www.real.test"}},
				{"mail.real.test", NoAddress, nil, nil},
				{"nothing.real.test", NotExist, nil, nil},
			} {
				a := r.Resolve(t.Context(), c.host)
				if a.Status != c.status || !slices.Equal(a.Addrs, c.addrs) || !slices.Equal(a.CNAMEs, c.cnames) || a.Confirmed != a.Status.Negative() {
					t.Errorf("%s: %+v, want %s %v %v", c.host, a, c.status, c.addrs, c.cnames)
				}
				want := 300 * time.Second
				if a.Status.Negative() {
					want = 120 * time.Second // the SOA's minimum
				}
				if kept := time.Until(a.Expires); kept > want || kept < want-10*time.Second {
					t.Errorf("%s: kept for %v, want %v", c.host, kept, want)
				}
			}
			if a := r.Resolve(t.Context(), "big.real.test"); len(a.Addrs) != maxAddrs {
				t.Errorf("a reply too long for UDP: %+v", a)
			}
			if name == "nsd" { // out of its zones: refused, which says nothing about the name
				for _, host := range []string{"www.elsewhere.example", "out.real.test"} {
					if a := r.Resolve(t.Context(), host); a.Status != Refused {
						t.Errorf("%s: %+v, want refused", host, a)
					}
				}
			}
		})
	}
}

// TestRealReasons: a real recursive server fails for a zone whose signatures do
// not hold and for one whose servers are dead. Whether it says why depends on its
// version: what it says must be read as that.
func TestRealReasons(t *testing.T) {
	cfg := Default()
	cfg.Servers = []netip.AddrPort{startUnbound(t, startNSD(t))}
	cfg.TryTimeout, cfg.Timeout = 10*time.Second, 30*time.Second
	r, _ := run(t, cfg, Deps{})
	for host, want := range map[string]upstream.Reason{
		"www.bogus.test": upstream.ReasonDNSSEC,
		"www.dead.test":  upstream.ReasonUnreachable,
	} {
		if a := r.Resolve(t.Context(), host); a.Status != ServFail || a.Reason != want && a.Reason != upstream.ReasonServFail {
			t.Errorf("%s: %+v, want servfail, %s", host, a, want)
		}
	}
}

// TestRealServerBesideADeadOne: a server that takes packets and never answers
// is overtaken and soon left alone; the other one's rate is kept.
func TestRealServerBesideADeadOne(t *testing.T) {
	dead, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = dead.Close() }()
	cfg := Default()
	cfg.Servers = []netip.AddrPort{netip.MustParseAddrPort(dead.LocalAddr().String()), startNSD(t)}
	cfg.TryTimeout, cfg.Timeout, cfg.Hedge, cfg.ServerRate = time.Minute, 2*time.Minute, 20*time.Millisecond, 500
	r, _ := run(t, cfg, Deps{})
	begin := time.Now()
	for i := range 150 {
		if a := r.Resolve(t.Context(), fmt.Sprintf("h%d.real.test", i)); a.Status != Resolved || a.Server != cfg.Servers[1].String() {
			t.Fatalf("%+v", a)
		}
	}
	took := time.Since(begin)
	if took > 30*time.Second { // it would be a minute for the first name alone
		t.Errorf("150 names took %v: the dead server was waited for", took)
	}
	if least := (300 - 50) * time.Second / 500; took < least {
		t.Errorf("300 questions took %v, fewer than the %v that 500 a second allow", took, least)
	}
	if r.group.Down() != 1 {
		t.Errorf("%d servers are down, want the dead one", r.group.Down())
	}
}

// BenchmarkRealServers: 5,000 names, each new to our cache, 64 askers.
func BenchmarkRealServers(b *testing.B) {
	nsd := startNSD(b)
	for _, c := range []struct {
		name string
		addr netip.AddrPort
	}{{"nsd", nsd}, {"unbound", startUnbound(b, nsd)}} {
		b.Run(c.name, func(b *testing.B) {
			cfg := Default()
			cfg.Servers = []netip.AddrPort{c.addr}
			total := 0
			for b.Loop() {
				r, stop := run(b, cfg, Deps{})
				var wg sync.WaitGroup
				for g := range 64 {
					wg.Go(func() {
						for i := g; i < 5000; i += 64 {
							if a := r.Resolve(context.Background(), fmt.Sprintf("h%d.real.test", i)); a.Status != Resolved {
								b.Errorf("%+v", a)
							}
						}
					})
				}
				wg.Wait()
				stop()
				total += 5000
			}
			b.ReportMetric(float64(total)/b.Elapsed().Seconds(), "answers/s")
		})
	}
}
