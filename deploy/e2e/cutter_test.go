package e2e

import (
	"net"
	"sync"
	"testing"
	"time"
)

// cutter is a TCP proxy on loopback whose connections can be cut at will, as a
// network does: both ends live and get a reset, what was on its way is lost.
type cutter struct {
	addr   string
	target string
	lis    net.Listener
	wg     sync.WaitGroup

	mu    sync.Mutex
	conns map[*net.TCPConn]bool // both sides of each connection
	down  bool                  // new connections are refused
	ended bool
	cuts  int // connections that were cut, ever
}

// cutterLag is how long each piece is on its way, so that a cut finds some.
const cutterLag = time.Millisecond

// newCutter passes connections on to target until the test ends.
func newCutter(t testing.TB, target string) *cutter {
	t.Helper()
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &cutter{addr: lis.Addr().String(), target: target, lis: lis, conns: map[*net.TCPConn]bool{}}
	c.wg.Go(c.serve)
	t.Cleanup(func() {
		_ = lis.Close()
		c.mu.Lock()
		c.ended = true
		c.mu.Unlock()
		c.cut(true)
		c.wg.Wait()
	})
	return c
}

func (c *cutter) serve() {
	for {
		conn, err := c.lis.Accept()
		if err != nil {
			return
		}
		in := conn.(*net.TCPConn)
		out, err := net.Dial("tcp", c.target)
		if err != nil {
			reset(in)
			continue
		}
		if !c.take(in, out.(*net.TCPConn)) {
			reset(in)
			_ = out.Close()
		}
	}
}

// take passes bytes between two connections; false: it is down.
func (c *cutter) take(in, out *net.TCPConn) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.down || c.ended {
		return false
	}
	c.conns[in], c.conns[out] = true, true
	c.wg.Go(func() { c.pass(in, out) })
	c.wg.Go(func() { c.pass(out, in) })
	return true
}

// pass copies one direction until either end is gone; then both are.
func (c *cutter) pass(from, to *net.TCPConn) {
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		if n > 0 {
			time.Sleep(cutterLag)
			if _, werr := to.Write(buf[:n]); werr != nil {
				err = werr
			}
		}
		if err != nil {
			break
		}
	}
	_, _ = from.Close(), to.Close()
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.conns, from)
	delete(c.conns, to)
}

// cut resets all connections; where down, new ones are refused until up.
func (c *cutter) cut(down bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.down = down
	c.cuts += len(c.conns) / 2
	for conn := range c.conns {
		reset(conn)
	}
}

// count is how many connections were cut.
func (c *cutter) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cuts
}

// up takes new connections again.
func (c *cutter) up() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.down = false
}

// reset closes a connection at once: what was not sent is thrown away.
func reset(c *net.TCPConn) {
	_ = c.SetLinger(0)
	_ = c.Close()
}
