package report

import (
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	crawlv1 "lycosa.dev/proto/gen/lycosa/crawl/v1"
	schedulerv1 "lycosa.dev/proto/gen/lycosa/scheduler/v1"
	"lycosa.dev/scheduler"
)

type fakeURLs struct {
	urls []*scheduler.URLInfo
	err  error
}

func (f fakeURLs) EachURL(_ context.Context, _ string, visit func(*scheduler.URLInfo) error) error {
	for _, u := range f.urls {
		if err := visit(u); err != nil {
			return err
		}
	}
	return f.err
}

func page(host, path string, status uint32, contentType string, received int64) *scheduler.URLInfo {
	return &scheduler.URLInfo{
		URL: "http://" + host + path, HostKey: host, State: schedulerv1.UrlState_URL_STATE_DONE, Reason: fmt.Sprintf("HTTP %d", status),
		Outcome: &crawlv1.Outcome{ContentType: contentType, PayloadBytes: received / 2, Fetch: &crawlv1.FetchResult{
			Class: crawlv1.OutcomeClass_OUTCOME_CLASS_HTTP, Status: status, ReceivedBytes: received}},
	}
}

func seed(u *scheduler.URLInfo) *scheduler.URLInfo { u.Seed = true; return u }

func rows(t *testing.T, dir, name string) [][]string {
	t.Helper()
	f, err := os.Open(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	all, err := csv.NewReader(f).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestReports(t *testing.T) {
	dir := t.TempDir()
	failed := &scheduler.URLInfo{URL: "http://c.test/", HostKey: "c.test", Seed: true, State: schedulerv1.UrlState_URL_STATE_FAILED, Reason: "dns: no such host", Attempts: 3,
		Outcome: &crawlv1.Outcome{Fetch: &crawlv1.FetchResult{Class: crawlv1.OutcomeClass_OUTCOME_CLASS_DNS}}}
	urls := fakeURLs{urls: []*scheduler.URLInfo{
		seed(page("b.test", "/", 200, "text/html", 100)), page("a.test", "/", 200, "text/html", 50), page("a.test", "/x", 404, "=cmd()", 10), failed,
		{URL: "http://a.test/p", HostKey: "a.test", State: schedulerv1.UrlState_URL_STATE_EXCLUDED, Reason: "robots: line 2"},
		{URL: "http://a.test/q", HostKey: "a.test", State: schedulerv1.UrlState_URL_STATE_QUEUED},
	}}
	st := &schedulerv1.JobStatus{JobId: "j", State: schedulerv1.JobState_JOB_STATE_FINISHED, Counters: &schedulerv1.Counters{Known: 6}}
	totals, err := Write(t.Context(), dir, st, urls)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string][][]string{
		"hosts.csv": {hostColumns,
			{"a.test", "4", "1", "0", "2", "1", "0", "2", "60", "30"},
			{"b.test", "1", "0", "0", "1", "0", "0", "1", "100", "50"},
			{"c.test", "1", "0", "0", "0", "0", "1", "0", "0", "0"}},
		"mimetypes.csv": {{"content_type", "urls", "received_bytes", "payload_bytes"}, {"text/html", "2", "150", "75"}, {"'=cmd()", "1", "10", "5"}},
		"status.csv": {{"state", "result", "urls", "received_bytes", "payload_bytes"}, {"done", "200", "2", "150", "75"},
			{"done", "404", "1", "10", "5"}, {"excluded", "robots", "1", "0", "0"}, {"failed", "dns", "1", "0", "0"}, {"queued", "", "1", "0", "0"}},
		"seeds.csv": {{"url", "state", "status", "reason", "attempts", "content_type", "redirect_url"},
			{"http://b.test/", "done", "200", "HTTP 200", "0", "text/html", ""}, {"http://c.test/", "failed", "", "dns: no such host", "3", "", ""}},
	} {
		if got := rows(t, dir, name); !reflect.DeepEqual(got, want) {
			t.Errorf("%s\n%q\nwant\n%q", name, got, want)
		}
	}
	f, err := os.ReadFile(filepath.Join(dir, "summary.json"))
	if err != nil {
		t.Fatal(err)
	}
	var sum Totals
	if err := json.Unmarshal(f, &sum); err != nil {
		t.Fatal(err)
	}
	if sum.Pages != 3 || sum.Hosts != 3 || sum.Seeds != 2 || sum.SeedsFetched != 1 || sum.Bytes != 160 || sum.StatusCodes["404"] != 1 ||
		sum.URLs["queued"] != 1 || sum.Counters["known"] != 6 || sum.FirstSeedUnfetched != "http://c.test/" {
		t.Errorf("summary %+v", sum)
	}
	if !reflect.DeepEqual(sum.URLs, totals.URLs) {
		t.Errorf("returned %v, written %v", totals.URLs, sum.URLs)
	}
	if strings.Contains(string(f), "0001-01-01") {
		t.Error("times that are not known are written")
	}
}

// Hosts beyond what memory may hold go through files and come out the same.
func TestManyHosts(t *testing.T) {
	var urls fakeURLs
	for i := range 1000 {
		urls.urls = append(urls.urls, page(fmt.Sprintf("h%03d.test", (i*37)%300), fmt.Sprintf("/%d", i), 200, "text/html", int64(i)))
	}
	st := &schedulerv1.JobStatus{JobId: "j"}
	small, large := t.TempDir(), t.TempDir()
	if _, err := write(t.Context(), small, st, urls, 7); err != nil {
		t.Fatal(err)
	}
	if _, err := write(t.Context(), large, st, urls, maxHosts); err != nil {
		t.Fatal(err)
	}
	a, b := rows(t, small, "hosts.csv"), rows(t, large, "hosts.csv")
	if len(b) != 301 || !reflect.DeepEqual(a, b) {
		t.Errorf("%d rows with little memory, %d with much", len(a), len(b))
	}
	entries, err := os.ReadDir(small)
	if err != nil || len(entries) != 5 {
		t.Errorf("%v %v: temporary files are left", entries, err)
	}
}

func TestKindsAreBounded(t *testing.T) {
	k := newKinds()
	for i := range 3 * maxKinds {
		k.add([]string{fmt.Sprintf("x/%d", i)}, 1, 1)
	}
	if len(k.rows) > maxKinds+1 || k.rows[other].urls != 2*maxKinds {
		t.Errorf("%d rows, %d others", len(k.rows), k.rows[other].urls)
	}
}

func TestCell(t *testing.T) {
	for in, want := range map[string]string{
		"": "", "plain": "plain", "=1+1": "'=1+1", "+1": "'+1", "-1": "'-1", "@x": "'@x", "\t=1": "' =1", "\r\n=1": "'  =1",
		"|x": "'|x", "%x": "'%x", "a=b": "a=b", "http://a/": "http://a/", "a\x00b\x1bc": "a b c", "broken\xff": "broken ",
	} {
		if got := Cell(in); got != want {
			t.Errorf("Cell(%q) = %q, want %q", in, got, want)
		}
	}
}

// A report that cannot be finished leaves the one before it, and no litter.
func TestFailureKeepsTheOld(t *testing.T) {
	dir := t.TempDir()
	st := &schedulerv1.JobStatus{JobId: "j"}
	if _, err := Write(t.Context(), dir, st, fakeURLs{urls: []*scheduler.URLInfo{page("a.test", "/", 200, "a/b", 1)}}); err != nil {
		t.Fatal(err)
	}
	before := rows(t, dir, "hosts.csv")
	broken := errors.New("broken")
	if _, err := Write(t.Context(), dir, st, fakeURLs{err: broken}); !errors.Is(err, broken) {
		t.Fatalf("error %v, want the walk's", err)
	}
	if got := rows(t, dir, "hosts.csv"); !slices.EqualFunc(got, before, slices.Equal) {
		t.Errorf("hosts.csv is %v, was %v", got, before)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 5 {
		t.Errorf("%d files, want 5: %v", len(entries), err)
	}
}
