package fetch

import (
	"crypto/tls"
	"net"
	"net/netip"
	"syscall"
	"time"

	"lycosa.dev/downloader/internal/bufpool"
	"lycosa.dev/internal/httpwire"
)

// connKey says what a kept connection may be used for: exactly the scheme,
// host and address it was opened for.
type connKey struct {
	tls  bool
	lax  bool   // the certificate was not insisted on
	host string // Authority, so that no request reaches another virtual host's session
	addr netip.AddrPort
	via  string           // the proxy in between; empty: none
	cert *tls.Certificate // ours, that the session was made with
}

// conn is a connection. One exchange owns it, or the pool does.
type conn struct {
	net.Conn            // what requests are written to: TCP, or TLS over it
	tcp        net.Conn // the TCP connection below
	raw        syscall.RawConn
	tls        *tls.Conn // nil without TLS
	h2         *h2conn   // nil: HTTP/1
	resumed    bool      // the TLS session was
	legacy     bool      // TLS of the fallback for old servers
	key        connKey
	tlsFacts   string
	certError  string
	probe      probe
	scratch    httpwire.Head // of the exchange that owns the connection
	expires    time.Time     // guarded by the pool's lock, with the fields below
	newer, old *conn
	places     *places // where the connection has a place; nil: it has none
}

// newConn wraps a TCP connection.
func newConn(tcp net.Conn, key connKey) *conn {
	c := &conn{Conn: tcp, tcp: tcp, key: key}
	if sc, ok := tcp.(syscall.Conn); ok {
		if raw, err := sc.SyscallConn(); err == nil {
			c.raw = raw
		}
	}
	c.probe.init()
	return c
}

// stale tells whether a kept connection can no longer be used: the server has
// closed it, or said something nobody asked for. It does not block.
func (c *conn) stale() bool {
	if c.raw == nil {
		return false
	}
	pending, gone := c.peek()
	if gone || !pending {
		return gone
	}
	if c.tls == nil {
		return true
	}
	if c.h2 != nil {
		return !c.h2.settle()
	}
	// Records that wait are session tickets or the end of the session. Reading
	// them takes no time, and nothing else may come.
	if c.SetReadDeadline(time.Now().Add(time.Millisecond)) != nil {
		return true
	}
	var b [1]byte
	n, err := c.tls.Read(b[:])
	return n > 0 || !isTimeout(err)
}

// readFirst waits for the first bytes of a response. It holds no buffer while
// it waits, where the system allows. The buffer is the caller's if n > 0.
func (c *conn) readFirst() (*bufpool.Buffer, int, error) {
	switch {
	case c.raw == nil:
	case c.tls == nil:
		return c.readReady()
	default:
		if err := c.waitReady(); err != nil {
			return nil, 0, err
		}
	}
	buf := bufpool.Get()
	n, err := c.Read(buf.B)
	if n == 0 {
		buf.Release()
		buf = nil
	}
	return buf, n, err
}

// close ends the connection at once, without a TLS goodbye that could block.
func (c *conn) close() {
	_ = c.tcp.Close()
	if p := c.places; p != nil {
		c.places = nil
		p.give()
	}
}
