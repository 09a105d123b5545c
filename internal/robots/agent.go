package robots

import "strings"

// ProductToken returns the name under which a User-Agent string looks for its
// group, such as "Lycosa" of "Lycosa/1.0 (+https://example.org/bot)". For a
// string that calls itself compatible with a browser ("Mozilla/5.0
// (compatible; Lycosa/1.0)") it is the name after "compatible;". Digits belong
// to a name, though RFC 9309, section 2.2.1 has only letters, "_" and "-",
// because crawlers with digits exist. It is "" where there is no name.
func ProductToken(userAgent string) string {
	s := trim(userAgent)
	token := leadingToken(s)
	if strings.EqualFold(token, "mozilla") {
		if _, after, ok := strings.Cut(s, "compatible;"); ok {
			if t := leadingToken(trim(after)); t != "" {
				return t
			}
		}
	}
	return token
}

// ValidProductToken tells whether s is a product token as RFC 9309, section
// 2.2.1 spells it: the form in which a crawler should name itself, so that
// every parser finds its group.
func ValidProductToken(s string) bool {
	for i := range len(s) {
		if c := s[i]; !isAlpha(c) && c != '_' && c != '-' {
			return false
		}
	}
	return s != ""
}

// leadingToken returns the product token that s begins with.
func leadingToken(s string) string {
	i := 0
	for i < len(s) && (isAlpha(s[i]) || isDigit(s[i]) || s[i] == '_' || s[i] == '-') {
		i++
	}
	return s[:i]
}

// PathAndQuery returns the part of a URL that rules are compared with: path,
// parameters and query, without the fragment, always beginning with "/". It
// takes what is already only a path as such. It decodes and resolves nothing.
func PathAndQuery(rawURL string) string {
	s := rawURL
	if i := strings.IndexByte(s, '#'); i >= 0 {
		s = s[:i]
	}
	const starts = "/?;"
	s = strings.TrimPrefix(s, "//")
	// A "://" after a path has begun is part of the path.
	if i := strings.Index(s, "://"); i >= 0 && strings.IndexAny(s, starts) > i {
		s = s[i+3:]
	}
	i := strings.IndexAny(s, starts)
	if i < 0 {
		return "/"
	}
	if s[i] == '/' {
		return s[i:]
	}
	return "/" + s[i:]
}
