package e2e

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"lycosa.dev/internal/testweb"
)

// Exit codes that scripts rely on.
const (
	exitOK       = 0
	exitFailure  = 1
	exitUsage    = 2
	exitNoSeed   = 3
	exitStorage  = 4
	exitStopped  = 130
	shortMessage = 4000
)

// expect checks a refusal: its exit code, and that the message names what is
// wrong and what would be right, each as a regular expression, without a stack.
func expect(t testing.TB, r result, code int, message ...string) {
	t.Helper()
	if r.code != code {
		t.Errorf("exit code %d, want %d\nstdout: %s\nstderr: %s", r.code, code, ends(r.out), ends(r.err))
	}
	for _, m := range message {
		if !regexp.MustCompile(m).MatchString(r.err) {
			t.Errorf("the message does not have %q:\n%s", m, ends(r.err))
		}
	}
	if strings.Contains(r.err, "goroutine ") || strings.Contains(r.err, "panic:") || len(r.err) > shortMessage {
		t.Errorf("not a message for people:\n%s", ends(r.err))
	}
}

func TestBadFlags(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		args    []string
		message []string
	}{
		{"unknown", []string{"--max-page", "3", "http://a.test/"}, []string{`--max-page`, `--max-pages`}},
		{"not a number", []string{"--max-pages", "many", "http://a.test/"}, []string{`--max-pages`, `many`}},
		{"not a duration", []string{"--min-delay", "soon", "http://a.test/"}, []string{`--min-delay`, `soon`}},
		{"unknown scope", []string{"--scope", "planet", "http://a.test/"}, []string{`scope`, `planet`, `page.*prefix.*host.*domain.*any`}},
		{"no seed", nil, []string{`seed`}},
		{"seed without a web scheme", []string{"ftp://a.test/"}, []string{`ftp`, `http`}},
		{"bad regular expression", []string{"--include", "(", "http://a.test/"}, []string{`include`, `\(`}},
		{"bad network", []string{"--allow-net", "loopback", "http://a.test/"}, []string{`allow.net`, `loopback`}},
		{"no delay outside allow-net", []string{"--min-delay", "0s", "http://a.test/"}, []string{`min.delay`, `allow.net`}},
		{"many a host outside allow-net", []string{"--per-host", "3", "http://a.test/"}, []string{`per.host`, `allow.net`}},
		{"unknown store", []string{"--store", "tape", "http://a.test/"}, []string{`tape`, `warc`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "crawl")
			args := append([]string{"crawl", "--dir", dir, "--contact", "https://lycosa.dev/test"}, c.args...)
			expect(t, lycosa(t, 20*time.Second, args...), exitUsage, c.message...)
			if _, err := os.Stat(filepath.Join(dir, "frontier")); err == nil {
				t.Error("a refused command made a frontier")
			}
		})
	}
}

func TestBadSpec(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, spec string
		message    []string
	}{
		{"unknown key", "seeds: [\"http://a.test/\"]\nscope:\n  knd: host\n", []string{`job\.yaml:3`, `knd`, `kind`}},
		{"wrong type", "seeds: [\"http://a.test/\"]\nlimits:\n  max_pages: many\n", []string{`job\.yaml:3`, `max_pages`, `many`, `number`}},
		{"wrong word", "seeds: [\"http://a.test/\"]\nscope: {kind: planet}\n", []string{`job\.yaml:2`, `planet`, `host`}},
		{"list in place of a word", "seeds: [\"http://a.test/\"]\nname: [a, b]\n", []string{`job\.yaml:2`, `name`}},
		{"not YAML", "seeds: [\"http://a.test/\"\nname: x\n", []string{`job\.yaml:\d`}},
		{"several at once", "sceds: []\nnmae: x\n", []string{`job\.yaml:1`, `seeds`, `job\.yaml:2`, `name`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			file := filepath.Join(dir, "job.yaml")
			if err := os.WriteFile(file, []byte(c.spec), 0o644); err != nil {
				t.Fatal(err)
			}
			expect(t, lycosa(t, 20*time.Second, "crawl", "--dir", filepath.Join(dir, "crawl"), "--job", file), exitUsage, c.message...)
		})
	}
	t.Run("no file", func(t *testing.T) {
		t.Parallel()
		expect(t, lycosa(t, 20*time.Second, "crawl", "--dir", t.TempDir(), "--job", "/none/job.yaml"), exitUsage, `/none/job\.yaml`)
	})
}

// TestUnresolvableSeed: no seed can be fetched; the name and its fate are in
// the message or in what why says.
func TestUnresolvableSeed(t *testing.T) {
	t.Parallel()
	names := testweb.StartDNS(t)
	dir := t.TempDir()
	r := lycosa(t, time.Minute, "crawl", "--dir", dir, "--dns", names.Addr(), "--contact", "https://lycosa.dev/test",
		"--min-delay", "100ms", "http://nowhere.test/")
	expect(t, r, exitNoSeed, `nowhere\.test`)
	if len(names.Queries("nowhere.test")) == 0 {
		t.Error("the name server was not asked")
	}
	mustLycosa(t, time.Minute, "audit", dir)
	if w := lycosa(t, time.Minute, "why", "--dir", dir, "http://nowhere.test/"); !strings.Contains(strings.ToLower(w.out), "exist") && !strings.Contains(strings.ToLower(w.out), "nxdomain") {
		t.Errorf("why does not say that the host does not exist:\n%s%s", w.out, w.err)
	}
}

// TestPortInUse: each service that cannot listen says where and ends.
func TestPortInUse(t *testing.T) {
	t.Parallel()
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer lis.Close()
	addr := lis.Addr().String()
	free := freeAddrs(t, 1)[0]
	for _, name := range []string{"scheduler", "downloader", "extractor", "dnser", "gateway"} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for _, flags := range [][]string{{"--listen", addr, "--debug", ""}, {"--listen", free, "--debug", addr}} {
				args := flags
				if name == "scheduler" || name == "extractor" {
					args = append(args, "--dir", dir)
				}
				p := startProcess(t, func(c *exec.Cmd) { c.Dir = dir }, binary(t, name), args...)
				code := p.exitsWithin(20 * time.Second)
				expect(t, result{code: code, err: p.err.String()}, max(code, 1), regexp.QuoteMeta(addr), `address already in use`)
			}
		})
	}
	t.Run("lycosa up", func(t *testing.T) {
		r := lycosa(t, 20*time.Second, "up", "--dir", t.TempDir(), "--listen", addr)
		expect(t, r, exitUsage, regexp.QuoteMeta(addr), `in use`)
	})
}

// slowSite takes some seconds.
func slowSite(t testing.TB) *site {
	t.Helper()
	return newSite(t, []string{"a.test", "b.test"}, testweb.Graph{Pages: 30, Links: 8, BodyBytes: 1000, Delay: 50 * time.Millisecond})
}

// TestSecondProcess: a second process on the folder of a crawl is refused and
// does the first no harm.
func TestSecondProcess(t *testing.T) {
	t.Parallel()
	s, dir := slowSite(t), t.TempDir()
	args := polite(dir, "--scope", "any", s.seed)
	first := startProcess(t, nil, binary(t, "lycosa"), args...)
	eventually(t, 20*time.Second, "the first fetches", func() bool { return len(s.web.Requests()) > 3 || !first.running() })
	expect(t, lycosa(t, 20*time.Second, args...), exitUsage, `in use`, fmt.Sprint(first.cmd.Process.Pid))
	if !first.running() {
		t.Error("the first had ended before the second was refused: nothing was shown")
	}
	if code := first.exitsWithin(time.Minute); code != exitOK {
		t.Errorf("the first ended with %d\n%s", code, ends(first.err.String()))
	}
	s.checkExact(t, dir)
	mustLycosa(t, time.Minute, "audit", dir)
}

// TestInterrupt: Ctrl-C ends with 130 and the state saved; the same command
// goes on to an exact end.
func TestInterrupt(t *testing.T) {
	t.Parallel()
	s, dir := slowSite(t), t.TempDir()
	args := polite(dir, "--scope", "any", s.seed)
	p := startProcess(t, nil, binary(t, "lycosa"), args...)
	eventually(t, 20*time.Second, "some pages", func() bool { return len(s.web.Requests()) > 10 || !p.running() })
	p.signal(os.Interrupt)
	if code := p.exitsWithin(20 * time.Second); code != exitStopped {
		t.Errorf("exit code %d, want %d\n%s", code, exitStopped, ends(p.err.String()))
	}
	mustLycosa(t, time.Minute, "audit", dir)
	before := len(s.web.Requests())
	if before >= len(s.want) {
		t.Error("the crawl had ended before it was interrupted: nothing was shown")
	}
	mustLycosa(t, time.Minute, args...)
	s.checkExact(t, dir)
	checkWARC(t, dir)
}

// corrupt overwrites the middle of each file that matches.
func corrupt(t testing.TB, pattern string) {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		t.Fatalf("no file %s: %v", pattern, err)
	}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		for i := len(b) / 4; i < len(b)*3/4; i++ {
			b[i] ^= 0x5a
		}
		if err := os.WriteFile(f, b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// TestCorruptFrontier: a damaged frontier is reported, nothing of it and of the
// results is removed, and with the file put back the crawl goes on.
func TestCorruptFrontier(t *testing.T) {
	t.Parallel()
	s, dir := slowSite(t), t.TempDir()
	args := polite(dir, "--scope", "any", s.seed)
	p := startProcess(t, nil, binary(t, "lycosa"), args...)
	eventually(t, 20*time.Second, "some pages", func() bool { return len(s.web.Requests()) > 10 || !p.running() })
	p.signal(os.Interrupt)
	p.exitsWithin(20 * time.Second)

	kept := filepath.Join(t.TempDir(), "kept")
	if out, err := exec.Command("cp", "-a", filepath.Join(dir, "frontier"), kept).CombinedOutput(); err != nil {
		t.Fatalf("cp: %v %s", err, out)
	}
	warcs := len(warcFiles(t, dir))
	manifests, err := filepath.Glob(filepath.Join(dir, "frontier", "*", "MANIFEST-*"))
	pattern := filepath.Join(dir, "frontier", "*", "MANIFEST-*")
	if err != nil || len(manifests) == 0 {
		pattern = filepath.Join(dir, "frontier", "MANIFEST-*")
	}
	corrupt(t, pattern)
	fetched := len(s.web.Requests())
	expect(t, lycosa(t, 30*time.Second, args...), exitFailure, `frontier`, `(?i)corrupt|damaged|cannot be read`)
	if n := len(s.web.Requests()); n != fetched {
		t.Errorf("%d requests on a damaged frontier", n-fetched)
	}
	if n := len(warcFiles(t, dir)); n < warcs {
		t.Errorf("%d WARC files, there were %d", n, warcs)
	}
	if r := lycosa(t, 30*time.Second, "audit", dir); r.code == 0 {
		t.Errorf("audit finds nothing wrong:\n%s%s", r.out, r.err)
	}

	if err := os.RemoveAll(filepath.Join(dir, "frontier")); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(kept, filepath.Join(dir, "frontier")); err != nil {
		t.Fatal(err)
	}
	mustLycosa(t, time.Minute, args...)
	s.checkExact(t, dir)
}

// TestReadOnlyFolder: a folder that cannot be written is said so at once.
func TestReadOnlyFolder(t *testing.T) {
	t.Parallel()
	bin := binary(t, "lycosa")
	dir, err := os.MkdirTemp("", "lycosa-readonly-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o555); err != nil {
		t.Fatal(err)
	}
	p := startProcess(t, asNobody(t), bin, "crawl", "--dir", filepath.Join(dir, "crawl"), "--contact", "https://lycosa.dev/test", "http://a.test/")
	code := p.exitsWithin(20 * time.Second)
	expect(t, result{code: code, err: p.err.String()}, exitStorage, regexp.QuoteMeta(dir), `permission denied|read-only`)
}

// withoutLog leaves out the lines of the log.
func withoutLog(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "time=") {
			b.WriteString(line)
		}
	}
	return b.String()
}

func mount(args ...string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if out, err := exec.CommandContext(ctx, "mount", args...).CombinedOutput(); err != nil {
		return fmt.Errorf("mount %s: %w: %s", strings.Join(args, " "), err, out)
	}
	return nil
}

// smallDisk makes a folder a file system of its own until the test ends, or
// skips the test.
func smallDisk(t *testing.T, dir, size string) {
	t.Helper()
	if err := mount("-t", "tmpfs", "-o", "size="+size, "lycosa-test", dir); err != nil {
		t.Skipf("no small file system can be made here: %v", err)
	}
	t.Cleanup(func() {
		if out, err := exec.Command("umount", dir).CombinedOutput(); err != nil {
			t.Errorf("umount: %v %s", err, out)
		}
	})
}

// TestFullDisk: the disk fills up in the middle of a crawl. It ends with the
// exit code for that, nothing done is lost, and with room it goes on.
func TestFullDisk(t *testing.T) {
	if testing.Short() {
		t.Skip("short: waits until the crawl has given up on its storage")
	}
	t.Parallel()
	mnt := t.TempDir()
	smallDisk(t, mnt, "8m")
	// Pages of random text: 120 of them fill the disk several times over.
	s := newSite(t, []string{"a.test"}, testweb.Graph{Pages: 120, Links: 6, BodyBytes: 400_000})
	dir := filepath.Join(mnt, "crawl")
	args := polite(dir, "--scope", "any", "--concurrency", fmt.Sprint(killConcurrency), s.seed)
	r := lycosa(t, 2*time.Minute, args...)
	r.err = withoutLog(r.err) // which tells each try
	expect(t, r, exitStorage, `(?i)no space left|full`)
	if n := len(byURL(pages(s.web.Requests()))); n >= len(s.want) {
		t.Errorf("all %d pages were fetched: the disk was never full", n)
	}
	if err := mount("-o", "remount,size=400m", mnt); err != nil {
		t.Fatal(err)
	}
	mustLycosa(t, time.Minute, "audit", dir)
	mustLycosa(t, time.Minute, args...)
	mustLycosa(t, time.Minute, "audit", dir)
	sameSet(t, "requests", byURL(pages(s.web.Requests())), s.want)
	kept := stored(readWARC(t, dir), 200)
	for _, h := range s.hosts {
		delete(kept, s.web.URL(h, "/robots.txt"))
	}
	sameSet(t, "WARC", kept, s.want)
	checkWARC(t, dir)
}
