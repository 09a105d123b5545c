package robots

import "strings"

// parser holds the state between lines.
type parser struct {
	file *File
	// open is set while User-agent lines still join the last group: until a
	// rule closes it.
	open bool
	seen map[string]bool // sitemaps
}

// skipBOM drops a UTF-8 byte order mark, also one of which only the first one
// or two bytes are left.
func skipBOM(s string) string {
	const bom = "\xef\xbb\xbf"
	n := 0
	for n < len(bom) && n < len(s) && s[n] == bom[n] {
		n++
	}
	return s[n:]
}

// run splits the text into lines, ended by LF, CR or CRLF.
func (p *parser) run(s string) {
	num := int32(0)
	for {
		num++
		end := strings.IndexAny(s, "\r\n")
		if end < 0 {
			p.line(s, num)
			break
		}
		p.line(s[:end], num)
		if s[end] == '\r' && end+1 < len(s) && s[end+1] == '\n' {
			end++
		}
		s = s[end+1:]
	}
	p.file.stats.Lines = int(num)
}

// line reads one line.
func (p *parser) line(s string, num int32) {
	if len(s) > maxLineBytes {
		s = s[:maxLineBytes]
	}
	// A comment, or a NUL, which ends the line for parsers written in C.
	if i := strings.IndexAny(s, "#\x00"); i >= 0 {
		s = s[:i]
	}
	s = trim(s)
	key, value, ok := split(s)
	if !ok {
		return
	}
	k := keyOf(key)
	st := &p.file.stats
	st.LastLine = int(num)
	switch k {
	case keyUserAgent:
		st.Valid++
		p.userAgent(stripTags(value))
	case keyAllow, keyDisallow:
		st.Valid++
		p.rule(line{value: stripTags(value), num: num, allow: k == keyAllow})
	case keySitemap:
		st.Valid++
		p.sitemap(stripTags(value))
	case keyCrawlDelay:
		st.Valid++
		p.crawlDelay(stripTags(value))
	default:
		if bareSitemap(key, s) {
			p.sitemap(s)
		}
		st.Unknown++
	}
}

// split separates key and value. A missing colon is forgiven when there are
// exactly two words.
func split(s string) (key, value string, ok bool) {
	if i := strings.IndexByte(s, ':'); i >= 0 {
		key, value = trim(s[:i]), trim(s[i+1:])
		return key, value, key != ""
	}
	i := strings.IndexAny(s, " \t")
	if i < 0 {
		return "", "", false
	}
	value = strings.TrimLeft(s[i:], " \t")
	if strings.ContainsAny(value, " \t") {
		return "", "", false
	}
	return s[:i], value, true
}

type key uint8

const (
	keyUnknown key = iota
	keyUserAgent
	keyAllow
	keyDisallow
	keySitemap
	keyCrawlDelay
)

// keyNames are the beginnings of keys that are understood, with the misspellings
// that occur often enough for Google's matcher to know them.
var keyNames = []struct {
	name string
	key  key
}{
	{"user-agent", keyUserAgent}, {"useragent", keyUserAgent}, {"user agent", keyUserAgent},
	{"allow", keyAllow},
	{"disallow", keyDisallow}, {"dissallow", keyDisallow}, {"dissalow", keyDisallow},
	{"disalow", keyDisallow}, {"diasllow", keyDisallow}, {"disallaw", keyDisallow},
	{"sitemap", keySitemap}, {"site-map", keySitemap},
	{"crawl-delay", keyCrawlDelay}, {"crawldelay", keyCrawlDelay}, {"crawl delay", keyCrawlDelay},
	{"crawl_delay", keyCrawlDelay}, {"craw-delay", keyCrawlDelay},
}

func keyOf(s string) key {
	for _, k := range keyNames {
		if len(s) >= len(k.name) && strings.EqualFold(s[:len(k.name)], k.name) {
			return k.key
		}
	}
	return keyUnknown
}

func (p *parser) userAgent(value string) {
	f := p.file
	if !p.open {
		f.groups = append(f.groups, group{})
		p.open = true
	}
	g := &f.groups[len(f.groups)-1]
	if value == "*" || (len(value) > 1 && value[0] == '*' && isSpace(value[1])) {
		g.star = true
		return
	}
	if t := leadingToken(value); t != "" {
		g.agents = append(g.agents, t)
	}
}

func (p *parser) rule(l line) {
	f := p.file
	if len(f.groups) == 0 {
		return // RFC 9309, section 2.2.2: rules before any group have no meaning
	}
	g := &f.groups[len(f.groups)-1]
	p.open = false
	g.rules = append(g.rules, l)
}

func (p *parser) crawlDelay(value string) {
	f := p.file
	if len(f.groups) == 0 {
		return
	}
	g := &f.groups[len(f.groups)-1]
	g.delays = append(g.delays, delay{value: value, agents: len(g.agents), star: g.star})
}

func (p *parser) sitemap(value string) {
	if value == "" || p.seen[value] {
		return
	}
	if p.seen == nil {
		p.seen = make(map[string]bool)
	}
	p.seen[value] = true
	p.file.sitemaps = append(p.file.sitemaps, value)
}

// bareSitemap tells whether a line is a sitemap's URL whose key was forgotten.
func bareSitemap(key, s string) bool {
	if !strings.EqualFold(key, "http") && !strings.EqualFold(key, "https") {
		return false
	}
	if strings.ContainsAny(s, " \t") || !strings.Contains(s, "://") {
		return false
	}
	s = strings.ToLower(s)
	return strings.Contains(s, "sitemap") || strings.HasSuffix(s, ".xml") || strings.HasSuffix(s, ".xml.gz")
}

// stripTags drops the HTML tags of line ends from the end of a value: some
// servers send their robots.txt as an HTML page, a <br> after each line. Other
// tags may be part of a pattern.
func stripTags(s string) string {
	for strings.HasSuffix(s, ">") {
		i := strings.LastIndexByte(s, '<')
		if i < 0 {
			return s
		}
		switch name := trim(strings.Trim(s[i+1:len(s)-1], "/ \t")); strings.ToLower(name) {
		case "br", "p", "pre", "div", "li", "span", "font", "body", "html":
			s = trim(s[:i])
		default:
			return s
		}
	}
	return s
}

// trim drops ASCII white space at both ends.
func trim(s string) string {
	for len(s) > 0 && isSpace(s[0]) {
		s = s[1:]
	}
	for len(s) > 0 && isSpace(s[len(s)-1]) {
		s = s[:len(s)-1]
	}
	return s
}

func isSpace(c byte) bool { return c == ' ' || c >= '\t' && c <= '\r' }

func isAlpha(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' }

func isDigit(c byte) bool { return c >= '0' && c <= '9' }
