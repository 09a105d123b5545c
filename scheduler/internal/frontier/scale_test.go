package frontier

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	crawlv1 "lycosa.dev/proto/gen/lycosa/crawl/v1"
	schedulerv1 "lycosa.dev/proto/gen/lycosa/scheduler/v1"

	"lycosa.dev/scheduler/internal/frontier/store"
)

// The scale bench measures the frontier with millions of URLs. make
// bench-frontier runs it, beside what a naive frontier would do.
var (
	scaleURLs    = flag.Uint64("scale.urls", 0, "URLs of the scale bench; 0: it does not run")
	scaleHosts   = flag.Uint64("scale.hosts", 0, "hosts of the scale bench; 0: a tenth of the URLs, at most a million")
	scaleJSON    = flag.String("scale.json", "", "file for the scale bench's result")
	scaleEnqueue = flag.Bool("scale.enqueueonly", false, "end when the URLs are queued, for profiles")
	scaleDir     = flag.String("scale.dir", "", "folder for the scale bench's frontier; it must not exist. Default: a temporary one")
)

// scaleResult is what the scale bench found.
type scaleResult struct {
	URLs           uint64  `json:"urls"`
	Hosts          uint64  `json:"hosts"`
	NewPerSecond   float64 `json:"new_urls_per_second"`
	NewCPUMicros   float64 `json:"new_url_cpu_us"`
	SeenPerSecond  float64 `json:"seen_checks_per_second"`
	AbsentPerSec   float64 `json:"seen_checks_of_new_per_second"`
	LeasesPerSec   float64 `json:"leases_per_second"`
	PageCPUMicros  float64 `json:"lease_and_commit_cpu_us"`
	LeaseP99Millis float64 `json:"lease_call_p99_ms"`
	LeasesPerCall  float64 `json:"leases_per_call"`
	QueuedBytes    float64 `json:"bytes_per_queued_url"`
	DoneBytes      float64 `json:"bytes_per_done_url"`
	SeenBytes      float64 `json:"bytes_per_seen_url"`
	DiskBytes      int64   `json:"disk_bytes"`
	OpenSeconds    float64 `json:"open_seconds"`
	FilterSeconds  float64 `json:"filter_filled_seconds"`
	PeakRSSBytes   int64   `json:"peak_resident_bytes"`
	RSSBytes       int64   `json:"resident_bytes_after_open"`
}

// scaleURL is the n-th URL: hosts have sizes by Zipf's law.
func scaleURL(n, hosts uint64) (url, host string) {
	h := mix(n)
	host = fmt.Sprintf("www.host-%d.test", uint64(math.Pow(float64(hosts), float64(h>>11)/(1<<53)))-1)
	return fmt.Sprintf("https://%s/section-%d/article-%d.html", host, h%40, n), host
}

func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

func scaleCandidate(n, hosts uint64) *crawlv1.Candidate {
	u, h := scaleURL(n, hosts)
	return &crawlv1.Candidate{Url: u, HostKey: h, Depth: 1 + uint32(n%5), HopPath: "LLL"[:1+n%3], Rule: "scope any",
		Referrer: fmt.Sprintf("https://%s/section-%d/index.html", h, n%40)}
}

// scale is one run.
type scale struct {
	t     *testing.T
	n     uint64
	hosts uint64
	dir   string
	s     *store.Pebble
	f     *Frontier
	stop  func()
	res   scaleResult
}

func TestScale(t *testing.T) {
	if *scaleURLs == 0 {
		t.Skip("it runs with -scale.urls, see make bench-frontier")
	}
	s := &scale{t: t, n: *scaleURLs, hosts: *scaleHosts, dir: *scaleDir}
	if s.hosts == 0 {
		s.hosts = min(1_000_000, max(10, s.n/10))
	}
	if s.dir == "" {
		s.dir = filepath.Join(t.TempDir(), "frontier")
	}
	s.res.URLs, s.res.Hosts = s.n, s.hosts
	s.open()
	spec := testSpec(open24)
	spec.Limits.Concurrency = 100000
	if _, _, err := s.f.ApplyJob(t.Context(), "j", spec, true); err != nil {
		t.Fatal(err)
	}
	s.enqueue()
	if *scaleEnqueue {
		t.Logf("new_url_cpu_us %.2f, %.0f a second", s.res.NewCPUMicros, s.res.NewPerSecond)
		s.stop()
		return
	}
	s.checks()
	s.sizes()
	s.crawl()
	s.reopen()
	raw, err := json.MarshalIndent(&s.res, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%s", raw)
	if *scaleJSON != "" {
		if err := os.WriteFile(*scaleJSON, append(raw, '\n'), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func (s *scale) open() {
	st, err := store.OpenPebble(s.dir, store.PebbleOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
	f, err := Open(s.t.Context(), Options{Store: st, Lookup: testLookup(ClockFunc(time.Now))})
	if err != nil {
		s.t.Fatal(err)
	}
	s.s, s.f = st, f
	f.SetMembers(1, []string{"d1"})
	ctx, cancel := context.WithCancel(s.t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { _ = f.Run(ctx) })
	s.stop = func() {
		cancel()
		wg.Wait()
		if err := f.Close(); err != nil {
			s.t.Fatal(err)
		}
	}
}

func (s *scale) job() *schedulerv1.Counters {
	st, err := s.f.Job(s.t.Context(), "j")
	if err != nil {
		s.t.Fatal(err)
	}
	return st.Counters
}

// enqueue makes n URLs known, by commits of 40 links from 32 goroutines; the
// decider is never far behind.
func (s *scale) enqueue() {
	start, cpu := time.Now(), cpuTime()
	var next atomic.Uint64
	var wg sync.WaitGroup
	for range 32 {
		wg.Go(func() {
			for {
				from := next.Add(40) - 40
				if from >= s.n {
					return
				}
				for s.job().Pending > 200_000 {
					time.Sleep(time.Millisecond)
				}
				req := &schedulerv1.CommitRequest{Outcome: &crawlv1.Outcome{JobId: "j"}, Part: 1}
				for n := from; n < min(from+40, s.n); n++ {
					req.Candidates = append(req.Candidates, scaleCandidate(n, s.hosts))
				}
				if a := s.f.Commit(s.t.Context(), req); a.Verdict != crawlv1.Verdict_VERDICT_DONE {
					s.t.Errorf("commit: %v", a)
					return
				}
			}
		})
	}
	wg.Wait()
	for s.job().Pending > 0 {
		time.Sleep(time.Millisecond)
	}
	s.res.NewPerSecond = float64(s.n) / time.Since(start).Seconds()
	s.res.NewCPUMicros = float64((cpuTime() - cpu).Nanoseconds()) / 1e3 / float64(s.n)
	if c := s.job(); c.Known != s.n {
		s.t.Fatalf("%d URLs are known, want %d", c.Known, s.n)
	}
}

// checks times what the decider does to find that URLs are known or new: any
// of all, in batches. The time is the thread's on its processor, so that what
// else the machine does is not counted.
func (s *scale) checks() {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	j := s.f.jobs["j"]
	measure := func(total int, pick func(i uint64) uint64) float64 {
		batch := make([]*crawlv1.Candidate, decideBatch)
		var spent time.Duration
		done := 0
		for i := uint64(0); done < total; {
			for k := range batch {
				batch[k] = scaleCandidate(pick(i), s.hosts)
				i++
			}
			s.f.decideMu.Lock()
			start := threadCPU()
			picks := s.f.pick([]journalEntry{{job: j.num, cands: batch}}, []*job{j})
			if err := s.f.sift(picks); err != nil {
				s.t.Fatal(err)
			}
			spent += threadCPU() - start
			done += len(picks)
			s.f.decideMu.Unlock()
		}
		return float64(done) / spent.Seconds()
	}
	s.res.SeenPerSecond = measure(1_000_000, func(i uint64) uint64 { return mix(i) % s.n })
	s.res.AbsentPerSec = measure(400_000, func(i uint64) uint64 { return s.n*1000 + i })
}

// threadCPU is the processor time of this thread so far; the wall's time where
// the system does not tell.
func threadCPU() time.Duration {
	const rusageThread = 1
	var u syscall.Rusage
	if syscall.Getrusage(rusageThread, &u) != nil {
		return time.Duration(time.Now().UnixNano())
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func (s *scale) sizes() {
	if err := s.s.Settle(s.t.Context()); err != nil {
		s.t.Fatal(err)
	}
	queued := s.usage(kindURL) + s.usage(kindQueued)
	s.res.QueuedBytes = float64(queued) / float64(s.n)
	s.f.decideMu.Lock()
	defer s.f.decideMu.Unlock()
	var seen int64
	for _, r := range s.f.jobs["j"].seen.Runs() {
		seen += r.Bytes()
	}
	inRuns := s.n - uint64(s.f.jobs["j"].seen.Recent())
	s.res.SeenBytes = float64(seen) / float64(max(1, inRuns))
}

func (s *scale) usage(kind byte) uint64 {
	n, err := s.s.DiskUsage([]byte{kind}, []byte{kind + 1})
	if err != nil {
		s.t.Fatal(err)
	}
	return n
}

// crawl leases and commits pages for a while.
func (s *scale) crawl() {
	ctx := s.t.Context()
	pages := int(min(s.n/2, 200_000))
	urls := s.usage(kindURL)
	if _, err := s.f.SetJobState(ctx, "j", schedulerv1.JobWish_JOB_WISH_START); err != nil {
		s.t.Fatal(err)
	}
	leases := make(chan *crawlv1.Lease, 1024)
	var wg sync.WaitGroup
	for range 256 {
		wg.Go(func() {
			for l := range leases {
				o := outcomeOf(l, 200)
				o.PayloadDigest = fmt.Sprintf("sha1:%032X", mix(l.Id))
				o.ContentType = "text/html"
				o.Stored = []*crawlv1.StoredRecord{{Store: "warc", File: "job-20260101000000-00001.warc.gz", Offset: int64(l.Id % 1e9), Length: 20000}}
				s.f.Commit(ctx, &schedulerv1.CommitRequest{Outcome: o})
			}
		})
	}
	var calls []time.Duration
	start, cpu := time.Now(), cpuTime()
	given, last := 0, time.Now()
	for given < pages {
		t := time.Now()
		ls, err := s.f.Lease(ctx, "d1", 128)
		if err != nil {
			s.t.Fatal(err)
		}
		if len(ls) == 0 {
			if time.Since(last) > time.Minute {
				s.t.Fatalf("no lease for a minute after %d: %v", given, s.job())
			}
			select {
			case <-s.f.Ready("d1"):
			case <-time.After(time.Second):
			}
			continue
		}
		calls = append(calls, time.Since(t))
		last = time.Now()
		given += len(ls)
		for _, l := range ls {
			leases <- l
		}
	}
	close(leases)
	wg.Wait()
	s.res.LeasesPerSec = float64(given) / time.Since(start).Seconds()
	s.res.PageCPUMicros = float64((cpuTime() - cpu).Nanoseconds()) / 1e3 / float64(given)
	slices.Sort(calls)
	s.res.LeaseP99Millis = calls[len(calls)*99/100].Seconds() * 1e3
	s.res.LeasesPerCall = float64(given) / float64(len(calls))
	if err := s.s.Settle(ctx); err != nil {
		s.t.Fatal(err)
	}
	done := float64(s.job().Done)
	s.res.DoneBytes = (float64(s.usage(kindURL)) - float64(urls)*(float64(s.n)-done)/float64(s.n)) / done
}

// reopen stops and opens the frontier as a new process would.
func (s *scale) reopen() {
	s.stop()
	s.res.PeakRSSBytes = rss("VmHWM")
	s.res.DiskBytes = folderBytes(s.t, s.dir)
	debug.FreeOSMemory()
	start := time.Now()
	s.open()
	s.res.OpenSeconds = time.Since(start).Seconds()
	for {
		s.f.decideMu.Lock()
		filled := s.f.filter.next == nil
		s.f.decideMu.Unlock()
		if filled {
			break
		}
		time.Sleep(time.Millisecond)
	}
	s.res.FilterSeconds = time.Since(start).Seconds()
	s.res.RSSBytes = rss("VmRSS")
	s.stop()
}

// rss reads a line of /proc/self/status; 0 where there is none.
func rss(line string) int64 {
	f, err := os.Open("/proc/self/status")
	if err != nil {
		return 0
	}
	defer f.Close()
	for sc := bufio.NewScanner(f); sc.Scan(); {
		if rest, ok := strings.CutPrefix(sc.Text(), line+":"); ok {
			n, _ := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(rest, "kB")), 10, 64)
			return n << 10
		}
	}
	return 0
}

func folderBytes(t *testing.T, dir string) int64 {
	var n int64
	err := filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err == nil {
			n += info.Size()
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}
