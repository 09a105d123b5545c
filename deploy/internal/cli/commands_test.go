package cli

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	"lycosa.dev/internal/rpc"
	crawlv1 "lycosa.dev/proto/gen/lycosa/crawl/v1"
	schedulerv1 "lycosa.dev/proto/gen/lycosa/scheduler/v1"
	"lycosa.dev/scheduler"
)

var updateGolden = flag.Bool("update", false, "write the golden files anew")

// say runs a command line and returns what it wrote and its exit code.
func say(t *testing.T, stdin string, args ...string) (string, int) {
	t.Helper()
	w := newWorld(&fakeRing{})
	w.app.Stdin = strings.NewReader(stdin)
	err := w.app.Run(t.Context(), args)
	text := w.out.String() + w.errOut.String()
	if err != nil {
		text += err.Error()
	}
	return text, rpc.ExitCode(err)
}

// The help is read by people and quoted in documents: a change is seen.
func TestHelp(t *testing.T) {
	for _, command := range []string{"", "crawl", "up", "job", "job create", "job why", "job exclude", "job set", "job overlay set", "queue", "queue block", "queue show", "why", "audit", "warc verify", "fetch", "robots", "doctor", "instance wait"} {
		args := append(strings.Fields(command), "--help")
		got, code := say(t, "", args...)
		if code != 0 {
			t.Errorf("%s: exit code %d", command, code)
		}
		file := filepath.Join("testdata", "help", strings.ReplaceAll("lycosa "+command, " ", "_")+".txt")
		file = strings.ReplaceAll(file, "_.txt", ".txt")
		if *updateGolden {
			if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if got != string(want) {
			t.Errorf("help of %q differs from %s (go test -update writes it anew):\n%s", command, file, got)
		}
	}
}

// Every flag of design section 7 is there: scripts rely on them.
func TestCrawlFlagsAreStable(t *testing.T) {
	help, _ := say(t, "", "crawl", "--help")
	for f := range strings.FieldsSeq(`dir seeds scope job max-pages max-depth max-duration max-bytes concurrency per-host min-delay max-delay
		delay-factor address-delay allow-net resolve dns user-agent contact robots include exclude store recrawl json quiet log-level`) {
		if !strings.Contains(help, "--"+f) {
			t.Errorf("--%s is gone", f)
		}
	}
}

func TestRobotsCommand(t *testing.T) {
	const file = "User-agent: *\nDisallow: /a\nAllow: /a/b\nCrawl-delay: 2\n\nUser-agent: other\nDisallow: /\n"
	for _, tc := range []struct {
		args string
		code int
		say  string
	}{
		{"- /a/x", 1, "disallowed: line 2: Disallow: /a\ngroup: *\ncrawl-delay: 2s\n"},
		{"- /a/b?q", 0, "allowed: line 3: Allow: /a/b\ngroup: *\ncrawl-delay: 2s\n"},
		{"- /c", 0, "allowed: no rule matches\ngroup: *\ncrawl-delay: 2s\n"},
		{"- https://x.test/c --agent other", 1, "disallowed: line 7: Disallow: /\ngroup: other\n"},
		{"-", 2, "a path is needed"},
		{"none.txt /x", 2, "none.txt"},
	} {
		got, code := say(t, file, append([]string{"robots"}, strings.Fields(tc.args)...)...)
		if code != tc.code || !strings.HasPrefix(got, tc.say) && (tc.code != 2 || !strings.Contains(got, tc.say)) {
			t.Errorf("robots %s: code %d, %q; want %d, %q", tc.args, code, got, tc.code, tc.say)
		}
	}
}

func TestRobotsOfSite(t *testing.T) {
	code := 200
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(code)
		_, _ = w.Write([]byte("User-agent: *\nDisallow: /no\n"))
	}))
	defer site.Close()
	for _, tc := range []struct {
		status, exit int
		say          string
	}{{200, 1, "disallowed: line 2"}, {404, 0, "has no robots.txt"}, {500, 1, "cannot be had"}} {
		code = tc.status
		got, exit := say(t, "", "robots", site.URL+"/no/x")
		if exit != tc.exit || !strings.Contains(got, tc.say) {
			t.Errorf("status %d: exit %d, %q", tc.status, exit, got)
		}
	}
}

func TestVersionDoctorAndUsage(t *testing.T) {
	if got, code := say(t, "", "version"); code != 0 || !strings.HasPrefix(got, "lycosa ") {
		t.Errorf("version: %d, %q", code, got)
	}
	got, _ := say(t, "", "doctor", "--dir", t.TempDir(), "--host", "localhost")
	for _, want := range []string{"open files", "folder", "disk", "DNS", "clock", "memory"} {
		if !strings.Contains(got, want) {
			t.Errorf("doctor does not speak of %s:\n%s", want, got)
		}
	}
	if got, code := say(t, "", "crwl"); code != ExitUsage || !strings.Contains(got, "crawl") {
		t.Errorf("a command that does not exist: %d, %q", code, got)
	}
	if got, code := say(t, "", "audit", filepath.Join(t.TempDir(), "none")); code != ExitUsage || !strings.Contains(got, "holds no crawl") {
		t.Errorf("audit of nothing: %d, %q", code, got)
	}
	if got, code := say(t, "", "job", "list", "--dir", t.TempDir()); code != ExitUsage || !strings.Contains(got, "holds no crawl") {
		t.Errorf("job list of nothing: %d, %q", code, got)
	}
	if got, code := say(t, "", "job", "pause", "--dir", t.TempDir()); code != ExitFailure || !strings.Contains(got, "start `lycosa up`") {
		t.Errorf("job pause where nobody runs: %d, %q", code, got)
	}
}

func TestClock(t *testing.T) {
	if f := checkClock(time.Unix(0, 0)); f.grade != "bad" {
		t.Errorf("1970: %v", f)
	}
	if f := checkClock(time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)); f.grade != "ok" {
		t.Errorf("2027: %v", f)
	}
}

func TestOffline(t *testing.T) {
	dir := t.TempDir()
	ring := running(t, dir, stateFinished, "empty", &schedulerv1.Counters{Done: 3, Known: 3, Pages: 3})
	for args, want := range map[string]string{
		"job list":               "a-test  finished  empty   3     0",
		"job show":               "finished (empty), round 1",
		"job show a-test --json": `"job_id":"a-test"`,
		"why http://a.test/":     "host not found",
		"queue list":             "HOST",
		"job report":             "reports",
	} {
		w := newWorld(ring)
		err := w.app.Run(t.Context(), append(strings.Fields(args), "--dir", dir))
		got := strings.ReplaceAll(w.out.String(), `": "`, `":"`)
		if err != nil || !strings.Contains(got, want) {
			t.Errorf("%s: %v, %q; want %q", args, err, got, want)
		}
	}
	err := newWorld(ring).app.Run(t.Context(), []string{"job", "show", "b", "--dir", dir})
	if rpc.ExitCode(err) != ExitUsage || !strings.Contains(err.Error(), "there are: a-test") {
		t.Errorf("a job that does not exist: %v", err)
	}
}

// What was noticed of a page is shown, whoever noticed it.
func TestExplainShowsAnnotations(t *testing.T) {
	var b bytes.Buffer
	err := explain(&b, &schedulerv1.ExplainResponse{
		CanonicalUrl: "http://a.test/", State: schedulerv1.UrlState_URL_STATE_DONE,
		LastOutcome: &crawlv1.Outcome{
			Fetch:       &crawlv1.FetchResult{Class: crawlv1.OutcomeClass_OUTCOME_CLASS_HTTP, Status: 200, Annotations: []string{"chunk-malformed"}},
			Annotations: []string{"charset-mislabelled", "size-limit"},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := b.String(); !strings.Contains(got, "noticed  chunk-malformed, charset-mislabelled, size-limit\n") {
		t.Errorf("%q", got)
	}
}

func TestExplainIsSafe(t *testing.T) {
	var b bytes.Buffer
	err := explain(&b, &schedulerv1.ExplainResponse{
		CanonicalUrl: "http://a.test/", State: schedulerv1.UrlState_URL_STATE_FAILED, Reason: "bad \x1b[31m\nheader",
		NextAt: timestamppb.New(time.Unix(1e9, 0)), Found: &crawlv1.Candidate{Referrer: "http://b.test/\u202e"},
		LastOutcome: &crawlv1.Outcome{Fetch: &crawlv1.FetchResult{Class: crawlv1.OutcomeClass_OUTCOME_CLASS_TIMEOUT, Error: "timeout: \x07"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := b.String(); strings.ContainsAny(got, "\x1b\x07\u202e") || !strings.Contains(got, `bad \x1b[31m header`) {
		t.Errorf("%q", got)
	}
}

func TestCompletion(t *testing.T) {
	for _, shell := range []string{"bash", "zsh", "fish"} {
		got, code := say(t, "", "completion", shell)
		if code != 0 || !strings.Contains(got, "max-pages") || !strings.Contains(got, "watch") {
			t.Errorf("%s: %d, %.200q", shell, code, got)
		}
		if shell != "bash" {
			continue
		}
		bash, err := exec.LookPath("bash")
		if err != nil {
			t.Skip("no bash to try the script with")
		}
		script := got + "\nCOMP_WORDS=(lycosa job st); COMP_CWORD=2; _lycosa; echo ${COMPREPLY[@]}\nCOMP_WORDS=(lycosa crawl --max-p); COMP_CWORD=2; _lycosa; echo ${COMPREPLY[@]}\n"
		out, err := exec.CommandContext(t.Context(), bash, "-c", script).CombinedOutput()
		if want := "start stop\n--max-pages\n"; err != nil || string(out) != want {
			t.Errorf("bash completes %q, %v; want %q", out, err, want)
		}
	}
}

func TestClassifyStatus(t *testing.T) {
	for code, want := range map[codes.Code]int{
		codes.InvalidArgument: ExitUsage, codes.NotFound: ExitUsage, codes.FailedPrecondition: ExitUsage,
		codes.ResourceExhausted: ExitStorage, codes.Unavailable: ExitFailure, codes.Internal: ExitFailure,
		codes.Unauthenticated: ExitUsage, codes.Canceled: ExitInterrupted,
	} {
		err := classify(status.Error(code, "the message"))
		if rpc.ExitCode(err) != want || strings.Contains(err.Error(), "rpc error") {
			t.Errorf("%v: %d, %q; want %d", code, rpc.ExitCode(err), err, want)
		}
	}
}

func TestStorageWatch(t *testing.T) {
	var w storageWatch
	now := time.Unix(0, 0)
	steps := []struct {
		after   time.Duration
		problem string
		ends    bool
	}{
		{0, "storage is unavailable: full", false}, {20 * time.Second, "storage is unavailable: full", false},
		{time.Second, "", false}, {10 * time.Second, "storage is unavailable: full", false},
		{24 * time.Second, "storage is unavailable: full", false}, {time.Second, "storage is unavailable: full", true},
	}
	for i, s := range steps {
		now = now.Add(s.after)
		st := &schedulerv1.JobStatus{Problem: s.problem}
		if s.problem != "" {
			st.Trouble = schedulerv1.Trouble_TROUBLE_STORAGE
		}
		if err := w.check(st, now); (err != nil) != s.ends {
			t.Errorf("step %d: %v, want an end: %v", i, err, s.ends)
		}
	}
}

func TestOnce(t *testing.T) {
	full := errors.New("disk full")
	err := classify(errors.Join(fmt.Errorf("scheduler: %w: %w", scheduler.ErrStorage, full), fmt.Errorf("%w: %w", scheduler.ErrStorage, full), errors.New("else")))
	want := "scheduler: the frontier's storage failed: disk full\nelse"
	if err.Error() != want || rpc.ExitCode(err) != ExitStorage {
		t.Errorf("%q, want %q", err, want)
	}
}

func TestTerminalIsSparse(t *testing.T) {
	var b bytes.Buffer
	log := slog.New(&sparse{Handler: slog.NewTextHandler(&b, nil), seen: &seen{last: map[string]time.Time{}}})
	for i := range 3 {
		log.With("service", "x").Warn("the same", "n", i)
		log.Warn("another")
	}
	if got := strings.Count(b.String(), "\n"); got != 2 {
		t.Errorf("%d lines, want 2:\n%s", got, &b)
	}
}
