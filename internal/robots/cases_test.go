package robots

import (
	"encoding/base64"
	"encoding/json"
	"testing"
	"time"

	"lycosa.dev/internal/casefiles"
)

func decode64(t *testing.T, s string) string {
	t.Helper()
	b, err := base64.StdEncoding.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestCasesAllow(t *testing.T) {
	type testCase struct {
		ID        string  `json:"id"`
		Test      string  `json:"test"`
		Robots    *string `json:"robots"`
		RobotsB64 string  `json:"robots_b64"`
		Agent     string  `json:"agent"`
		URL       string  `json:"url"`
		Allowed   bool    `json:"allowed"`
		Tier      string  `json:"tier"`
	}
	for _, c := range casefiles.Lines[testCase](t, "robots/allow.jsonl") {
		body := decode64(t, c.RobotsB64)
		if c.Robots != nil {
			body = *c.Robots
		}
		d := Parse([]byte(body)).Agent(c.Agent).Test(PathAndQuery(c.URL))
		if d.Allowed != c.Allowed {
			t.Errorf("%s (%s, %s): agent %q, %q: got %v, want allowed=%v\n%.300s", c.ID, c.Test, c.Tier, c.Agent, c.URL, d, c.Allowed, body)
		}
		if (d.Line == 0) && !d.Allowed {
			t.Errorf("%s: disallowed by no rule", c.ID)
		}
	}
}

func TestCasesExtras(t *testing.T) {
	type testCase struct {
		Kind      string          `json:"kind"`
		Test      string          `json:"test"`
		Source    string          `json:"source"`
		Robots    string          `json:"robots"`
		Agent     string          `json:"agent"`
		Agents    []string        `json:"agents"`
		Delay     json.RawMessage `json:"crawl_delay"`
		DelayMS   json.RawMessage `json:"crawl_delay_ms"`
		Sitemaps  []string        `json:"sitemaps"`
		Status    int             `json:"status"`
		AllowAll  *bool           `json:"allow_all"`
		AllowNone *bool           `json:"allow_none"`
		Defer     *bool           `json:"defer"`
	}
	ran := map[string]int{}
	for _, c := range casefiles.Lines[testCase](t, "robots/extras.jsonl") {
		ran[c.Kind]++
		agents := c.Agents
		if len(agents) == 0 {
			agents = []string{c.Agent}
		}
		f := Parse([]byte(c.Robots))
		switch c.Kind {
		case "crawl_delay":
			want, has := wantDelay(t, c.Delay, time.Second)
			if c.DelayMS != nil {
				want, has = wantDelay(t, c.DelayMS, time.Millisecond)
			}
			for _, a := range agents {
				if got, ok := f.Agent(a).CrawlDelay(); got != want || ok != has {
					t.Errorf("%s %s: agent %q: got %v %v, want %v %v", c.Source, c.Test, a, got, ok, want, has)
				}
			}
		case "sitemaps":
			got := f.Sitemaps()
			if len(got) != len(c.Sitemaps) {
				t.Errorf("%s %s: got %q, want %q", c.Source, c.Test, got, c.Sitemaps)
				continue
			}
			for i := range got {
				if got[i] != c.Sitemaps[i] {
					t.Errorf("%s %s: got %q, want %q", c.Source, c.Test, got, c.Sitemaps)
				}
			}
		case "http_status":
			p := StatusPolicy(c.Status)
			all, none := p.AllowsAll(), p.DisallowsAll()
			if p == UseBody { // the case's body is empty
				all = Parse(nil).Agent("x").Allowed("/")
			}
			if c.AllowAll != nil && all != *c.AllowAll || c.AllowNone != nil && none != *c.AllowNone || c.Defer != nil && p.Defers() != *c.Defer {
				t.Errorf("%s status %d: got %v", c.Source, c.Status, p)
			}
		case "defer":
			if StatusPolicy(200).Defers() != *c.Defer {
				t.Errorf("%s %s: a body that is no robots.txt must not defer", c.Source, c.Test)
			}
		}
	}
	for _, k := range []string{"crawl_delay", "sitemaps", "http_status"} {
		if ran[k] == 0 {
			t.Errorf("no case of kind %s", k)
		}
	}
}

func wantDelay(t *testing.T, raw json.RawMessage, unit time.Duration) (time.Duration, bool) {
	t.Helper()
	if raw == nil || string(raw) == "null" {
		return 0, false
	}
	var v float64
	if err := json.Unmarshal(raw, &v); err != nil {
		t.Fatal(err)
	}
	return time.Duration(v * float64(unit)), true
}

func TestCasesGoogleParse(t *testing.T) {
	type testCase struct {
		Kind      string          `json:"kind"`
		Name      string          `json:"name"`
		URL       string          `json:"url"`
		Pattern   string          `json:"pattern"`
		Agent     string          `json:"agent"`
		Robots    string          `json:"robots"`
		RobotsB64 string          `json:"robots_b64"`
		Expected  json.RawMessage `json:"expected"`
		Valid     *int            `json:"valid_directives"`
		Unknown   *int            `json:"unknown_directives"`
		LastLine  *int            `json:"last_line"`
	}
	str := func(raw json.RawMessage) (s string) {
		if err := json.Unmarshal(raw, &s); err != nil {
			t.Fatal(err)
		}
		return s
	}
	for _, c := range casefiles.Lines[testCase](t, "robots/google_parse.jsonl") {
		switch c.Kind {
		case "path_params_query":
			if got := PathAndQuery(c.URL); got != str(c.Expected) {
				t.Errorf("PathAndQuery(%q) = %q, want %s", c.URL, got, c.Expected)
			}
		case "escape_pattern":
			if got := EscapePattern(c.Pattern); got != str(c.Expected) {
				t.Errorf("EscapePattern(%q) = %q, want %s", c.Pattern, got, c.Expected)
			}
		case "valid_agent_token":
			if got := ValidProductToken(c.Agent); got != (string(c.Expected) == "true") {
				t.Errorf("ValidProductToken(%q) = %v", c.Agent, got)
			}
		case "line_count", "bom":
			body := c.Robots
			if c.RobotsB64 != "" {
				body = decode64(t, c.RobotsB64)
			}
			s := Parse([]byte(body)).Stats()
			if c.Valid != nil && s.Valid != *c.Valid || c.Unknown != nil && s.Unknown != *c.Unknown || c.LastLine != nil && s.LastLine != *c.LastLine {
				t.Errorf("%s: got %+v", c.Name, s)
			}
		default:
			t.Errorf("unknown kind %q", c.Kind)
		}
	}
}
