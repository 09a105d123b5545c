package robots

import (
	"testing"
	"time"
)

func TestParseDirectives(t *testing.T) {
	day := time.Date(2025, 6, 25, 15, 0, 0, 0, time.UTC)
	for in, want := range map[string]Directives{
		"nOnE":                               {NoIndex: true, NoFollow: true},
		"noindex,nofollow":                   {NoIndex: true, NoFollow: true},
		"index,nofollow":                     {NoFollow: true},
		"index , follow":                     {},
		"noindex nofollow":                   {NoIndex: true, NoFollow: true},
		"noindex; noarchive":                 {NoIndex: true, NoArchive: true},
		"all, nocache":                       {NoArchive: true},
		"max-snippet:0, noindex":             {NoIndex: true},
		"nosnippet,noimageindex,notranslate": {NoSnippet: true, NoImageIndex: true, NoTranslate: true},
		"unavailable_after: 2025-06-25T15:00:00Z, nofollow":         {NoFollow: true, UnavailableAfter: day},
		"unavailable_after: Wed, 25 Jun 2025 15:00:00 GMT, noindex": {NoIndex: true, UnavailableAfter: day},
		"unavailable_after: 25 Jun 2025 15:00:00 UTC":               {UnavailableAfter: day},
		"unavailable_after: soon, noindex":                          {NoIndex: true},
		"notnoindex":                                                {},
		"":                                                          {},
	} {
		if got := ParseDirectives(in); got != want {
			t.Errorf("%q: got %+v, want %+v", in, got, want)
		}
	}
}

func TestParseXRobotsTag(t *testing.T) {
	day := time.Date(2025, 6, 25, 15, 0, 0, 0, time.UTC)
	tests := []struct {
		values []string
		want   Directives
	}{
		{[]string{"noindex"}, Directives{NoIndex: true}},
		{[]string{"noindex", "nofollow"}, Directives{NoIndex: true, NoFollow: true}},
		{[]string{"lycosa: noindex, nofollow"}, Directives{NoIndex: true, NoFollow: true}},
		{[]string{"otherbot: noindex, nofollow"}, Directives{}},
		{[]string{"otherbot: noindex, nofollow, Lycosa: noarchive"}, Directives{NoArchive: true}},
		{[]string{"otherbot: noindex", "none"}, Directives{NoIndex: true, NoFollow: true}},
		{[]string{"*: noindex"}, Directives{NoIndex: true}},
		{[]string{"unavailable_after: Wed, 25 Jun 2025 15:00:00 GMT, nofollow"}, Directives{NoFollow: true, UnavailableAfter: day}},
		{[]string{"lycosa: unavailable_after: 25 Jun 2025 15:00:00 GMT"}, Directives{UnavailableAfter: day}},
		{[]string{"otherbot: unavailable_after: 25 Jun 2025 15:00:00 GMT"}, Directives{}},
		{[]string{"max-image-preview: none, nofollow"}, Directives{NoFollow: true}},
		{nil, Directives{}},
	}
	for _, c := range tests {
		if got := ParseXRobotsTag(c.values, "Lycosa/1.0"); got != c.want {
			t.Errorf("%q: got %+v, want %+v", c.values, got, c.want)
		}
	}
}

func TestDirectivesExpired(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	d := Directives{UnavailableAfter: now}.Merge(Directives{UnavailableAfter: now.Add(-time.Hour)})
	if !d.Expired(now) || d.Expired(now.Add(-2*time.Hour)) || (Directives{}).Expired(now) {
		t.Errorf("the earlier time must hold: %+v", d)
	}
}
