package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/miekg/dns"

	"lycosa.dev/dnser/internal/upstream"
)

// zone is served: every name in it has one address of each family.
const zone = "bench.test"

// server is an authoritative server in a process of its own.
type server struct {
	kind string
	addr netip.AddrPort
	cmd  *exec.Cmd
	in   io.Closer     // its end stops our own one
	dir  string        // nsd's
	done chan struct{} // closed when it has ended; how tells nothing of the figures
}

// start starts a server and waits until it answers.
func start(ctx context.Context, kind string) (*server, error) {
	path, err := exec.LookPath("nsd")
	if err != nil {
		path, err = exec.LookPath("/usr/sbin/nsd")
	}
	switch {
	case kind != "auto" && kind != "nsd" && kind != "own":
		return nil, fmt.Errorf("-server is %q; want nsd, own or auto", kind)
	case kind == "nsd" && err != nil:
		return nil, fmt.Errorf("-server nsd: %w (apt-get install nsd)", err)
	case kind == "own" || err != nil:
		return startOwn(ctx)
	}
	return startNSD(ctx, path)
}

func startOwn(ctx context.Context) (*server, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	s := &server{kind: "own", cmd: exec.Command(self, "-serve")}
	s.cmd.Stderr = os.Stderr
	in, err := s.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	s.in = in
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err == nil {
		s.addr, err = netip.ParseAddrPort(strings.TrimSpace(line))
	}
	s.watch()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("the server tells no address: %w", err), s.stop())
	}
	return s, s.ready(ctx)
}

const nsdZone = `$ORIGIN ` + zone + `.
$TTL 3600
@ IN SOA ns admin 1 7200 900 1209600 120
@ IN NS ns
ns IN A 127.0.0.1
* IN A 192.0.2.1
* IN AAAA 2001:db8::1
`

func startNSD(ctx context.Context, path string) (*server, error) {
	dir, err := os.MkdirTemp("", "bench-dns-")
	if err != nil {
		return nil, err
	}
	s := &server{kind: "nsd", dir: dir}
	port, err := freePort()
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "zone"), []byte(nsdZone), 0o600)
	}
	conf := fmt.Sprintf(`server:
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
    name: %s
    zonefile: zone
`, port, dir, filepath.Join(dir, "xfrd.state"), dir, filepath.Join(dir, "zone.list"), zone)
	file := filepath.Join(dir, "nsd.conf")
	if err == nil {
		err = os.WriteFile(file, []byte(conf), 0o600)
	}
	if err == nil {
		s.addr = netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), port)
		s.cmd = exec.Command(path, "-d", "-c", file)
		s.cmd.Dir = dir
		err = s.cmd.Start()
	}
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	s.watch()
	return s, s.ready(ctx)
}

func freePort() (uint16, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer func() { _ = l.Close() }() // only its number is wanted
	return netip.MustParseAddrPort(l.Addr().String()).Port(), nil
}

func (s *server) watch() {
	s.done = make(chan struct{})
	go func() {
		defer close(s.done)
		_ = s.cmd.Wait() // it is told to end by a signal
	}()
}

// ready waits for the first answer; a server that gives none is stopped.
func (s *server) ready(ctx context.Context) error {
	g := upstream.New(upstream.Config{Servers: []netip.AddrPort{s.addr}, TryTimeout: 200 * time.Millisecond, Rounds: 1, UDPSize: 1232})
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	var err error
	for range 200 {
		if _, err = g.Ask(ctx, "ready."+zone, dns.TypeA, netip.AddrPort{}); err == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return errors.Join(ctx.Err(), s.stop())
		}
	}
	return errors.Join(fmt.Errorf("the %s server at %s does not answer: %w", s.kind, s.addr, err), s.stop())
}

const stopTime = 5 * time.Second

func (s *server) stop() error {
	if s.in != nil {
		_ = s.in.Close() // it may have gone
	} else {
		_ = s.cmd.Process.Signal(os.Interrupt) // nsd takes its children along
	}
	select {
	case <-s.done:
	case <-time.After(stopTime):
		_ = s.cmd.Process.Kill()
		<-s.done
	}
	if s.dir == "" {
		return nil
	}
	return os.RemoveAll(s.dir)
}

// cpu is the time of the server's process and its descendants so far; 0 where
// /proc does not tell.
func (s *server) cpu() time.Duration { return family(s.cmd.Process.Pid) }

func family(pid int) time.Duration {
	total := ticks(pid)
	kids, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	if err != nil {
		return total
	}
	for _, kid := range strings.Fields(string(kids)) {
		if n, err := strconv.Atoi(kid); err == nil {
			total += family(n)
		}
	}
	return total
}

// userHz is the unit of /proc's times: 100 a second for all that ask in user
// space.
const userHz = 100

func ticks(pid int) time.Duration {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	// The name in parentheses may hold anything; utime is the 12th after it.
	_, rest, _ := strings.Cut(string(b[strings.LastIndexByte(string(b), ')')+1:]), " ")
	f := strings.Fields(rest)
	if len(f) < 13 {
		return 0
	}
	u, _ := strconv.ParseInt(f[11], 10, 64)
	k, _ := strconv.ParseInt(f[12], 10, 64)
	return time.Duration(u+k) * (time.Second / userHz)
}

// serve answers for every name until in ends.
func serve(in io.Reader, out io.Writer) error {
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	srv := &dns.Server{PacketConn: conn, Handler: dns.HandlerFunc(answer)}
	ended := make(chan error, 1)
	go func() { ended <- srv.ActivateAndServe() }()
	fmt.Fprintln(out, conn.LocalAddr())
	_, _ = io.Copy(io.Discard, in)
	return errors.Join(srv.Shutdown(), <-ended)
}

func answer(w dns.ResponseWriter, q *dns.Msg) {
	m := new(dns.Msg)
	m.SetReply(q)
	m.Authoritative = true
	if len(q.Question) == 1 {
		hdr := dns.RR_Header{Name: q.Question[0].Name, Rrtype: q.Question[0].Qtype, Class: dns.ClassINET, Ttl: 3600}
		switch hdr.Rrtype {
		case dns.TypeA:
			m.Answer = []dns.RR{&dns.A{Hdr: hdr, A: wantA.AsSlice()}}
		case dns.TypeAAAA:
			m.Answer = []dns.RR{&dns.AAAA{Hdr: hdr, AAAA: wantAAAA.AsSlice()}}
		}
	}
	_ = w.WriteMsg(m) // the asker may have gone
}
