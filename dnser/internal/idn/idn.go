// Package idn turns host names as people write them into those of the DNS.
//
// Host names of links need none of it: they arrive canonical.
package idn

import (
	"strings"
	"unicode/utf8"

	"lycosa.dev/internal/weburl"
)

// ASCII is host as browsers ask for it: Unicode is mapped and written in
// Punycode (WHATWG URL, section 3.3, "domain to ASCII"). A host that is ASCII
// already, or has no such form, is returned as it is: what is wrong with it is
// for others to say.
func ASCII(host string) string {
	if ascii(host) || strings.ContainsAny(host, `/\?#@:[]`) {
		return host
	}
	u, err := weburl.Parse("http://" + host + "/")
	if err != nil {
		return host
	}
	return u.Hostname()
}

func ascii(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}
