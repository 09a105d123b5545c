package cli

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	jobv1 "lycosa.dev/proto/gen/lycosa/job/v1"
)

// parseCrawl reads the flags of a crawl.
func parseCrawl(t *testing.T, args ...string) *crawlFlags {
	t.Helper()
	var g grammar
	a := System()
	p, err := a.newParser(&g, func(int) { t.Fatal("the parser wanted to exit") })
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Parse(positionalsLast(p.Model.Node, append([]string{"crawl"}, args...))); err != nil {
		t.Fatal(err)
	}
	return &g.Crawl.crawlFlags
}

func TestFlagsToSpec(t *testing.T) {
	second := durationpb.New(time.Second)
	for _, tc := range []struct {
		flags string
		base  *jobv1.Spec
		want  *jobv1.Spec
	}{
		{"", &jobv1.Spec{}, &jobv1.Spec{}},
		{"--scope domain", nil, &jobv1.Spec{Scope: &jobv1.Scope{Kind: jobv1.ScopeKind_SCOPE_KIND_DOMAIN}}},
		{"--scope page", &jobv1.Spec{Scope: &jobv1.Scope{Kind: jobv1.ScopeKind_SCOPE_KIND_ANY, PageRequisites: true}},
			&jobv1.Spec{Scope: &jobv1.Scope{Kind: jobv1.ScopeKind_SCOPE_KIND_PAGE, PageRequisites: true}}},
		{"--max-pages 10 --max-depth 0", nil, &jobv1.Spec{Limits: &jobv1.Limits{MaxPages: 10, MaxDepth: proto.Uint32(0)}}},
		{"--max-pages 0", &jobv1.Spec{Limits: &jobv1.Limits{MaxPages: 10}}, &jobv1.Spec{Limits: &jobv1.Limits{}}},
		{"--max-depth none", &jobv1.Spec{Limits: &jobv1.Limits{MaxDepth: proto.Uint32(3)}}, &jobv1.Spec{Limits: &jobv1.Limits{}}},
		{"--max-duration 1s --max-bytes 10MiB --concurrency 7", nil,
			&jobv1.Spec{Limits: &jobv1.Limits{MaxDuration: second, MaxTotalBytes: 10 << 20, Concurrency: 7}}},
		{"--min-delay 1s --max-delay 1s --delay-factor 0 --address-delay 0 --per-host 4", nil,
			&jobv1.Spec{Politeness: &jobv1.Politeness{MinDelay: second, MaxDelay: second, DelayFactor: proto.Float64(0), AddressDelay: durationpb.New(0), PerHost: 4}}},
		{"--min-delay 40s", &jobv1.Spec{Politeness: &jobv1.Politeness{MaxDelay: durationpb.New(30 * time.Second)}},
			&jobv1.Spec{Politeness: &jobv1.Politeness{MinDelay: durationpb.New(40 * time.Second), MaxDelay: durationpb.New(40 * time.Second)}}},
		{"--allow-net 10.0.0.0/8 --allow-net ::1 --resolve a:1.2.3.4 --resolve *:::1", &jobv1.Spec{Fetch: &jobv1.Fetch{AllowNet: []string{"127.0.0.1"}}},
			&jobv1.Spec{Fetch: &jobv1.Fetch{AllowNet: []string{"10.0.0.0/8", "::1"}, Resolve: []string{"a:1.2.3.4", "*:::1"}}}},
		{"--user-agent Bot/1 --contact me@x.org", nil, &jobv1.Spec{Identity: &jobv1.Identity{UserAgent: "Bot/1", Contact: "me@x.org"}}},
		{"--contact new@x.org", &jobv1.Spec{Identity: &jobv1.Identity{UserAgent: "Lycosa/1 (+mailto:old@x.org)", Contact: "old@x.org"}},
			&jobv1.Spec{Identity: &jobv1.Identity{Contact: "new@x.org"}}},
		{"--contact old@x.org", &jobv1.Spec{Identity: &jobv1.Identity{UserAgent: "Lycosa/1 (+mailto:old@x.org)", Contact: "old@x.org"}},
			&jobv1.Spec{Identity: &jobv1.Identity{UserAgent: "Lycosa/1 (+mailto:old@x.org)", Contact: "old@x.org"}}},
		{"--robots ignore", nil, &jobv1.Spec{Politeness: &jobv1.Politeness{Robots: jobv1.RobotsPolicy_ROBOTS_POLICY_IGNORE}}},
		{"--include a,b --exclude c{1,2} --exclude d", nil, &jobv1.Spec{Scope: &jobv1.Scope{Include: []string{"a,b"}, Exclude: []string{"c{1,2}", "d"}}}},
		{"--store files,warc", &jobv1.Spec{Storage: &jobv1.Storage{None: true, WarcLevel: 3}},
			&jobv1.Spec{Storage: &jobv1.Storage{Stores: []string{"files", "warc"}, WarcLevel: 3}}},
		{"--store none", &jobv1.Spec{Storage: &jobv1.Storage{Stores: []string{"warc"}}}, &jobv1.Spec{Storage: &jobv1.Storage{None: true}}},
		{"http://a.test/ b.test http://a.test", &jobv1.Spec{Seeds: []string{"http://c.test/"}},
			&jobv1.Spec{Seeds: []string{"http://c.test/", "http://a.test/", "https://b.test/"}}},
	} {
		t.Run(tc.flags, func(t *testing.T) {
			c := parseCrawl(t, strings.Fields(tc.flags)...)
			seeds, err := c.readSeeds(strings.NewReader(""))
			if err != nil {
				t.Fatal(err)
			}
			got := &jobv1.Spec{}
			if tc.base != nil {
				got = proto.CloneOf(tc.base)
			}
			if err := c.apply(got, seeds); err != nil {
				t.Fatal(err)
			}
			if got, want := prune(got), prune(tc.want); !proto.Equal(got, want) {
				t.Errorf("spec\n%v\nwant\n%v", got, want)
			}
		})
	}
}

// prune drops sections that say nothing.
func prune(s *jobv1.Spec) *jobv1.Spec {
	s = proto.CloneOf(s)
	for _, empty := range []struct {
		m    proto.Message
		drop func()
	}{
		{s.GetScope(), func() { s.Scope = nil }}, {s.GetLimits(), func() { s.Limits = nil }},
		{s.GetPoliteness(), func() { s.Politeness = nil }}, {s.GetIdentity(), func() { s.Identity = nil }},
		{s.GetFetch(), func() { s.Fetch = nil }}, {s.GetStorage(), func() { s.Storage = nil }},
	} {
		if proto.Size(empty.m) == 0 {
			empty.drop()
		}
	}
	return s
}

func TestBadFlags(t *testing.T) {
	for flags, say := range map[string]string{
		"--scope hots":         `--scope: must be one of page, prefix, host, domain, any, is "hots"; did you mean "host"?`,
		"--robots obye":        `did you mean "obey"?`,
		"--store disk":         `--store: must be one of warc, files, none`,
		"--store none,warc":    "none beside warc",
		"--max-depth -1":       "--max-depth: must be a number or none",
		"--per-host 0":         "--per-host: must be at least 1",
		"--concurrency 0":      "--concurrency: must be at least 1",
		"--max-delay=-1s":      "--max-delay: must not be negative",
		"--scope x --robots y": `--robots: must be one of`,
	} {
		c := parseCrawl(t, strings.Fields(strings.Replace(flags, "--max-depth -1", "--max-depth=-1", 1))...)
		err := c.apply(&jobv1.Spec{}, nil)
		if err == nil || !strings.Contains(err.Error(), say) {
			t.Errorf("%s: %v, want %q", flags, err, say)
		}
	}
}

func TestSeedFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "seeds")
	text := "\ufeff# a list\n\nhttp://a.test/x\r\n  b.test \nhttp://a.test/x\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c := &crawlFlags{Seeds: []string{file, "-"}}
	seeds, err := c.readSeeds(strings.NewReader("http://c.test/\n"))
	if want := []string{"http://a.test/x", "https://b.test/", "http://c.test/"}; err != nil || !slices.Equal(seeds, want) {
		t.Errorf("%q, %v; want %q", seeds, err, want)
	}
	c = &crawlFlags{Seeds: []string{"-"}}
	_, err = c.readSeeds(strings.NewReader("http://a.test/\nftp://b.test/\n/relative\n"))
	for _, say := range []string{"standard input:2: ", "ftp", "standard input:3: "} {
		if err == nil || !strings.Contains(err.Error(), say) {
			t.Errorf("%v does not say %q", err, say)
		}
	}
}

func TestJobFilePlaces(t *testing.T) {
	file := filepath.Join(t.TempDir(), "job.yaml")
	text := "seeds:\n  - https://a.test/\n  - ftp://b.test/\npoliteness:\n  min_delay: 0s\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := readJob(file)
	if err != nil {
		t.Fatal(err)
	}
	_, err = effective(f.spec)
	err = f.place(err)
	for _, say := range []string{file + ":3:5: seeds[1]: ", file + ":5:14: politeness.min_delay: "} {
		if err == nil || !strings.Contains(err.Error(), say) {
			t.Errorf("%v\nlacks %q", err, say)
		}
	}
}

func TestPositionalsLast(t *testing.T) {
	var g grammar
	p, err := System().newParser(&g, func(int) {})
	if err != nil {
		t.Fatal(err)
	}
	for args, want := range map[string]string{
		"crawl a --dir d b --json c":       "crawl --dir d --json a b c",
		"crawl --dir=d a b":                "crawl --dir=d a b",
		"crawl a -- --b":                   "crawl -- a --b",
		"crawl a --seeds - b":              "crawl --seeds - a b",
		"job show x --dir d":               "job show --dir d x",
		"job":                              "job",
		"seed add u --job j v":             "seed add --job j u v",
		"robots f /p --agent b":            "robots --agent b f /p",
		"nonsense --x y z":                 "nonsense --x y z",
		"crawl a --unknown b --max-page 3": "crawl --unknown --max-page a b 3",
	} {
		if got := strings.Join(positionalsLast(p.Model.Node, strings.Fields(args)), " "); got != want {
			t.Errorf("%s: %s, want %s", args, got, want)
		}
	}
}
