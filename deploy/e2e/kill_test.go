package e2e

import (
	"encoding/json"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"lycosa.dev/internal/testweb"
)

// killConcurrency is how many leases a crawl of the kill tests has out at most,
// so how many fetches a kill can undo.
const killConcurrency = 8

// killRand makes the moments; LYCOSA_E2E_SEED repeats a run.
func killRand(t testing.TB) *rand.Rand {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	if s := os.Getenv("LYCOSA_E2E_SEED"); s != "" {
		n, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			t.Fatalf("LYCOSA_E2E_SEED: %v", err)
		}
		seed = n
	}
	t.Logf("moments by seed: LYCOSA_E2E_SEED=%d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

// kills is how often a test kills: LYCOSA_KILLS where it is set (make torture).
func kills(t testing.TB) int {
	t.Helper()
	if s := os.Getenv("LYCOSA_KILLS"); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil || n < 1 {
			t.Fatalf("LYCOSA_KILLS=%s: want a number above 0", s)
		}
		return n
	}
	if testing.Short() {
		return 5
	}
	return 20
}

// checkAfterKills: the laws of a crawl that was killed and has finished. Extra
// fetches are at most those that were out when a kill fell; what is done is in
// the WARC; nothing is missing; nothing that was not asked for was fetched.
func (s *site) checkAfterKills(t testing.TB, dir string, killed, outstanding int) {
	t.Helper()
	got := byURL(pages(s.web.Requests()))
	sameSet(t, "requests", got, s.want)
	extra := 0
	for _, u := range slices.Sorted(maps.Keys(got)) {
		extra += got[u] - 1
		if got[u] > killed+1 {
			t.Errorf("%d requests for %s with %d kills", got[u], u, killed)
		}
	}
	if extra > outstanding {
		t.Errorf("%d fetches too much, %d kills with %d leases out in all", extra, killed, outstanding)
	}
	t.Logf("%d kills with %d leases out in all, %d extra fetches of %d pages", killed, outstanding, extra, len(s.want))
	kept := stored(readWARC(t, dir), 200)
	for _, h := range s.hosts {
		delete(kept, s.web.URL(h, "/robots.txt"))
	}
	sameSet(t, "WARC", kept, s.want)
	// A page is stored again where the answer to its first storing was lost
	// with a process, be it fetched again or still in a downloader's memory.
	again := 0
	for _, n := range kept {
		again += n - 1
	}
	if again > outstanding {
		t.Errorf("WARC: %d records too much, %d kills with %d leases out in all", again, killed, outstanding)
	}
	checkWARC(t, dir)
}

// killSite takes some seconds to crawl, so that all kills fall into it.
func killSite(t testing.TB) *site {
	t.Helper()
	g := testweb.Graph{Pages: 10 * max(4, kills(t)), Links: 10, BodyBytes: 2000, Delay: 60 * time.Millisecond}
	return newSite(t, []string{"a.test", "b.test", "c.test", "d.test"}, g)
}

// audit recomputes the invariants of a folder that nobody works on, fails the
// test if one does not hold, and returns how many leases are out.
func audit(t testing.TB, dir string) int {
	t.Helper()
	var report struct {
		OK   bool
		Jobs []struct{ Leased int }
	}
	r := lycosa(t, time.Minute, "audit", "--json", dir)
	if err := json.Unmarshal([]byte(r.out), &report); err != nil {
		t.Fatalf("audit --json: %v\n%s%s", err, ends(r.out), ends(r.err))
	}
	if !report.OK || r.code != 0 {
		t.Errorf("audit: exit code %d\n%s", r.code, ends(r.out))
	}
	leased := 0
	for _, j := range report.Jobs {
		leased += j.Leased
	}
	return leased
}

// TestKillOneProcess: the crawl is killed at random moments, also while it
// starts, and started again by the same command. In the end it has done what
// an undisturbed one does.
func TestKillOneProcess(t *testing.T) {
	t.Parallel()
	rng := killRand(t)
	s := killSite(t)
	dir := t.TempDir()
	args := polite(dir, "--scope", "any", "--concurrency", strconv.Itoa(killConcurrency), "--per-host", "2", s.seed)
	killed, outstanding, want := 0, 0, kills(t)
	for killed < want {
		p := startProcess(t, nil, binary(t, "lycosa"), args...)
		moment := time.Duration(rng.Int64N(int64(500 * time.Millisecond)))
		select {
		case <-p.done:
		case <-time.After(moment):
			p.kill()
		}
		if code := p.cmd.ProcessState.ExitCode(); code >= 0 {
			if code != 0 {
				t.Fatalf("exit code %d after %d kills\n%s", code, killed, ends(p.err.String()))
			}
			break // finished before its time
		}
		killed++
		// What is on disk holds at any moment, not only in the end.
		if _, err := os.Stat(filepath.Join(dir, "frontier")); err == nil {
			outstanding += audit(t, dir)
		}
	}
	if killed < want/2 {
		t.Errorf("only %d kills before the crawl's end: the test's site is too small", killed)
	}
	mustLycosa(t, 5*time.Minute, args...)
	if left := audit(t, dir); left != 0 {
		t.Errorf("%d leases after the crawl's end", left)
	}
	s.checkAfterKills(t, dir, killed, outstanding)
}

// TestKillPolite: however often the crawl is killed, no two requests of a host
// are closer than its delay by the server's clock.
func TestKillPolite(t *testing.T) {
	t.Parallel()
	rng := killRand(t)
	want := max(3, kills(t)/4)
	s := newSite(t, []string{"a.test", "b.test", "c.test"}, testweb.Graph{Pages: 2 * want, Links: 8, BodyBytes: 2000, Delay: 10 * time.Millisecond})
	dir := t.TempDir()
	args := polite(dir, "--scope", "any", "--min-delay", politeDelay.String(), "--max-delay", politeDelay.String(), s.seed)
	for range want {
		p := startProcess(t, nil, binary(t, "lycosa"), args...)
		select {
		case <-p.done:
		case <-time.After(200*time.Millisecond + time.Duration(rng.Int64N(int64(600*time.Millisecond)))):
			p.kill()
		}
	}
	mustLycosa(t, 5*time.Minute, args...)
	s.web.CheckSpacing(t, testweb.ByHost, politeDelay)
	sameSet(t, "requests", byURL(pages(s.web.Requests())), s.want)
	audit(t, dir)
}
