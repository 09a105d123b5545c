package pipeline_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"lycosa.dev/extractor/internal/page"
	"lycosa.dev/extractor/internal/pipeline"
	"lycosa.dev/internal/httpwire"
	crawlv1 "lycosa.dev/proto/gen/lycosa/crawl/v1"
	jobv1 "lycosa.dev/proto/gen/lycosa/job/v1"
)

func testPage(t *testing.T) *page.Page {
	t.Helper()
	p, err := page.New(&crawlv1.Lease{Id: 1, Url: "http://a.test/x.html?q", Depth: 2}, &crawlv1.FetchResult{
		Class: crawlv1.OutcomeClass_OUTCOME_CLASS_HTTP, Status: 404}, nil, []byte("HTTP/1.1 404 No\r\nContent-Type: Text/HTML;charset=x\r\n\r\n"), httpwire.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	p.SetContentType()
	return p
}

// trace compiles steps whose handlers write their setting "name" to a log.
func run(t *testing.T, steps ...*jobv1.Handler) (string, error) {
	t.Helper()
	var log []string
	factory := func(with map[string]string) (pipeline.Handler, error) {
		return pipeline.HandlerFunc(func(context.Context, *page.Page) error {
			if with["fail"] != "" {
				return errors.New(with["fail"])
			}
			log = append(log, with["name"])
			return nil
		}), nil
	}
	p, err := pipeline.Compile(steps, map[string]pipeline.Factory{"h": factory})
	if err != nil {
		t.Fatal(err)
	}
	err = p.Run(t.Context(), testPage(t))
	return strings.Join(log, " "), err
}

func step(name string, edit ...func(*jobv1.Handler)) *jobv1.Handler {
	h := &jobv1.Handler{Handler: "h", Label: name, With: map[string]string{"name": name}}
	for _, e := range edit {
		e(h)
	}
	return h
}

func TestRun(t *testing.T) {
	when := func(s string) func(*jobv1.Handler) { return func(h *jobv1.Handler) { h.When = s } }
	then := func(s string) func(*jobv1.Handler) { return func(h *jobv1.Handler) { h.Then = s } }
	other := func(s string) func(*jobv1.Handler) { return func(h *jobv1.Handler) { h.Otherwise = s } }
	for _, c := range []struct {
		name  string
		steps []*jobv1.Handler
		want  string
	}{
		{"in order", []*jobv1.Handler{step("a"), step("b")}, "a b"},
		{"finish", []*jobv1.Handler{step("a", then("finish")), step("b")}, "a"},
		{"jump", []*jobv1.Handler{step("a", then("c")), step("b"), step("c")}, "a c"},
		{"condition true", []*jobv1.Handler{step("a", when(`status == 404 && type == "text/html" && host == "a.test" && path == "/x.html" && depth == 2 && length == 0 && url.startsWith("http:")`)), step("b")}, "a b"},
		{"condition false", []*jobv1.Handler{step("a", when("status == 200")), step("b")}, "b"},
		{"otherwise jump", []*jobv1.Handler{step("a", when("status == 200"), other("c")), step("b"), step("c")}, "c"},
		{"otherwise finish", []*jobv1.Handler{step("a", when("status == 200"), other("finish")), step("b")}, ""},
		{"empty", nil, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := run(t, c.steps...)
			if err != nil || got != c.want {
				t.Errorf("got %q, %v, want %q", got, err, c.want)
			}
		})
	}
}

func TestRunStopsAtAnError(t *testing.T) {
	got, err := run(t, step("a"), step("b", func(h *jobv1.Handler) { h.With["fail"] = "disk" }), step("c"))
	if got != "a" || err == nil || !strings.Contains(err.Error(), "step b: disk") {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestCompileNamesAllProblems(t *testing.T) {
	_, err := pipeline.Compile([]*jobv1.Handler{
		{Handler: "x"}, {Handler: "h", When: "status =="}, {Handler: "h", When: "status"}, {Handler: "h", Label: "l", Then: "nowhere"},
		{Handler: "h", Label: "m", Otherwise: "l"}, {Handler: "h", Label: "l"},
	}, map[string]pipeline.Factory{"h": func(map[string]string) (pipeline.Handler, error) { return nil, nil }})
	for _, want := range []string{
		`pipeline[0].handler: "x" is unknown; there are h`, "pipeline[1].when", "pipeline[2].when", "must be a condition",
		`pipeline[3].then: "nowhere" is neither`, `pipeline[4].otherwise: "l" is not a later step`, `pipeline[5].label: "l" is taken`,
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v\ndoes not contain %q", err, want)
		}
	}
}
