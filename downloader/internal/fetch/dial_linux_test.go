package fetch_test

import (
	"context"
	"net"
	"net/netip"
	"syscall"
	"testing"
	"time"

	"lycosa.dev/downloader/internal/fetch"
)

// deaf returns a loopback address on which the given port takes no connection
// and refuses none: its queue is full.
func deaf(t *testing.T, host string, port uint16) netip.Addr {
	t.Helper()
	addr := netip.MustParseAddr(host)
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Close(fd) })
	_ = syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1)
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Port: int(port), Addr: addr.As4()}); err != nil {
		t.Skipf("cannot bind %s:%d: %v", host, port, err)
	}
	if err := syscall.Listen(fd, 0); err != nil {
		t.Fatal(err)
	}
	for range 4 {
		c, err := net.DialTimeout("tcp", netip.AddrPortFrom(addr, port).String(), 100*time.Millisecond)
		if err != nil {
			return addr
		}
		t.Cleanup(func() { c.Close() })
	}
	t.Skip("the system takes more connections than the queue has places")
	return addr
}

// An address that does not answer costs a quarter of a second and not the whole
// time for connecting; the next fetch does not begin with it.
func TestHappyEyeballs(t *testing.T) {
	s := serve(t, func(p *peer, _ int) {
		for p.request() != "" {
			p.say("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 1\r\n\r\na")
		}
	})
	req := request(t, s, "/")
	req.Addresses = []netip.Addr{deaf(t, "127.0.0.9", s.addr.Port()), s.addr.Addr()}
	cfg := config()
	cfg.ConnectTimeout = 30 * time.Second
	e := engine(t, cfg)
	res := e.Fetch(context.Background(), req, &page{})
	if res.Class != fetch.ClassResponse || res.Address != s.addr || res.Timings.Connect > 15*time.Second || res.Timings.Connect < 200*time.Millisecond {
		t.Errorf("%+v", res)
	}
	cfg.ConnectTimeout = 600 * time.Millisecond
	e = engine(t, cfg)
	req.Addresses = []netip.Addr{req.Addresses[0], netip.MustParseAddr("127.0.0.99")}
	res = e.Fetch(context.Background(), req, &page{})
	if res.Class != fetch.ClassConnect || res.Timings.Connect > 10*time.Second {
		t.Errorf("no address answers: %+v", res)
	}
	// Both are sick now; the one that works comes first.
	req.Addresses = append(req.Addresses, s.addr.Addr())
	begun := time.Now()
	res = e.Fetch(context.Background(), req, &page{})
	if res.Class != fetch.ClassResponse || time.Since(begun) > 10*time.Second {
		t.Errorf("%+v", res)
	}
}

// IPv6 and IPv4 of one host: whichever answers is taken.
func TestBothFamilies(t *testing.T) {
	lis, err := net.Listen("tcp", "[::1]:0")
	if err != nil {
		t.Skipf("no IPv6 on this machine: %v", err)
	}
	defer lis.Close()
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := lis.Accept()
			if err != nil {
				return
			}
			_, _ = c.Write([]byte("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na"))
			c.Close()
		}
	}()
	addr := lis.Addr().(*net.TCPAddr).AddrPort()
	cfg := config()
	cfg.Policy.AllowNets = append(cfg.Policy.AllowNets, netip.MustParsePrefix("::1/128"))
	target, _ := fetch.ParseTarget("http://h.test/")
	target.Port = addr.Port()
	req := &fetch.Request{Target: target, Addresses: []netip.Addr{netip.MustParseAddr("127.0.0.77"), addr.Addr()}}
	if res := engine(t, cfg).Fetch(context.Background(), req, &page{}); res.Class != fetch.ClassResponse || res.Address != addr {
		t.Errorf("%+v", res)
	}
	lis.Close()
	<-done
}
