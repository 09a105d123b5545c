package upstream

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/miekg/dns"

	"lycosa.dev/internal/descriptors"
)

// Network is the Transport of real sockets: a new one for every query, so that
// the kernel picks a new random source port (RFC 5452 section 9.2), and
// connected, so that it drops what comes from elsewhere.
type Network struct{}

// bufferBytes holds any DNS message.
const bufferBytes = 65535

var buffers = sync.Pool{New: func() any { b := make([]byte, bufferBytes); return &b }}

var dialer net.Dialer

// Exchange sends query to server and waits for its reply.
func (Network) Exchange(ctx context.Context, network string, server netip.AddrPort, query *dns.Msg) (*dns.Msg, error) {
	conn, err := dial(ctx, network, server)
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }() // nothing is lost: the reply has been read
	// A deadline in the past wakes the reader when the context is cancelled.
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()

	buf := buffers.Get().(*[]byte)
	defer buffers.Put(buf)
	var msg *dns.Msg
	if network == "tcp" {
		msg, err = exchangeTCP(conn, query, *buf)
	} else {
		msg, err = exchangeUDP(conn, query, *buf)
	}
	if err != nil && ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return msg, err
}

// How long a socket that the system refuses for want of descriptors waits
// before it is asked for again.
const (
	firstSocketWait = 5 * time.Millisecond
	lastSocketWait  = 200 * time.Millisecond
)

// errNoSocket says that this process had no descriptor left for a question. It
// was not asked, and nothing is wrong with the server.
var errNoSocket = errors.New("no file descriptor is left for a socket")

// dial opens a socket, and waits while this process has no descriptor for it.
func dial(ctx context.Context, network string, server netip.AddrPort) (net.Conn, error) {
	for wait := firstSocketWait; ; wait = min(2*wait, lastSocketWait) {
		conn, err := dialer.DialContext(ctx, network, server.String())
		if err == nil || !descriptors.Exhausted(err) {
			return conn, err
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil, errNoSocket
		}
	}
}

func exchangeUDP(conn net.Conn, query *dns.Msg, buf []byte) (*dns.Msg, error) {
	packet, err := query.PackBuffer(buf)
	if err != nil {
		return nil, fmt.Errorf("pack the query: %w", err)
	}
	if _, err := conn.Write(packet); err != nil {
		return nil, err
	}
	for {
		n, err := conn.Read(buf)
		if err != nil {
			return nil, err
		}
		if msg := parse(buf[:n], query); msg != nil {
			return msg, nil
		}
	}
}

// exchangeTCP frames messages with two bytes of length (RFC 7766 section 8).
func exchangeTCP(conn net.Conn, query *dns.Msg, buf []byte) (*dns.Msg, error) {
	packet, err := query.PackBuffer(buf[2:])
	if err != nil {
		return nil, fmt.Errorf("pack the query: %w", err)
	}
	if len(packet) > len(buf)-2 {
		return nil, errors.New("the query is too long")
	}
	binary.BigEndian.PutUint16(buf, uint16(len(packet)))
	if _, err := conn.Write(buf[:2+len(packet)]); err != nil {
		return nil, err
	}
	if _, err := io.ReadFull(conn, buf[:2]); err != nil {
		return nil, fmt.Errorf("read the length of the reply: %w", err)
	}
	n := int(binary.BigEndian.Uint16(buf))
	if _, err := io.ReadFull(conn, buf[:n]); err != nil {
		return nil, fmt.Errorf("read the reply: %w", err)
	}
	msg := parse(buf[:n], query)
	if msg == nil {
		return nil, errors.New("the reply is malformed or not to the question")
	}
	return msg, nil
}

// headerBytes is the length of a DNS header (RFC 1035 section 4.1.1).
const headerBytes = 12

// parse reads a packet and returns the message if it is the reply to query,
// nil if it is anything else. A reply cut short by its sender, which need not
// parse to the end, is returned with Truncated set.
func parse(packet []byte, query *dns.Msg) *dns.Msg {
	if len(packet) < headerBytes || binary.BigEndian.Uint16(packet) != query.Id {
		return nil
	}
	msg := new(dns.Msg)
	err := msg.Unpack(packet)
	if err != nil && !msg.Truncated {
		return nil
	}
	if !belongs(query, msg) {
		return nil
	}
	return msg
}

// belongs says whether reply is an answer to query: same id, a response, the
// same question (names compare without regard to case). Servers that refuse or
// do not understand a query may leave the question out.
func belongs(query, reply *dns.Msg) bool {
	if reply == nil || reply.Id != query.Id || !reply.Response || reply.Opcode != query.Opcode {
		return false
	}
	if len(reply.Question) == 0 {
		return reply.Rcode != dns.RcodeSuccess && reply.Rcode != dns.RcodeNameError
	}
	if len(reply.Question) != 1 {
		return false
	}
	got, want := reply.Question[0], query.Question[0]
	return got.Qtype == want.Qtype && got.Qclass == want.Qclass && strings.EqualFold(got.Name, want.Name)
}
