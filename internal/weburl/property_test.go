package weburl

import (
	"strings"
	"testing"

	"lycosa.dev/internal/casefiles"
	"pgregory.net/rapid"
)

// pieces are what odd URLs are made of.
var pieces = []string{
	"http", "https", "HTTP", "file", "ftp", "ws", "wss", "foo", "data", "mailto", "javascript", ":", ":", "//", "/", "/", "/", "\\", "?", "#",
	"@", "a", "b", "index.html", "example.org", "EXAMPLE.com", "www.", "www12.", "host", ".", "..", "./", "../", "...", "%2e", "%2E", "%2f", "%5c",
	"%41", "%7e", "%7E", "%", "%%", "%4", "%zz", "%25", "%E4", "%c3%a9", "%00", "%0a", ":80", ":443", ":0", ":08080", ":65535", ":65536", ":x",
	"[::1]", "[1:2:0:0:5::]", "[::127.0.0.1]", "[", "]", "1.2.3.4", "0x7f.1", "017", "256", "1e3", "xn--", "xn--nxasmq6b", "é", "ß", "ẞ", "日本", "İ",
	"\u00ad", "\u200d", "\u3002", "\uff0e", "\ufffd", "א", "\xff", "\xe4", " ", "\t", "\n", "\r", "\x00", "\x1f", "\x7f", "\"", "'", "<", ">", "`", "{", "}", "|",
	"^", "~", "!", "$", "&", "(", ")", "*", "+", ",", ";", "=", "-", "_", "c:", "C|", "/c:/", "localhost", "user:pass@", "a=1", "&b=2", "&", "=",
	"utm_source=x", "&sid=0123456789abcdef0123", "jsessionid=1", ";jsessionid=ab", "(S(4hqa0555fwsecu455xqckv45))", "q",
}

func genText() *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		var b strings.Builder
		switch rapid.IntRange(0, 4).Draw(t, "start") {
		case 0:
			b.WriteString("http://")
		case 1:
			b.WriteString("https://example.org/")
		case 2:
			b.WriteString("/")
		}
		for _, p := range rapid.SliceOfN(rapid.SampledFrom(pieces), 0, 9).Draw(t, "pieces") {
			b.WriteString(p)
		}
		if rapid.IntRange(0, 9).Draw(t, "tail") == 0 {
			b.WriteString(rapid.String().Draw(t, "any"))
		}
		return b.String()
	})
}

var bases = []string{
	"http://example.org/foo/bar", "https://example.org/", "https://user:pass@example.org:21/a//b/c.html?q=1#f", "http://h/a/%7Eb/%2fc/d?x={}",
	"http://[::1]:8080/x/", "file:///C:/a/b", "file://host/a", "foo://h/a/b?q", "foo:/.//a", "mailto:x@y?z", "data:a b  #x", "http://1.2.3.4",
}

func TestAnyInput(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := genText().Draw(t, "in")
		checkInput(t, in, rapid.SampledFrom(bases).Draw(t, "base"))
	})
}

func checkInput(t interface{ Errorf(string, ...any) }, in, base string) {
	checkTwoWays(t, in, nil)
	if _, err := Parse(base); err == nil {
		checkTwoWays(t, in, &base)
	}
	if u, err := Parse(in); err == nil {
		checkParts(t, u)
	}
	if b, err := Parse(base); err == nil {
		if u, err := b.Resolve(in); err == nil {
			checkParts(t, u)
		}
	}
}

// TestCanonicalKeepsResource checks that the canonical form is the same under
// respelling that RFC 3986 calls equivalent.
func TestCanonicalKeepsResource(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		plain := rapid.StringMatching(`http://[a-z]{1,8}(\.[a-z]{2,5}){1,2}(/[a-zA-Z0-9_~.-]{1,5}){0,4}/?(\?[a-zA-Z0-9._~-]{0,5}(=[a-z]{0,3})?)?`).Draw(t, "url")
		want, err := ParseCanonical(plain)
		if err != nil {
			return // a name that ends in a number
		}
		var b strings.Builder
		for i := range len(plain) {
			c := plain[i]
			inPath := i >= len("http://")+strings.IndexAny(plain[7:]+"/", "/?")
			switch {
			case inPath && isUnreserved(c) && rapid.IntRange(0, 3).Draw(t, "escape") == 0:
				e := string(appendEscape(nil, c))
				if rapid.Bool().Draw(t, "lower") {
					e = strings.ToLower(e)
				}
				b.WriteString(e)
			case !inPath && rapid.Bool().Draw(t, "upper"):
				b.WriteString(strings.ToUpper(string(c)))
			default:
				b.WriteByte(c)
			}
			if rapid.IntRange(0, 20).Draw(t, "tab") == 0 {
				b.WriteString("\n")
			}
		}
		got, err := ParseCanonical(b.String())
		if err != nil || got != want {
			t.Fatalf("%q is %q, but %q is %q, %v", plain, want, b.String(), got, err)
		}
	})
}

func genRules() *rapid.Generator[Rules] {
	return rapid.Custom(func(t *rapid.T) Rules {
		flag := func(name string) bool { return rapid.Bool().Draw(t, name) }
		return Rules{
			StripSessionIDs: flag("session"), DropTracking: flag("tracking"), SortQuery: flag("sort"), StripEmptyQuery: flag("empty"),
			StripQuery: rapid.IntRange(0, 7).Draw(t, "query") == 0, StripWWW: flag("www"), TrimHostDots: flag("dots"),
			StripTrailingSlash: flag("slash"), CollapseSlashes: flag("collapse"), StripIndex: flag("index"), Lowercase: flag("lower"),
		}
	})
}

func TestRulesAreIdempotent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in, rules := genText().Draw(t, "in"), genRules().Draw(t, "rules")
		checkRules(t, in, rules)
	})
}

func checkRules(t interface{ Errorf(string, ...any) }, in string, rules Rules) {
	u, err := Parse(in)
	if err != nil {
		return
	}
	c := NewCanonicalizer(rules)
	once := c.Canonical(u)
	if twice := c.Canonical(once); twice != once {
		t.Errorf("%q under %+v: %q, then %q", in, rules, once, twice)
	}
	checkParts(t, once)
	if got, ok := NewResolver(URL{}, c).ResolveString(in); ok && got != once {
		t.Errorf("%q under %+v: resolver says %q, canonicalizer %q", in, rules, got, once)
	}
}

// TestEveryCaseIsIdempotent runs every recorded input, of whatever dialect.
func TestEveryCaseIsIdempotent(t *testing.T) {
	all := []Rules{{}, ArchiveRules(), {DropTracking: true, StripIndex: true, StripQuery: true}}
	for _, file := range []string{"url/canon_dialects.jsonl", "url/canon_whatwg.jsonl", "url/wpt_urls.jsonl"} {
		for _, c := range casefiles.Lines[urlCase](t, file) {
			for _, in := range []string{c.In, "http://example.org" + c.In, "foo:" + c.In, "http://" + c.In} {
				for _, base := range bases {
					checkInput(t, in, base)
				}
				for _, r := range all {
					checkRules(t, in, r)
				}
			}
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, p := range pieces {
		f.Add("http://example.org/a/"+p+"/b?"+p, bases[0])
		f.Add("http://"+p+"/", bases[2])
		f.Add(p, bases[3])
	}
	f.Fuzz(func(t *testing.T, in, base string) { checkInput(t, in, base) })
}

func FuzzRules(f *testing.F) {
	for _, p := range pieces {
		f.Add("http://www.example.org/a/"+p+"//index.html;"+p+"?"+p+"&a=1", uint16(0xffff))
	}
	f.Fuzz(func(t *testing.T, in string, bits uint16) {
		bit := func(n int) bool { return bits>>n&1 != 0 }
		checkRules(t, in, Rules{
			StripSessionIDs: bit(0), DropTracking: bit(1), SortQuery: bit(2), StripEmptyQuery: bit(3), StripQuery: bit(4), StripWWW: bit(5),
			TrimHostDots: bit(6), StripTrailingSlash: bit(7), CollapseSlashes: bit(8), StripIndex: bit(9), Lowercase: bit(10),
		})
	})
}
