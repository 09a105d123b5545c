package frontier

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	specs "lycosa.dev/internal/job"
	crawlv1 "lycosa.dev/proto/gen/lycosa/crawl/v1"
	jobv1 "lycosa.dev/proto/gen/lycosa/job/v1"

	"lycosa.dev/scheduler/internal/frontier/store"
)

func TestTrapRules(t *testing.T) {
	j := &job{spec: specs.WithDefaults(&jobv1.Spec{}, "0"), secret: 1}
	now := time.Date(2027, 1, 15, 0, 0, 0, 0, time.UTC)
	f := newFrontier(Options{Store: store.NewMemory()})
	deep := strings.Repeat("/x/y", 15)
	for url, want := range map[string]string{
		"http://a.test/":                     "",
		"http://a.test/a/b/c/d":              "",
		"http://a.test/a/a/a":                "",
		"http://a.test/a/a/a/a":              "repeating-path",
		"http://a.test/x/a/b/a/b/a/b/a/b":    "repeating-path",
		"http://a.test/x/a/b/a/b/a/b/a":      "",
		"http://a.test/a/b/c/a/b/c/a/b/c":    "",
		"http://a.test" + deep + "/z/1/2":    "path-segments",
		"http://a.test/cal/2031/02":          "",
		"http://a.test/cal/2131/02/":         "calendar",
		"http://a.test/cal/2131-02-01":       "calendar",
		"http://a.test/cal?month=1911-12":    "calendar",
		"http://a.test/archive/1985/03/12":   "",
		"http://a.test/item/2131/part":       "",
		"http://a.test/item/212131/02":       "",
		"http://a.test/item/2131/0234":       "",
		"http://a.test/item/2131/44":         "",
		"http://a.test/?" + query(24):        "",
		"http://a.test/?" + query(25):        "query-parameters",
		"http://a.test/" + "a/../b?x=1&y=2#": "",
	} {
		got := f.trap(j, "a.test", &entry{url: url}, now)
		if want == "" && got != "" || want != "" && !strings.HasPrefix(got, "trap: "+want+": ") {
			t.Errorf("%s: %q, want %q", url, got, want)
		}
		if got := f.trap(j, "a.test", &entry{url: url, seed: true}, now); got != "" {
			t.Errorf("the seed %s is kept out: %s", url, got)
		}
	}
	if got := f.trap(j, "a.test", &entry{url: "http://a.test/", redirects: 21}, now); !strings.HasPrefix(got, "trap: redirects: ") {
		t.Errorf("21 redirects: %q", got)
	}
	j.spec.Traps.Off = true
	if got := f.trap(j, "a.test", &entry{url: "http://a.test/a/a/a/a"}, now); got != "" {
		t.Errorf("rules that are off: %q", got)
	}
}

func query(n int) string {
	var list []string
	for i := range n {
		list = append(list, fmt.Sprintf("p%d=1", i))
	}
	return strings.Join(list, "&")
}

// A path whose queries give the same page again and again loses its budget, and
// so do links by guess that keep missing; each URL says by which rule.
func TestTrapsByEvidence(t *testing.T) {
	r := newRig(t, store.NewMemory())
	r.job("j", testSpec(open24, func(s *jobv1.Spec) {
		s.Traps = &jobv1.Traps{MaxQueriesOfPath: proto.Uint32(400), MaxMisses: proto.Uint32(20)}
	}), "http://a.test/")
	n := 0
	got := r.crawlPages(func(l *crawlv1.Lease) (*crawlv1.Outcome, []*crawlv1.Candidate) {
		o := outcomeOf(l, 200)
		o.PayloadDigest = "sha1:SAME"
		if strings.Contains(l.Url, "/good") {
			o.PayloadDigest = "sha1:" + l.Url
		}
		if strings.HasSuffix(l.HopPath, "X") {
			o = outcomeOf(l, 404)
		}
		var cands []*crawlv1.Candidate
		for range 2 {
			n++
			if n > 2000 {
				break
			}
			cands = append(cands, candidates(l.Depth+1, fmt.Sprintf("http://a.test/trap?page=%d", n), fmt.Sprintf("http://a.test/good?page=%d", n))...)
			guess := candidates(l.Depth+1, fmt.Sprintf("http://a.test/guess/%d", n))[0]
			guess.HopPath = "X"
			cands = append(cands, guess)
		}
		return o, cands
	})
	count := map[string]int{}
	for u := range got {
		count[strings.SplitN(strings.SplitN(pathOf(u), "?", 2)[0], "/", 3)[1]]++
	}
	if count["good"] != 400 || count["trap"] >= 300 || count["trap"] < 50 || count["guess"] < 20 || count["guess"] > 60 {
		t.Errorf("fetched %v", count)
	}
	s := r.wantEnd("j", reasonEmpty)
	if s.Counters.Excluded == 0 {
		t.Error("nothing is excluded")
	}
	reasons := map[string]int{}
	if err := r.f.EachURL(r.ctx, "j", func(u *URLInfo) error {
		if u.State == stateExcluded {
			reasons[strings.SplitN(u.Reason, ":", 3)[1]]++
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if len(reasons) != 2 || reasons[" queries-of-path"] == 0 || reasons[" speculative"] == 0 {
		t.Errorf("reasons %v", reasons)
	}
}

// crawlPages fetches all that comes and returns how often each URL came.
func (r *rig) crawlPages(each func(l *crawlv1.Lease) (*crawlv1.Outcome, []*crawlv1.Candidate)) map[string]int {
	r.t.Helper()
	got := map[string]int{}
	for {
		l := r.wait(time.Hour)
		if l == nil {
			return got
		}
		got[l.Url]++
		o, cands := each(l)
		r.commit(o, cands...)
	}
}
