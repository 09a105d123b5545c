package weburl

import (
	"strings"
	"testing"

	"lycosa.dev/internal/casefiles"
)

// dialectRules says which of the recorded dialects our rules are comparable to.
var dialectRules = map[string]Rules{
	"basic":                                          {CollapseSlashes: true, SortQuery: true, StripEmptyQuery: true},
	"nutch-basic":                                    {CollapseSlashes: true},
	"nutch-basic+idn=toAscii+IDNA2003":               {},
	"sort-query":                                     {SortQuery: true},
	"heritrix:StripSessionIDs":                       {StripSessionIDs: true},
	"heritrix:StripSessionCFIDs":                     {StripSessionIDs: true},
	"heritrix:FixupQueryString":                      {StripEmptyQuery: true},
	"heritrix:StripUserinfoRule":                     {},
	"heritrix:StripWWWRule":                          {StripWWW: true},
	"heritrix:StripWWWNRule":                         {StripWWW: true},
	"heritrix:default-policy":                        {StripWWW: true, StripSessionIDs: true, StripEmptyQuery: true},
	"OrdinaryIAURLCanonicalizer":                     {StripEmptyQuery: true},
	"IAURLCanonicalizer":                             ArchiveRules(),
	"DefaultIAURLCanonicalizer":                      ArchiveRules(),
	"AggressiveIAURLCanonicalizer":                   ArchiveRules(),
	"surt.json:Canonicalizer.DefaultIA":              ArchiveRules(),
	"surt.json:Canonicalizer.IA":                     ArchiveRules(),
	"google-safebrowsing-canonicalization":           {CollapseSlashes: true, TrimHostDots: true},
	"purell:FlagLowercaseScheme":                     {},
	"purell:FlagUppercaseEscapes":                    {},
	"purell:FlagRemoveDefaultPort":                   {},
	"purell:FlagRemoveTrailingSlash":                 {StripTrailingSlash: true},
	"purell:FlagRemoveDuplicateSlashes":              {CollapseSlashes: true},
	"purell:FlagRemoveWWW":                           {StripWWW: true},
	"purell:FlagSortQuery":                           {SortQuery: true},
	"purell:FlagRemoveDirectoryIndex":                {StripIndex: true},
	"purell:FlagsSafe":                               {},
	"purell:FlagsSafe|FlagRemoveDotSegments":         {StripEmptyQuery: true},
	"purell:FlagsUnsafeGreedy":                       {StripTrailingSlash: true, CollapseSlashes: true, StripWWW: true, SortQuery: true, StripIndex: true},
	"purell:FlagLowercaseHost|FlagLowercaseScheme":   {},
	"purell:FlagsSafe|FlagRemoveUnnecessaryHostDots": {TrimHostDots: true},
	"purell:FlagsSafe|FlagRemoveEmptyPortSeparator":  {},
	"purell:FlagsSafe|FlagRemoveDotSegments|FlagRemoveDuplicateSlashes": {CollapseSlashes: true},
	"basic+remove-session-params(sid,phpsessid,sessionid,jsessionid)":   {StripSessionIDs: true, SortQuery: true},
	"nutch-basic+idn=toUnicode+IDNA2003+trim-host-dot":                  {TrimHostDots: true},
	"urlcanon-aggressive": {
		StripWWW: true, StripSessionIDs: true, StripEmptyQuery: true, CollapseSlashes: true, TrimHostDots: true,
	},
}

// differing are lines of these dialects where ours is another answer on purpose.
var differing = map[string]string{
	"http://example.org/\u2028":       "the dialect drops a line separator, the standard escapes it",
	"http://foo.com/index?b=&a=1":     "b= and b are different parameters",
	"http://foo.com/index?=1&b=1&a=1": "a parameter without a name is one",
	"http://host/%25%32%35":           "decoding again and again changes the resource",
	"http://host/%2525252525252525":   "decoding again and again changes the resource",
	"https://....../path/file.txt":    "no host would be left",
	"http://USER:pass@0x42660793../":  "not an address: two trailing dots",
	"  https://www.google.com/  ":     "https is another service than http",
	"https://www12.foo.com/":          "https is another service than http",
	"HTTPS://www.RooT.com/toto/t%45%1f///a/./b/../c/?z=3&w=2&a=4&w=1#invalid|purell:FlagsUnsafeGreedy": "https is another service than http",
}

func TestDialects(t *testing.T) {
	ran := map[string]int{}
	for _, file := range []string{"url/canon_dialects.jsonl", "url/canon_whatwg.jsonl"} {
		for _, c := range casefiles.Lines[urlCase](t, file) {
			rules, ok := dialectRules[c.Rule]
			u, err := Parse(c.In)
			if !ok || err != nil || !u.IsHTTP() {
				continue
			}
			if differing[c.In] != "" || differing[c.In+"|"+c.Rule] != "" {
				continue
			}
			// Dialects differ in what they do besides the rule (letter case of the
			// host, a missing path, the fragment): the canonical form levels that.
			want, err := ParseCanonical(*c.Expected)
			if err != nil {
				t.Errorf("%s: expected %q: %v", c.Rule, *c.Expected, err)
				continue
			}
			wants := want.String()
			if strings.HasPrefix(c.Rule, "heritrix:StripSessionIDs") {
				wants = strings.TrimSuffix(wants, "?") // ours takes the "?" along
			}
			ran[c.Rule]++
			if got := NewCanonicalizer(rules).Canonical(u); got.String() != wants {
				t.Errorf("%s: %q: got %q, want %q", c.Rule, c.In, got, *c.Expected)
			}
		}
	}
	t.Logf("compared: %v", ran)
	if NewCanonicalizer(ArchiveRules()).Rules() != ArchiveRules() || (*Canonicalizer)(nil).Rules() != (Rules{}) {
		t.Error("a canonicalizer does not give back its rules")
	}
	if len(ran) < 20 {
		t.Errorf("only %d dialects were compared: %v", len(ran), ran)
	}
}

func TestRules(t *testing.T) {
	tests := []struct {
		name, in, want string
		rules          Rules
	}{
		{"none", "http://www.a.com//x/?b=1&a=2&utm_source=q&sid=0123456789abcdef#f", "http://www.a.com//x/?b=1&a=2&utm_source=q&sid=0123456789abcdef", Rules{}},
		{"session path", "http://a.com/x;jsessionid=AB.1/y;v=1?q", "http://a.com/x/y;v=1?q", Rules{StripSessionIDs: true}},
		{"session path at the end", "http://a.com/x.jsp;JSESSIONID=AB", "http://a.com/x.jsp", Rules{StripSessionIDs: true}},
		{"session path leaves no dot segment", "http://a.com/x/..;jsessionid=AB", "http://a.com/", Rules{StripSessionIDs: true}},
		{"asp.net", "http://a.com/app/(S(4hqa0555fwsecu455xqckv45))/p.aspx", "http://a.com/app/p.aspx", Rules{StripSessionIDs: true}},
		{"asp.net old", "http://a.com/(4hqa0555fwsecu455xqckv45)/p.aspx", "http://a.com/p.aspx", Rules{StripSessionIDs: true}},
		{"asp.net three", "http://a.com/(A(4hqa0555fwsecu455xqckv45)S(4hqa0555fwsecu455xqckv45)F(4hqa0555fwsecu455xqckv45))/p", "http://a.com/p", Rules{StripSessionIDs: true}},
		{"parentheses that are none", "http://a.com/(draft)/p", "http://a.com/(draft)/p", Rules{StripSessionIDs: true}},
		{"sid that is a section", "http://a.com/?sid=12", "http://a.com/?sid=12", Rules{StripSessionIDs: true}},
		{"sid that is drawn", "http://a.com/?sid=9682993c8daa2c5497996114facdc805&x=y", "http://a.com/?x=y", Rules{StripSessionIDs: true}},
		{"nothing left", "http://a.com/?PHPSESSID=1", "http://a.com/", Rules{StripSessionIDs: true}},
		{"tracking", "http://a.com/?utm_source=x&id=1&fbclid=2&gclid=3", "http://a.com/?id=1", Rules{DropTracking: true}},
		{"names alike", "http://a.com/?utmost=x&gclidx=2", "http://a.com/?utmost=x&gclidx=2", Rules{DropTracking: true}},
		{"sort", "http://a.com/?b=2&a&b=1&&a=", "http://a.com/?a&a=&b=1&b=2", Rules{SortQuery: true}},
		{"sort by name first", "http://a.com/?a-b=1&a=2", "http://a.com/?a=2&a-b=1", Rules{SortQuery: true}},
		{"empty query", "http://a.com/?&", "http://a.com/", Rules{StripEmptyQuery: true}},
		{"query", "http://a.com/x?y=1", "http://a.com/x", Rules{StripQuery: true}},
		{"www", "https://www.example.org:8443/", "https://example.org:8443/", Rules{StripWWW: true}},
		{"www twice", "https://www.www2.example.org/", "https://example.org/", Rules{StripWWW: true}},
		{"www alone", "http://www.com/", "http://www.com/", Rules{StripWWW: true}},
		{"www of a suffix", "http://www.co.uk/", "http://www.co.uk/", Rules{StripWWW: true}},
		{"www no label", "http://wwwexample.org/", "http://wwwexample.org/", Rules{StripWWW: true}},
		{"dots", "http://..a..b.com../", "http://a.b.com/", Rules{TrimHostDots: true}},
		{"dots that make a number", "http://a.1../", "http://a.1../", Rules{TrimHostDots: true}},
		{"trailing slash", "http://a.com/x//?q", "http://a.com/x?q", Rules{StripTrailingSlash: true}},
		{"root", "http://a.com//", "http://a.com/", Rules{StripTrailingSlash: true}},
		{"slashes", "http://a.com//x///y?z=//", "http://a.com/x/y?z=//", Rules{CollapseSlashes: true}},
		{"index", "http://a.com/x/INDEX.html?q", "http://a.com/x/?q", Rules{StripIndex: true}},
		{"index then slash", "http://a.com/index.php/index.html", "http://a.com/", Rules{StripIndex: true, StripTrailingSlash: true}},
		{"lower", "http://a.com/X%C3%A4?Y=%E4", "http://a.com/x%C3%A4?y=%E4", Rules{Lowercase: true}},
		{"other schemes", "ftp://www.a.com//x/?b&a", "ftp://www.a.com//x/?b&a", ArchiveRules()},
	}
	for _, tt := range tests {
		u, err := Parse(tt.in)
		if err != nil {
			t.Fatal(err)
		}
		if got := NewCanonicalizer(tt.rules).Canonical(u); got.String() != tt.want {
			t.Errorf("%s: %q: got %q, want %q", tt.name, tt.in, got, tt.want)
		}
	}
}
