// Package proxy reaches servers through proxies: which proxy for which host, in
// turn and by health, and what is said to it (HTTP CONNECT, RFC 9110 section
// 9.3.6; SOCKS5, RFC 1928 and 1929).
//
// The address policy holds through proxies: unless a rule says otherwise the
// proxy is asked for an address that was checked, not for a name, so that
// nobody's name server can lead it elsewhere.
package proxy

import (
	"bufio"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"lycosa.dev/internal/job"
)

// Rule says how the hosts of a pattern are reached.
type Rule struct {
	// Host is a pattern as job.MatchHost takes it.
	Host string
	// Upstreams are used in turn; none: no proxy.
	Upstreams []*Upstream
	// RemoteDNS asks the proxies for names.
	RemoteDNS bool

	turn atomic.Uint32
}

// Rules are looked through in order. The zero value has no proxy.
type Rules []*Rule

// Upstream is one proxy. A failure to reach it puts it aside for a while.
type Upstream struct {
	// Scheme is "http", "https", "socks5" or "socks5h"; Addr is HOST:PORT.
	Scheme, Addr string
	// User and Password are ours at the proxy; empty: none.
	User, Password string

	mu    sync.Mutex
	until time.Time
	times uint
}

// Bounds of how long a proxy that does not work is put aside.
const (
	firstAside   = 5 * time.Second
	longestAside = 5 * time.Minute
)

// String is the proxy without credentials.
func (u *Upstream) String() string { return u.Scheme + "://" + u.Addr }

// Failed puts the proxy aside.
func (u *Upstream) Failed(now time.Time) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.until = now.Add(min(firstAside<<min(u.times, 10), longestAside))
	u.times++
}

// Works notes that the proxy was reached.
func (u *Upstream) Works() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.until, u.times = time.Time{}, 0
}

func (u *Upstream) healthy(now time.Time) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return !now.Before(u.until)
}

// Pick returns the proxy for a host and whether it resolves names; nil: none.
// Where all are put aside it returns the next one in turn all the same: a fetch
// is never made without the proxy that a rule demands.
func (r Rules) Pick(hostKey string, now time.Time) (u *Upstream, remote bool) {
	for _, rule := range r {
		if !job.MatchHost(rule.Host, hostKey) {
			continue
		}
		n := uint32(len(rule.Upstreams))
		if n == 0 {
			return nil, false
		}
		first := rule.turn.Add(1) - 1
		for i := range n {
			if u := rule.Upstreams[(first+i)%n]; u.healthy(now) {
				return u, rule.RemoteDNS || u.Scheme == "socks5h"
			}
		}
		u := rule.Upstreams[first%n]
		return u, rule.RemoteDNS || u.Scheme == "socks5h"
	}
	return nil, false
}

// Error is what a proxy answered.
type Error struct {
	// Target tells that the proxy works and the server behind it does not;
	// otherwise it is the proxy that refuses us.
	Target bool
	// Code is a short fixed word, Detail says it in words.
	Code, Detail string
}

// Error returns code and words.
func (e *Error) Error() string { return e.Code + ": " + e.Detail }

// Connect asks the proxy on c for a connection to host (where addr is not
// valid) or addr, and port. The deadline of c is set by the caller. Nothing
// beyond the proxy's answer is read. The error is an *Error or one of c.
func (u *Upstream) Connect(c net.Conn, host string, addr netip.Addr, port uint16) error {
	if strings.HasPrefix(u.Scheme, "socks5") {
		return u.socks(c, host, addr, port)
	}
	if addr.IsValid() {
		host = addr.Unmap().String()
	}
	to := net.JoinHostPort(host, strconv.Itoa(int(port)))
	b := append([]byte("CONNECT "), to...)
	b = append(append(b, " HTTP/1.1\r\nHost: "...), to...)
	if v := u.Authorization(); v != "" {
		b = append(append(b, "\r\nProxy-Authorization: "...), v...)
	}
	if _, err := c.Write(append(b, "\r\n\r\n"...)); err != nil {
		return err
	}
	// Byte by byte: what follows the empty line belongs to the server behind.
	var head []byte
	for len(head) < 16<<10 {
		var one [1]byte
		if _, err := io.ReadFull(c, one[:]); err != nil {
			return err
		}
		head = append(head, one[0])
		if n := len(head); n > 3 && string(head[n-4:]) == "\r\n\r\n" || n > 1 && string(head[n-2:]) == "\n\n" {
			return connectStatus(head)
		}
	}
	return &Error{Code: "proxy-protocol", Detail: "the proxy's answer to CONNECT has no end"}
}

// Authorization is the value of Proxy-Authorization; "" without a user.
func (u *Upstream) Authorization() string {
	if u.User == "" {
		return ""
	}
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(u.User+":"+u.Password))
}

func connectStatus(head []byte) error {
	line, _, _ := strings.Cut(string(head), "\n")
	f := strings.Fields(line)
	if len(f) < 2 || !strings.HasPrefix(f[0], "HTTP/1.") {
		return &Error{Code: "proxy-protocol", Detail: fmt.Sprintf("the proxy answers CONNECT with %.60q", line)}
	}
	switch status := f[1]; {
	case strings.HasPrefix(status, "2") && len(status) == 3:
		return nil
	case status == "407":
		return &Error{Code: "proxy-auth", Detail: "the proxy does not accept our user name and password"}
	case status == "502", status == "503", status == "504", status == "500":
		return &Error{Target: true, Code: "connect-failed", Detail: "the proxy cannot reach the server: " + status}
	default:
		return &Error{Code: "proxy-refused", Detail: "the proxy refuses the connection: " + status}
	}
}

// socksReplies are the words of RFC 1928 section 6, by number.
var socksReplies = [...]string{1: "general failure", 2: "not allowed by its rules", 3: "network unreachable", 4: "host unreachable", 5: "connection refused", 6: "TTL expired", 7: "command not supported", 8: "address type not supported"}

func (u *Upstream) socks(c net.Conn, host string, addr netip.Addr, port uint16) error {
	method := byte(0)
	if u.User != "" {
		method = 2
		if len(u.User) > 255 || len(u.Password) > 255 || u.Password == "" {
			return &Error{Code: "proxy-auth", Detail: "SOCKS5 takes a user name and a password of 1 to 255 bytes"}
		}
	}
	if _, err := c.Write([]byte{5, 1, method}); err != nil {
		return err
	}
	r := bufio.NewReaderSize(oneByOne{c}, 16)
	var b [4]byte
	if _, err := io.ReadFull(r, b[:2]); err != nil {
		return err
	}
	switch {
	case b[0] != 5:
		return &Error{Code: "proxy-protocol", Detail: "the proxy does not speak SOCKS5"}
	case b[1] != method:
		return &Error{Code: "proxy-auth", Detail: "the proxy wants another way of authentication than ours"}
	}
	if method == 2 {
		msg := append([]byte{1, byte(len(u.User))}, u.User...)
		msg = append(append(msg, byte(len(u.Password))), u.Password...)
		if _, err := c.Write(msg); err != nil {
			return err
		}
		if _, err := io.ReadFull(r, b[:2]); err != nil {
			return err
		}
		if b[1] != 0 {
			return &Error{Code: "proxy-auth", Detail: "the proxy does not accept our user name and password"}
		}
	}
	msg := []byte{5, 1, 0}
	switch addr = addr.Unmap(); {
	case addr.Is4():
		msg = append(append(msg, 1), addr.AsSlice()...)
	case addr.Is6():
		msg = append(append(msg, 4), addr.AsSlice()...)
	default:
		if len(host) > 255 {
			return errors.New("the host's name is longer than 255 bytes")
		}
		msg = append(append(msg, 3, byte(len(host))), host...)
	}
	if _, err := c.Write(binary.BigEndian.AppendUint16(msg, port)); err != nil {
		return err
	}
	if _, err := io.ReadFull(r, b[:4]); err != nil {
		return err
	}
	if code := b[1]; code != 0 {
		word := "unknown failure"
		if int(code) < len(socksReplies) {
			word = socksReplies[code]
		}
		e := &Error{Target: code >= 3 && code <= 6, Code: "connect-failed", Detail: "the proxy cannot reach the server: " + word}
		switch {
		case code == 5:
			e.Code = "connect-refused"
		case code == 3 || code == 4:
			e.Code = "connect-unreachable"
		case !e.Target:
			e.Code, e.Detail = "proxy-refused", "the proxy refuses the connection: "+word
		}
		return e
	}
	n := int64(net.IPv4len)
	switch b[3] {
	case 3:
		l, err := r.ReadByte()
		if err != nil {
			return err
		}
		n = int64(l)
	case 4:
		n = net.IPv6len
	}
	_, err := io.CopyN(io.Discard, r, n+2)
	return err
}

// oneByOne keeps a buffered reader from reading beyond what is asked for.
type oneByOne struct{ r io.Reader }

func (o oneByOne) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	return o.r.Read(p[:1])
}
