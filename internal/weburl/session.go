package weburl

import "strings"

// isSessionParam reports whether a query parameter carries a session id.
func isSessionParam(name, value string) bool {
	name = lowerASCII(name)
	switch name {
	case "jsessionid", "phpsessid", "cfid", "cftoken", "sessionid", "session_id":
		return true
	case "sid":
		return looksRandom(value)
	}
	return strings.HasPrefix(name, "aspsessionid")
}

// looksRandom reports whether a value is long, alphanumeric and has digits.
func looksRandom(v string) bool {
	if len(v) < 16 {
		return false
	}
	digits := 0
	for i := range len(v) {
		switch {
		case isDigit(v[i]):
			digits++
		case !isAlpha(v[i]):
			return false
		}
	}
	return digits > 0
}

// isTrackingParam reports whether a query parameter only tells a site's
// statistics how a visitor came.
func isTrackingParam(name string) bool {
	name = lowerASCII(name)
	if strings.HasPrefix(name, "utm_") || strings.HasPrefix(name, "mtm_") || strings.HasPrefix(name, "hsa_") {
		return true
	}
	switch name {
	case "gclid", "gclsrc", "dclid", "gbraid", "wbraid", "_ga", "_gl", // Google
		"fbclid", "igshid", "igsh", // Meta
		"msclkid", "yclid", "ymclid", "twclid", "ttclid", "li_fat_id", "rdt_cid", "epik", "scid",
		"mc_cid", "mc_eid", "mkt_tok", "_hsenc", "_hsmi", "__hssc", "__hstc", "__hsfp", "hsctatracking",
		"oly_anon_id", "oly_enc_id", "vero_id", "vero_conv", "wickedid", "s_kwcid", "srsltid", "zanpid":
		return true
	}
	return false
}

// stripPathSession removes ";jsessionid=…" from segments and the cookieless
// session segments of ASP.NET.
func stripPathSession(p string) string {
	for from := 0; ; {
		i := indexFold(p[from:], ";jsessionid=")
		if i < 0 {
			break
		}
		i += from
		end := i + 1
		for end < len(p) && p[end] != '/' && p[end] != ';' {
			end++
		}
		p, from = p[:i]+p[end:], i
	}
	for from := 0; ; {
		i := strings.Index(p[from:], "/(")
		if i < 0 {
			return p
		}
		i += from
		end := strings.IndexByte(p[i+1:], '/')
		if end < 0 {
			return p
		}
		end += i + 1
		if isASPSession(p[i+1 : end]) {
			p, from = p[:i]+p[end:], i
		} else {
			from = end
		}
	}
}

// indexFold is strings.Index for a lower-case ASCII needle, whatever the case of s.
func indexFold(s, needle string) int {
	for i := 0; i+len(needle) <= len(s); i++ {
		if s[i] == needle[0] && strings.EqualFold(s[i:i+len(needle)], needle) {
			return i
		}
	}
	return -1
}

// isASPSession recognises "(24 characters)" and "(A(24 characters)S(…)F(…))".
func isASPSession(segment string) bool {
	const idLen = 24
	inner, ok := strings.CutPrefix(segment, "(")
	if !ok {
		return false
	}
	if inner, ok = strings.CutSuffix(inner, ")"); !ok {
		return false
	}
	if len(inner) == idLen {
		return alphanumeric(inner)
	}
	for inner != "" {
		if len(inner) < 4 || !isAlpha(inner[0]) || inner[1] != '(' {
			return false
		}
		end := strings.IndexByte(inner, ')')
		if end < 0 || end-2 < idLen || !alphanumeric(inner[2:end]) {
			return false
		}
		inner = inner[end+1:]
	}
	return segment != "()"
}

func alphanumeric(s string) bool {
	for i := range len(s) {
		if !isAlpha(s[i]) && !isDigit(s[i]) {
			return false
		}
	}
	return true
}
