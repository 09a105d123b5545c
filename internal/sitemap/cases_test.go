package sitemap

import (
	"bytes"
	"encoding/base64"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"lycosa.dev/internal/casefiles"
)

func TestCasesExpected(t *testing.T) {
	type want struct {
		Loc        string  `json:"loc"`
		LastMod    *string `json:"lastmod"`
		Valid      *bool   `json:"valid"`
		Priority   float64 `json:"priority"`
		ChangeFreq *string `json:"changefreq"`
	}
	type testCase struct {
		File         string `json:"file"`
		Test         string `json:"test"`
		URL          string `json:"url"`
		Strict       bool   `json:"strict"`
		AllowPartial bool   `json:"allow_partial"`
		Error        string `json:"error"`
		Type         string `json:"type"`
		IsIndex      bool   `json:"is_index"`
		URLCount     int    `json:"url_count"`
		URLs         []want `json:"urls"`
		SitemapCount int    `json:"sitemap_count"`
		Sitemaps     []want `json:"sitemaps"`
	}
	kinds := map[string]Kind{"XML": URLSet, "INDEX": Index, "TEXT": Text, "RSS": RSS, "ATOM": Atom}
	for _, c := range casefiles.Lines[testCase](t, "sitemaps/expected.jsonl") {
		body, err := os.ReadFile(casefiles.Path(t, "sitemaps/"+c.File))
		if err != nil {
			t.Fatal(err)
		}
		res, err := Parse(bytes.NewReader(body), Options{URL: c.URL, Strict: c.Strict, AllowPartial: c.AllowPartial})
		if c.Error != "" {
			if !errors.Is(err, ErrFormat) && !errors.Is(err, ErrBroken) {
				t.Errorf("%s: got %v, want an error of format", c.Test, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", c.Test, err)
			continue
		}
		entries, n := c.URLs, c.URLCount
		if c.IsIndex {
			entries, n = c.Sitemaps, c.SitemapCount
		}
		if res.Kind != kinds[c.Type] || len(res.Entries) != n {
			t.Errorf("%s: got %v with %d entries, want %s with %d: %+v", c.Test, res.Kind, len(res.Entries), c.Type, n, res.Entries)
			continue
		}
		for i, w := range entries {
			e := res.Entries[i]
			if e.Loc != w.Loc || e.Sitemap != c.IsIndex || when(e.LastMod) != deref(w.LastMod) {
				t.Errorf("%s %d: got %+v, want %+v", c.Test, i, e, w)
			}
			if c.IsIndex {
				continue
			}
			if e.Valid != *w.Valid || e.Priority != w.Priority || e.ChangeFreq != strings.ToLower(deref(w.ChangeFreq)) {
				t.Errorf("%s %d: got %+v, want %+v", c.Test, i, e, w)
			}
		}
	}
}

func when(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.Format(time.RFC3339)
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

func TestCasesScrapy(t *testing.T) {
	type entry struct {
		Loc        string   `json:"loc"`
		LastMod    string   `json:"lastmod"`
		ChangeFreq string   `json:"changefreq"`
		Priority   string   `json:"priority"`
		Alternate  []string `json:"alternate"`
	}
	type testCase struct {
		Kind    string  `json:"kind"`
		Test    string  `json:"test"`
		Content string  `json:"content_b64"`
		Type    string  `json:"type"`
		Entries []entry `json:"entries"`
	}
	for _, c := range casefiles.Lines[testCase](t, "sitemaps/scrapy.jsonl") {
		body, err := base64.StdEncoding.DecodeString(c.Content)
		if err != nil || c.Kind != "sitemap" {
			t.Errorf("%s: kind %q, %v", c.Test, c.Kind, err)
			continue
		}
		res, err := Parse(bytes.NewReader(body), Options{})
		if err != nil || res.Kind.String() != c.Type || len(res.Entries) != len(c.Entries) {
			t.Errorf("%s: got %+v, %v", c.Test, res, err)
			continue
		}
		for i, w := range c.Entries {
			e := res.Entries[i]
			priority := DefaultPriority
			if w.Priority != "" {
				priority = parsePriority(w.Priority)
			}
			if e.Loc != w.Loc || !e.LastMod.Equal(parseW3C(w.LastMod)) || (w.LastMod == "") != e.LastMod.IsZero() ||
				e.ChangeFreq != w.ChangeFreq || e.Priority != priority || !slices.Equal(e.Alternates, w.Alternate) {
				t.Errorf("%s %d: got %+v, want %+v", c.Test, i, e, w)
			}
		}
	}
}
