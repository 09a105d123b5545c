package fetch

import (
	"slices"
	"testing"

	crawlv1 "lycosa.dev/proto/gen/lycosa/crawl/v1"
)

// An overlay replaces lines of the same name, adds others, and leaves the
// settings of other leases alone.
func TestSettingsWithOverlay(t *testing.T) {
	s := &Settings{UserAgent: "Lycosa", AcceptLanguage: "en", Headers: []string{"X-A: job", "Accept-Language: it", "X-C: job"},
		HostHeaders: []HostHeaders{{Host: "*", Lines: []string{"x-a: host", "X-D: host"}}}}
	if s.With(nil) != s {
		t.Error("without an overlay they are copied")
	}
	o := s.With(&crawlv1.RequestOverlay{UserAgent: "guest/1", AcceptLanguage: "de", Headers: []string{"X-A: overlay"}})
	if o.UserAgent != "guest/1" || o.AcceptLanguage != "de" || !slices.Equal(o.Headers, []string{"X-C: job", "X-A: overlay"}) ||
		!slices.Equal(o.HostHeaders[0].Lines, []string{"X-D: host"}) {
		t.Errorf("%+v", o)
	}
	if s.UserAgent != "Lycosa" || !slices.Equal(s.Headers, []string{"X-A: job", "Accept-Language: it", "X-C: job"}) || len(s.HostHeaders[0].Lines) != 2 {
		t.Errorf("the job's settings were changed: %+v", s)
	}
}
