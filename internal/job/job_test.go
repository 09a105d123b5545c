package job_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"pgregory.net/rapid"

	"lycosa.dev/internal/job"
	"lycosa.dev/internal/weburl"
	jobv1 "lycosa.dev/proto/gen/lycosa/job/v1"
)

const full = `
name: docs
seeds:
  - https://example.org/docs/
  - http://example.org:8080/
identity: {contact: crawl@example.org}
scope:
  kind: prefix
  exclude: ['/private/', "\\?sort="]
  seed_redirects: false
limits: {max_pages: 100, max_total_bytes: 10MiB, max_duration: 2h, max_depth: 0}
politeness:
  min_delay: 1.5s
  delay_factor: 0
  robots: ignore
fetch:
  allow_net: [127.0.0.0/8]
  resolve: ["*:127.0.0.1"]
pipeline:
  - handler: select
    when: status == 200
    otherwise: finish
  - {handler: links}
  - {handler: store, label: keep, with: {a: b}}
storage: {stores: [warc, files], warc_level: 6}
`

func TestParseYAML(t *testing.T) {
	got, err := job.ParseYAML("docs.yaml", []byte(full))
	if err != nil {
		t.Fatal(err)
	}
	want := &jobv1.Spec{
		Name:     "docs",
		Seeds:    []string{"https://example.org/docs/", "http://example.org:8080/"},
		Identity: &jobv1.Identity{Contact: "crawl@example.org"},
		Scope: &jobv1.Scope{
			Kind: jobv1.ScopeKind_SCOPE_KIND_PREFIX, Exclude: []string{"/private/", `\?sort=`}, SeedRedirects: proto.Bool(false),
		},
		Limits: &jobv1.Limits{
			MaxPages: 100, MaxTotalBytes: 10 << 20, MaxDuration: durationpb.New(2 * time.Hour), MaxDepth: proto.Uint32(0),
		},
		Politeness: &jobv1.Politeness{
			MinDelay: durationpb.New(1500 * time.Millisecond), DelayFactor: proto.Float64(0),
			Robots: jobv1.RobotsPolicy_ROBOTS_POLICY_IGNORE,
		},
		Fetch: &jobv1.Fetch{AllowNet: []string{"127.0.0.0/8"}, Resolve: []string{"*:127.0.0.1"}},
		Pipeline: []*jobv1.Handler{
			{Handler: "select", When: "status == 200", Otherwise: "finish"},
			{Handler: "links"},
			{Handler: "store", Label: "keep", With: map[string]string{"a": "b"}},
		},
		Storage: &jobv1.Storage{Stores: []string{"warc", "files"}, WarcLevel: 6},
	}
	if !proto.Equal(got, want) {
		t.Fatalf("got  %v\nwant %v", got, want)
	}
}

func TestParseYAMLErrors(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{"unknown key", "scope:\n  knid: host\n", `f.yaml:2:3: scope.knid: unknown key; did you mean "kind"?`},
		{"unknown top key", "limits: {}\nsaeds: []\n", `f.yaml:2:1: saeds: unknown key; did you mean "seeds"?`},
		{"enum", "scope: {kind: hots}\n", `f.yaml:1:15: scope.kind: must be one of page, prefix, host, domain, any, is "hots"`},
		{"duration", "politeness: {min_delay: soon}\n", `politeness.min_delay: must be a duration such as "1.5s" or "2m", is "soon"`},
		{"negative duration", "politeness: {min_delay: -1s}\n", `must be a duration`},
		{"size", "limits: {max_page_bytes: much}\n", `limits.max_page_bytes: must be a size such as "10MiB", is "much"`},
		{"number", "limits: {max_pages: many}\n", `limits.max_pages: must be a whole number, 0 or more, is "many"`},
		{"bool", "scope: {page_requisites: 1}\n", `scope.page_requisites: must be true or false, is "1"`},
		{"list", "seeds: http://example.org/\n", `f.yaml:1:8: seeds: must be a list ("- item" a line), is "http://example.org/"`},
		{"mapping", "scope: host\n", `f.yaml:1:8: scope: must be a mapping of fields, is "host"`},
		{"twice", "name: a\nname: b\n", "name"},
		{"not yaml", "a: [1\n", "not YAML"},
		{"two documents", "name: a\n---\nname: b\n", "one document"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := job.ParseYAML("f.yaml", []byte(c.in))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("got %v, want it to contain %q", err, c.want)
			}
		})
	}
}

func TestParseYAMLReportsAll(t *testing.T) {
	_, err := job.ParseYAML("f.yaml", []byte("nmae: x\nlimits: {max_pages: a}\n"))
	if err == nil || strings.Count(err.Error(), "f.yaml:") != 2 {
		t.Fatalf("got %v, want two errors", err)
	}
}

// Strings of all kinds survive being written and read.
func TestYAMLRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := &jobv1.Spec{
			Name:  rapid.String().Draw(t, "name"),
			Seeds: rapid.SliceOfN(rapid.String(), 0, 4).Draw(t, "seeds"),
			Scope: &jobv1.Scope{
				Kind:           jobv1.ScopeKind(rapid.IntRange(0, 5).Draw(t, "kind")),
				PageRequisites: rapid.Bool().Draw(t, "requisites"),
			},
			Limits: &jobv1.Limits{
				MaxPages: rapid.Uint64().Draw(t, "pages"), MaxPageBytes: rapid.Int64Range(0, 1<<50).Draw(t, "bytes"),
				MaxDuration: durationpb.New(time.Duration(rapid.Int64Range(0, 1<<60).Draw(t, "duration"))),
			},
			Pipeline: []*jobv1.Handler{{Handler: rapid.String().Draw(t, "handler")}},
		}
		text := job.MarshalYAML(s)
		back, err := job.ParseYAML("f.yaml", text)
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		if !proto.Equal(s, back) {
			t.Fatalf("%s\ngot  %v\nwant %v", text, back, s)
		}
	})
}

func FuzzParseYAML(f *testing.F) {
	f.Add([]byte(full))
	f.Add([]byte("seeds: [a]\nscope: {kind: any}"))
	f.Add([]byte("a: &x [*x]"))
	f.Fuzz(func(t *testing.T, data []byte) {
		spec, err := job.ParseYAML("f.yaml", data)
		if err != nil {
			return
		}
		back, err := job.ParseYAML("f.yaml", job.MarshalYAML(spec))
		if err != nil || !proto.Equal(spec, back) {
			t.Fatalf("%v: %v is read back as %v", err, spec, back)
		}
	})
}

func effective(t *testing.T, s *jobv1.Spec) *jobv1.Spec {
	t.Helper()
	return job.WithDefaults(s, "1.0")
}

func TestDefaults(t *testing.T) {
	s := effective(t, &jobv1.Spec{Seeds: []string{"https://www.example.org:8080/"}, Identity: &jobv1.Identity{Contact: "me@example.org"}})
	if err := job.Validate(s); err != nil {
		t.Fatal(err)
	}
	if s.GetName() != "www-example-org" {
		t.Errorf("name %q", s.GetName())
	}
	if s.GetIdentity().GetUserAgent() != "Lycosa/1.0 (+mailto:me@example.org)" || s.GetIdentity().GetRobotsAgent() != "Lycosa" {
		t.Errorf("identity %v", s.GetIdentity())
	}
	p := s.GetPoliteness()
	if p.GetDelayFactor() != 5 || p.GetMinDelay().AsDuration() != time.Second || p.GetMaxDelay().AsDuration() != 30*time.Second || p.GetPerHost() != 1 {
		t.Errorf("politeness %v", p)
	}
	if s.GetScope().GetKind() != jobv1.ScopeKind_SCOPE_KIND_HOST || !s.GetScope().GetSeedRedirects() || s.GetScope().GetPageRequisites() {
		t.Errorf("scope %v", s.GetScope())
	}
	again := job.WithDefaults(s, "2.0")
	if !proto.Equal(s, again) {
		t.Errorf("defaults are not idempotent: %v, then %v", s, again)
	}
}

func TestValidate(t *testing.T) {
	zero := durationpb.New(0)
	for _, c := range []struct {
		name string
		spec *jobv1.Spec
		want string // "" is valid
	}{
		{"no delay outside allow_net", &jobv1.Spec{Politeness: &jobv1.Politeness{MinDelay: zero}}, "politeness.min_delay"},
		{"no delay inside", &jobv1.Spec{Politeness: &jobv1.Politeness{MinDelay: zero}, Fetch: &jobv1.Fetch{AllowNet: []string{"10.0.0.0/8"}}}, ""},
		{"per host outside", &jobv1.Spec{Politeness: &jobv1.Politeness{PerHost: 2}}, "politeness.per_host"},
		{"max below min", &jobv1.Spec{Politeness: &jobv1.Politeness{MinDelay: durationpb.New(time.Minute), MaxDelay: durationpb.New(time.Second)}}, "politeness.max_delay"},
		{"min above the default max", &jobv1.Spec{Politeness: &jobv1.Politeness{MinDelay: durationpb.New(time.Minute)}}, ""},
		{"seed scheme", &jobv1.Spec{Seeds: []string{"ftp://example.org/"}}, "seeds[0]"},
		{"empty seed", &jobv1.Spec{Seeds: []string{" "}}, "seeds[0]"},
		{"bad include", &jobv1.Spec{Scope: &jobv1.Scope{Include: []string{"("}}}, "scope.include[0]"},
		{"bad net", &jobv1.Spec{Fetch: &jobv1.Fetch{AllowNet: []string{"10.0.0.0/40"}}}, "fetch.allow_net[0]"},
		{"bad resolve", &jobv1.Spec{Fetch: &jobv1.Fetch{Resolve: []string{"host"}}}, "fetch.resolve[0]"},
		{"resolve as curl's", &jobv1.Spec{Fetch: &jobv1.Fetch{Resolve: []string{"h:443:127.0.0.1", "h:[::1]", "h:::1"}}}, ""},
		{"header", &jobv1.Spec{Fetch: &jobv1.Fetch{Headers: []string{"X: a\r\nY: b"}}}, "fetch.headers[0]"},
		{"handler", &jobv1.Spec{Pipeline: []*jobv1.Handler{{Handler: "lniks"}}}, `did you mean "links"`},
		{"store", &jobv1.Spec{Storage: &jobv1.Storage{Stores: []string{"wrac"}}}, `did you mean "warc"`},
		{"store and none", &jobv1.Spec{Storage: &jobv1.Storage{Stores: []string{"warc"}, None: true}}, "storage.none"},
		{"name", &jobv1.Spec{Name: "../x"}, "name:"},
		{"user agent", &jobv1.Spec{Identity: &jobv1.Identity{UserAgent: "a\nb"}}, "identity.user_agent"},
		{"delay factor that is no number", &jobv1.Spec{Politeness: &jobv1.Politeness{DelayFactor: proto.Float64(math.NaN())}}, "politeness.delay_factor"},
		{"contact", &jobv1.Spec{Identity: &jobv1.Identity{Contact: "me"}}, "identity.contact"},
		{"contact of two lines", &jobv1.Spec{Identity: &jobv1.Identity{Contact: "a@b.test\nX: y", UserAgent: "Bot"}}, "identity.contact"},
		{"mail", &jobv1.Spec{Identity: &jobv1.Identity{Contact: "mailto:me@example.org"}}, ""},
		{"contact page", &jobv1.Spec{Identity: &jobv1.Identity{Contact: "https://example.org/bot?a@b"}}, ""},
		{"no token", &jobv1.Spec{Identity: &jobv1.Identity{UserAgent: "123"}}, "identity.robots_agent"},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := job.Validate(effective(t, c.spec))
			if c.want == "" {
				if err != nil {
					t.Fatal(err)
				}
			} else if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("got %v, want it to contain %q", err, c.want)
			}
		})
	}
}

func TestConflicts(t *testing.T) {
	a := effective(t, &jobv1.Spec{Seeds: []string{"http://a/"}})
	b := effective(t, &jobv1.Spec{Seeds: []string{"http://b/"}, Limits: &jobv1.Limits{MaxPages: 3}, Politeness: &jobv1.Politeness{MinDelay: durationpb.New(2 * time.Second)}})
	if err := job.Conflicts(a, b); err != nil {
		t.Errorf("limits, seeds and delays may change: %v", err)
	}
	c := effective(t, &jobv1.Spec{Scope: &jobv1.Scope{Kind: jobv1.ScopeKind_SCOPE_KIND_ANY}, Identity: &jobv1.Identity{UserAgent: "Other/1"}})
	err := job.Conflicts(a, c)
	if err == nil || !strings.Contains(err.Error(), "scope.kind: the crawl was begun with host, this asks for any") || !strings.Contains(err.Error(), "identity.user_agent") {
		t.Errorf("got %v", err)
	}
}

func TestScope(t *testing.T) {
	type q struct {
		url           string
		embed, parent bool
		in            bool
		rule          string
	}
	for _, c := range []struct {
		name  string
		scope *jobv1.Scope
		roots []string
		ask   []q
	}{
		{"host", &jobv1.Scope{}, []string{"https://example.org/docs/"}, []q{
			{"http://example.org/", false, true, true, "scope host"},
			{"https://example.org:8443/", false, true, false, "outside scope host"},
			{"https://www.example.org/", false, true, false, "outside scope host"},
			{"https://cdn.example.net/x.css", true, true, false, "outside scope host"},
		}},
		{"prefix", &jobv1.Scope{Kind: jobv1.ScopeKind_SCOPE_KIND_PREFIX}, []string{"https://example.org/docs/index.html?a=/b"}, []q{
			{"http://example.org/docs/x", false, true, true, "scope prefix"},
			{"http://example.org/docs/x/y", false, true, true, "scope prefix"},
			{"http://example.org/docsx", false, true, false, "outside scope prefix"},
		}},
		{"page", &jobv1.Scope{Kind: jobv1.ScopeKind_SCOPE_KIND_PAGE, PageRequisites: true}, []string{"https://example.org/a?b"}, []q{
			{"http://example.org/a?b", false, true, true, "scope page"},
			{"http://example.org/a", false, true, false, "outside scope page"},
			{"http://example.org/a.png", true, true, true, "page requisite"},
			{"http://example.org/b.png", true, false, false, "outside scope page"},
		}},
		{"domain", &jobv1.Scope{Kind: jobv1.ScopeKind_SCOPE_KIND_DOMAIN}, []string{"https://www.example.co.uk/"}, []q{
			{"http://example.co.uk/", false, true, true, "scope domain"},
			{"http://a.b.example.co.uk:81/", false, true, true, "scope domain"},
			{"http://other.co.uk/", false, true, false, "outside scope domain"},
		}},
		{"include and exclude", &jobv1.Scope{Kind: jobv1.ScopeKind_SCOPE_KIND_ANY, Include: []string{`\.html$`}, Exclude: []string{"/private/"}}, nil, []q{
			{"http://a.org/x.html", false, true, true, `include \.html$`},
			{"http://a.org/x.txt", false, true, false, "no include matches"},
			{"http://a.org/private/x.html", false, true, false, "exclude /private/"},
			{"http://a.org/" + strings.Repeat("x", 9000) + ".html", false, true, false, "max_url_length 8192"},
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, err := job.NewScope(effective(t, &jobv1.Spec{Scope: c.scope}), c.roots)
			if err != nil {
				t.Fatal(err)
			}
			for _, q := range c.ask {
				u, err := weburl.ParseCanonical(q.url)
				if err != nil {
					t.Fatal(err)
				}
				if v := s.Judge(u, q.embed, q.parent); v.In != q.in || v.Rule != q.rule {
					t.Errorf("%.80s: got %v, want %v %q", q.url, v, q.in, q.rule)
				}
			}
		})
	}
}

func TestHops(t *testing.T) {
	if d := job.DepthAdded(job.HopLink) + job.DepthAdded(job.HopSitemap) + job.DepthAdded(job.HopFeed); d != 3 {
		t.Errorf("L, M and F add %d", d)
	}
	if d := job.DepthAdded(job.HopRedirect) + job.DepthAdded(job.HopEmbed) + job.DepthAdded(job.HopSeedRedirect) + job.DepthAdded(job.HopPrerequisite); d != 0 {
		t.Errorf("R, E, S and P add %d", d)
	}
	path := ""
	for range 60 {
		path = job.AppendHop(path, job.HopLink)
	}
	if path = job.AppendHop(path, job.HopEmbed); len(path) != job.MaxHopPath || !strings.HasSuffix(path, "LE") {
		t.Errorf("hop path %q", path)
	}
}

func TestParseSeed(t *testing.T) {
	for in, want := range map[string]string{
		"example.org":              "https://example.org/",
		" http://EXAMPLE.org:80 ":  "http://example.org/",
		"example.org:8080/a":       "https://example.org:8080/a",
		"https://example.org/a#b":  "https://example.org/a",
		"http://[::1]:8080/x?y":    "http://[::1]:8080/x?y",
		"mailto:me@example.org":    "",
		"javascript:alert(1)":      "",
		"/etc/passwd":              "",
		"file:///etc/passwd":       "",
		"":                         "",
		"https://":                 "",
		"http://exa mple.org/":     "",
		"http://example.org:99999": "",
	} {
		u, err := job.ParseSeed(in)
		if (err != nil) != (want == "") || err == nil && u.String() != want {
			t.Errorf("%q: got %q, %v, want %q", in, u, err, want)
		}
	}
}
