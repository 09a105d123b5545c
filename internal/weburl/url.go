package weburl

import (
	"net/netip"
	"strconv"
	"strings"

	"golang.org/x/net/publicsuffix"
)

// schemeKind tells the special schemes apart.
type schemeKind uint8

const (
	kindOther schemeKind = iota
	kindHTTP
	kindHTTPS
	kindWS
	kindWSS
	kindFTP
	kindFile
)

// defaultPort by kind; 0 is none.
var defaultPort = [...]int{kindOther: 0, kindHTTP: 80, kindHTTPS: 443, kindWS: 80, kindWSS: 443, kindFTP: 21, kindFile: 0}

func kindOf(scheme string) schemeKind {
	switch scheme {
	case "http":
		return kindHTTP
	case "https":
		return kindHTTPS
	case "ws":
		return kindWS
	case "wss":
		return kindWSS
	case "ftp":
		return kindFTP
	case "file":
		return kindFile
	}
	return kindOther
}

func (k schemeKind) special() bool { return k != kindOther }

// URL is a parsed URL. The zero value is no URL (IsZero). Values are immutable,
// may be shared between goroutines and compare with ==.
type URL struct {
	href string
	// Offsets into href:
	//
	//	https://user:pass@example.org:8080/path?query#fragment
	//	     |            |          |    |    |     |
	//	     schemeEnd    hostStart  hostEnd   |     fragStart
	//	                                  |    queryStart
	//	                                  pathStart
	//
	// A part that is absent is empty at the place where it would be. Without a
	// host hostStart and hostEnd equal schemeEnd+1; pathStart is behind the "/."
	// that the serialiser puts before a path which starts with "//".
	schemeEnd, hostStart, hostEnd, pathStart, queryStart, fragStart uint32

	kind       schemeKind
	hasHost    bool
	opaquePath bool
}

// String returns the URL serialised, with its fragment.
func (u URL) String() string { return u.href }

// IsZero reports whether u is the zero value.
func (u URL) IsZero() bool { return u.href == "" }

// Scheme returns the scheme in lower case, without the colon.
func (u URL) Scheme() string { return u.href[:u.schemeEnd] }

// IsHTTP reports whether the scheme is http or https.
func (u URL) IsHTTP() bool { return u.kind == kindHTTP || u.kind == kindHTTPS }

// IsHTTPS reports whether the scheme is https.
func (u URL) IsHTTPS() bool { return u.kind == kindHTTPS }

// Hostname returns the host without port: a name in its ASCII form, an IPv4
// address, or an IPv6 address in brackets. "" where there is none.
func (u URL) Hostname() string { return u.href[u.hostStart:u.hostEnd] }

// Port returns the port as written in the canonical form: "" if it is the
// scheme's default.
func (u URL) Port() string {
	if !u.hasHost || u.hostEnd >= u.portEnd() {
		return ""
	}
	return u.href[u.hostEnd+1 : u.portEnd()]
}

// portEnd is the end of the authority.
func (u URL) portEnd() uint32 {
	if u.hasHost {
		return u.pathStart
	}
	return u.hostEnd
}

// PortNumber returns the port to connect to: the URL's own or its scheme's
// default; 0 where there is neither.
func (u URL) PortNumber() int {
	if p := u.Port(); p != "" {
		n, _ := strconv.Atoi(p)
		return n
	}
	return defaultPort[u.kind]
}

// HostKey returns the host with ":port" where that is not the scheme's default:
// the name of the queue, and what is sharded.
func (u URL) HostKey() string { return u.href[u.hostStart:u.portEnd()] }

// Origin returns scheme://hostkey, without credentials. It is "" for a URL
// without a host.
func (u URL) Origin() string {
	if !u.hasHost {
		return ""
	}
	if u.hostStart == u.schemeEnd+3 {
		return u.href[:u.pathStart]
	}
	return u.href[:u.schemeEnd+3] + u.HostKey()
}

// Path returns the path; for special schemes it starts with "/".
func (u URL) Path() string { return u.href[u.pathStart:u.queryStart] }

// HasQuery reports whether there is a query, which may be empty.
func (u URL) HasQuery() bool { return u.queryStart < u.fragStart }

// Query returns the query without "?".
func (u URL) Query() string {
	if !u.HasQuery() {
		return ""
	}
	return u.href[u.queryStart+1 : u.fragStart]
}

// PathQuery returns path and query as they stand in the URL.
func (u URL) PathQuery() string { return u.href[u.pathStart:u.fragStart] }

// RequestTarget returns the target of an HTTP request (origin-form, RFC 9112,
// 3.2.1): path and query, always starting with "/".
func (u URL) RequestTarget() string {
	t := u.PathQuery()
	if t == "" || t[0] != '/' {
		return "/" + t
	}
	return t
}

// HasFragment reports whether there is a fragment, which may be empty.
func (u URL) HasFragment() bool { return int(u.fragStart) < len(u.href) }

// Fragment returns the fragment without "#".
func (u URL) Fragment() string {
	if !u.HasFragment() {
		return ""
	}
	return u.href[u.fragStart+1:]
}

// HasCredentials reports whether a user name or a password is part of the URL.
func (u URL) HasCredentials() bool { return u.hasHost && u.hostStart > u.schemeEnd+3 }

// Credentials returns user name and password, escaped as in the URL.
func (u URL) Credentials() (user, password string) {
	if !u.HasCredentials() {
		return "", ""
	}
	user, password, _ = strings.Cut(u.href[u.schemeEnd+3:u.hostStart-1], ":")
	return user, password
}

// IsIP reports whether the host is an IP address.
func (u URL) IsIP() bool { return u.Addr().IsValid() }

// Addr returns the host as an IP address, the zero Addr if it is a name.
func (u URL) Addr() netip.Addr {
	h := u.Hostname()
	if h == "" {
		return netip.Addr{}
	}
	if h[0] == '[' {
		h = h[1 : len(h)-1]
	} else if last := h[len(h)-1]; !isDigit(last) || !u.kind.special() {
		return netip.Addr{}
	}
	a, err := netip.ParseAddr(h)
	if err != nil {
		return netip.Addr{}
	}
	return a
}

// RegistrableDomain returns the host's public suffix and the label before it
// (example.co.uk). An address, and a host that is itself a public suffix or has
// no such domain, is returned as it is; a trailing dot is not part of it.
func (u URL) RegistrableDomain() string {
	h := u.Hostname()
	if u.IsIP() {
		return h
	}
	name := strings.TrimSuffix(h, ".")
	if d, err := publicsuffix.EffectiveTLDPlusOne(name); err == nil {
		return d
	}
	return name
}

// WithoutFragment returns u without its fragment.
func (u URL) WithoutFragment() URL {
	u.href = u.href[:u.fragStart]
	return u
}

// MarshalText returns the URL serialised, "" for the zero URL.
func (u URL) MarshalText() ([]byte, error) { return []byte(u.href), nil }

// UnmarshalText parses an absolute URL; empty text gives the zero URL.
func (u *URL) UnmarshalText(text []byte) error {
	if len(text) == 0 {
		*u = URL{}
		return nil
	}
	v, err := Parse(string(text))
	if err != nil {
		return err
	}
	*u = v
	return nil
}
