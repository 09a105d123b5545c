package fetch

import (
	"bytes"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"lycosa.dev/internal/job"
)

// Target is where a URL leads: what the exchange needs of it.
type Target struct {
	// TLS is true for https.
	TLS bool
	// Authority is the Host header: host, with ":port" where not the default.
	Authority string
	// Host is the host alone, without brackets.
	Host string
	// Port is the port to connect to.
	Port uint16
	// Path is the request target: path and query.
	Path string
}

// ParseTarget splits a canonical http or https URL. The error says in words
// why there is nothing to fetch.
func ParseTarget(url string) (Target, error) {
	var t Target
	rest, ok := strings.CutPrefix(url, "http://")
	t.Port = 80
	if !ok {
		if rest, ok = strings.CutPrefix(url, "https://"); !ok {
			return t, fmt.Errorf("URL %q: want http:// or https://", clip(url))
		}
		t.TLS, t.Port = true, 443
	}
	for i := range len(url) {
		if c := url[i]; c <= ' ' || c >= 0x7f {
			return t, fmt.Errorf("URL %q: byte %#02x at %d; want a canonical URL, percent-encoded", clip(url), c, i)
		}
	}
	if i := strings.IndexByte(rest, '#'); i >= 0 {
		rest = rest[:i]
	}
	end := strings.IndexAny(rest, "/?")
	if end < 0 {
		end = len(rest)
	}
	t.Authority, t.Path = rest[:end], rest[end:]
	switch {
	case t.Path == "":
		t.Path = "/"
	case t.Path[0] == '?':
		t.Path = "/" + t.Path
	}
	if i := strings.LastIndexByte(t.Authority, '@'); i >= 0 {
		t.Authority = t.Authority[i+1:] // credentials of a URL are not sent
	}
	t.Host = t.Authority
	if i := strings.LastIndexByte(t.Authority, ':'); i >= 0 && !strings.HasSuffix(t.Authority, "]") {
		n, err := strconv.ParseUint(t.Authority[i+1:], 10, 16)
		if err != nil {
			return t, fmt.Errorf("URL %q: port %q is no number up to 65535", clip(url), t.Authority[i+1:])
		}
		t.Host, t.Port = t.Authority[:i], uint16(n)
	}
	if n := len(t.Host); n > 1 && t.Host[0] == '[' && t.Host[n-1] == ']' {
		t.Host = t.Host[1 : n-1]
	}
	if t.Host == "" {
		return t, fmt.Errorf("URL %q: no host", clip(url))
	}
	return t, nil
}

// Request is one permitted exchange.
type Request struct {
	// Target is what is asked for.
	Target Target
	// Addresses may be connected to, in order of preference.
	Addresses []netip.Addr
	// ETag and LastModified make the request conditional; empty: not sent.
	ETag, LastModified string
	// Settings are for this request; nil: the engine's.
	Settings *Settings
	// Until says until when the permission lasts, with a monotonic reading; it
	// may grow while the exchange is under way. Nothing is dialled or written
	// after it, and reading ends with it. nil: it does not end.
	Until func() time.Time
	// ByteAllowance bounds header block and body together on the wire; 0: no
	// bound.
	ByteAllowance int64
	// Wanted is asked before dialling and before writing: once it returns
	// false the exchange is given up. nil: it stays wanted.
	Wanted func() bool
	// Facts is told of the TLS session, nil without TLS, before the request is
	// written. nil: nobody asks.
	Facts func(*TLSFacts)
}

// request builds the request's bytes. Header order is fixed so that archives of
// two runs compare. connection is the field of that name; empty: none.
func (x *exchange) request(b []byte, connection string) []byte {
	c, r := x.set, x.req
	b = append(b, "GET "...)
	if x.absolute { // RFC 9112 section 3.2.2
		b = append(append(b, "http://"...), r.Target.Authority...)
	}
	b = append(b, r.Target.Path...)
	b = append(b, " HTTP/1.1\r\nHost: "...)
	b = append(b, r.Target.Authority...)
	b = header(b, "User-Agent", c.UserAgent)
	for _, h := range [...]struct{ name, value string }{{"From", c.From}, {"Accept", c.Accept}, {"Accept-Language", c.AcceptLanguage}} {
		if !c.overridden(h.name, r.Target.Authority) {
			b = header(b, h.name, h.value)
		}
	}
	b = header(b, "Accept-Encoding", c.AcceptEncoding)
	b = header(b, "If-None-Match", r.ETag)
	b = header(b, "If-Modified-Since", r.LastModified)
	for _, line := range c.Headers {
		b = append(append(b, "\r\n"...), line...)
	}
	for i := range c.HostHeaders {
		if h := &c.HostHeaders[i]; job.MatchHost(h.Host, r.Target.Authority) {
			for _, line := range h.Lines {
				b = append(append(b, "\r\n"...), line...)
			}
		}
	}
	if c.Jar != nil {
		b, _ = x.field(b, "Cookie", func(b []byte) []byte {
			return c.Jar.Append(b, r.Target.Host, r.Target.Path, r.Target.TLS, x.begun)
		})
	}
	if c.Auth != nil {
		b, x.authorized = x.field(b, "Authorization", func(b []byte) []byte {
			return c.Auth.Append(b, r.Target.Authority, r.Target.Path)
		})
	}
	if x.absolute {
		b = header(b, "Proxy-Authorization", x.via.Authorization())
	}
	b = header(b, "Connection", connection)
	return append(b, "\r\n\r\n"...)
}

// field appends a field with the value that add appends, if it appends any.
func (x *exchange) field(b []byte, name string, add func([]byte) []byte) ([]byte, bool) {
	n := len(b)
	b = append(append(append(b, "\r\n"...), name...), ": "...)
	begun := len(b)
	if b = add(b); len(b) == begun {
		return b[:n], false
	}
	return b, true
}

// overridden tells whether a job sends a field of its own in place of ours.
func (c *Settings) overridden(name, hostKey string) bool {
	has := func(lines []string) bool {
		for _, l := range lines {
			if len(l) > len(name) && l[len(name)] == ':' && strings.EqualFold(l[:len(name)], name) {
				return true
			}
		}
		return false
	}
	if has(c.Headers) {
		return true
	}
	for i := range c.HostHeaders {
		if job.MatchHost(c.HostHeaders[i].Host, hostKey) && has(c.HostHeaders[i].Lines) {
			return true
		}
	}
	return false
}

// secretFields are fields whose values are not stored.
var secretFields = []string{"authorization", "proxy-authorization", "cookie"}

// stored is the request as the Sink is given it: with the values of secret
// fields replaced, unless the settings say otherwise. It shares memory with
// request where nothing had to be replaced.
func (x *exchange) stored(request []byte) []byte {
	c := x.set
	if c.StoreSecrets || (c.Jar == nil && c.Auth == nil && !x.absolute && len(c.HostHeaders)+len(c.Headers) == 0) {
		return request
	}
	secret := func(name string) bool {
		if slices.Contains(secretFields, strings.ToLower(name)) {
			return true
		}
		for i := range c.HostHeaders {
			if h := &c.HostHeaders[i]; h.Secret && job.MatchHost(h.Host, x.req.Target.Authority) {
				for _, line := range h.Lines {
					if len(line) > len(name) && line[len(name)] == ':' && strings.EqualFold(line[:len(name)], name) {
						return true
					}
				}
			}
		}
		return false
	}
	out, changed := make([]byte, 0, len(request)), false
	for line := range bytes.SplitAfterSeq(request, []byte("\r\n")) {
		if name, _, ok := bytes.Cut(line, []byte(": ")); ok && secret(string(name)) {
			out = append(append(out, name...), ": redacted\r\n"...)
			changed = true
			continue
		}
		out = append(out, line...)
	}
	if !changed {
		return request
	}
	return out
}

// header appends "\r\nname: value" unless the value is empty or, coming from a
// server once, could break the line.
func header(b []byte, name, value string) []byte {
	if value == "" || strings.ContainsAny(value, "\r\n\x00") {
		return b
	}
	b = append(b, "\r\n"...)
	b = append(b, name...)
	b = append(b, ": "...)
	return append(b, value...)
}

// serverName is the name for SNI and verification.
func (t *Target) serverName() string { return strings.TrimSuffix(t.Host, ".") }

func (t *Target) defaultPort() bool { return t.TLS && t.Port == 443 || !t.TLS && t.Port == 80 }

func clip(s string) string { return s[:min(len(s), 120)] }
