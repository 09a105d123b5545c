package weburl

import "strings"

// SURT returns the Sort-friendly URI Reordering Transform of u, as Heritrix
// writes it: http://(org,archive,www,)/movies/. Addresses keep their order, a
// port stands behind the host (…,:8080), credentials behind the port. URLs
// without a host are returned as they are.
func (u URL) SURT() string {
	if !u.hasHost {
		return u.href
	}
	b := make([]byte, 0, len(u.href)+8)
	b = append(b, u.href[:u.schemeEnd]...)
	b = append(b, "://("...)
	b = u.appendReversedHost(b)
	b = append(b, u.href[u.hostEnd:u.pathStart]...)
	if u.HasCredentials() {
		b = append(append(b, '@'), u.href[u.schemeEnd+3:u.hostStart-1]...)
	}
	b = append(b, ')')
	b = append(b, u.href[u.pathStart:]...)
	return string(b)
}

// appendReversedHost appends the labels from last to first, a comma behind each.
func (u URL) appendReversedHost(b []byte) []byte {
	h := u.Hostname()
	if u.IsIP() || h == "" {
		return append(b, h...)
	}
	for h != "" {
		dot := strings.LastIndexByte(h, '.')
		b = append(append(b, h[dot+1:]...), ',')
		if dot < 0 {
			break
		}
		h = h[:dot]
		if h == "" {
			b = append(b, ',')
		}
	}
	return b
}

// SURTPrefix returns the prefix that the SURTs of all URLs "below" u share: its
// SURT up to the last slash of the path.
func (u URL) SURTPrefix() string {
	s := u.WithoutFragment().SURT()
	if u.HasQuery() {
		s = s[:len(s)-len(u.Query())-1]
	}
	if u.opaquePath {
		return s
	}
	return s[:strings.LastIndexByte(s, '/')+1]
}

// SURTDomainPrefix returns the prefix that the SURTs of all URLs of u's scheme
// on its host and on the hosts below it share: http://(org,archive,
// For an address it is that of the address alone.
func (u URL) SURTDomainPrefix() string {
	if !u.hasHost {
		return u.Scheme() + ":"
	}
	b := append([]byte(u.Scheme()), "://("...)
	return string(u.appendReversedHost(b))
}

// SURTKey returns the form under which web archive indexes (CDX) sort URLs: the
// SURT in lower case, without scheme and credentials, without the comma behind
// the last label and the brackets of an IPv6 address:
// org,archive,www)/movies?a=1. The indexes make it of URLs canonicalised under
// [ArchiveRules].
func (u URL) SURTKey() string {
	if !u.hasHost {
		return lowerASCII(u.href)
	}
	b := u.appendReversedHost(make([]byte, 0, len(u.href)+8))
	switch n := len(b); {
	case n > 0 && b[n-1] == ',':
		b = b[:n-1]
	case n > 0 && b[0] == '[':
		b = b[1 : n-1]
	}
	b = append(b, u.href[u.hostEnd:u.pathStart]...)
	b = append(b, ')')
	b = append(b, u.href[u.pathStart:]...)
	return lowerASCII(string(b))
}
