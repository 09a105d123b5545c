package resolver

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/miekg/dns"

	"lycosa.dev/dnser/internal/dnstest"
)

func kept(dir string) Config {
	cfg := Default()
	cfg.File = filepath.Join(dir, "sub", "dns.cache")
	return cfg
}

var fileZone = dnstest.Zone(soa,
	"a.test. 3600 IN A 192.0.2.1", "a.test. 3600 IN AAAA 2001:db8::1",
	"b.test. 3600 IN CNAME a.test.", "short.test. 60 IN A 192.0.2.2", "mail.test. 60 IN MX 1 a.test.")

func script(q dnstest.Query, reply *dns.Msg) dnstest.Action {
	if q.Name == "fail.test" {
		reply.Rcode = dns.RcodeServerFailure
		return dnstest.Action{Reply: reply}
	}
	return fileZone(q, reply)
}

func TestCacheOutlivesTheProcess(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		hosts := []string{"a.test", "b.test", "short.test", "gone.test", "mail.test", "fail.test"}
		net := &fakeNet{script: script}
		r, stop := run(t, kept(dir), Deps{Transport: net})
		before := r.ResolveAll(t.Context(), hosts, nil)
		stop()

		time.Sleep(75 * time.Second) // short.test has expired, the denials not
		net = &fakeNet{script: script}
		r, stop = run(t, kept(dir), Deps{Transport: net})
		synctest.Wait()
		after := r.ResolveAll(t.Context(), hosts, nil)
		stop()
		for i, host := range hosts {
			fresh := host != "short.test" && host != "fail.test"
			b, a := before[i], after[i]
			if a.FromCache != fresh || (net.count(host) == 0) != fresh {
				t.Errorf("%s: from the cache %v, want %v", host, a.FromCache, fresh)
			}
			if a.Status != b.Status || a.Confirmed != b.Confirmed || !slices.Equal(a.Addrs, b.Addrs) || !slices.Equal(a.CNAMEs, b.CNAMEs) ||
				(fresh && a.Server != b.Server) || (fresh && a.Expires.Unix() != b.Expires.Unix()) {
				t.Errorf("%s: %+v before, %+v after", host, b, a)
			}
		}
		if left, _ := filepath.Glob(filepath.Join(dir, "sub", "*.tmp")); left != nil {
			t.Errorf("left behind: %v", left)
		}
	})
}

func TestSavedAtIntervals(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		cfg := kept(dir)
		r, stop := run(t, cfg, Deps{Transport: &fakeNet{script: script}})
		defer stop()
		r.Resolve(t.Context(), "a.test")
		time.Sleep(cfg.SaveEvery)
		synctest.Wait()
		data, err := os.ReadFile(cfg.File)
		if err != nil || !bytes.Contains(data, []byte("a.test")) {
			t.Fatalf("after the interval: %v, %d bytes", err, len(data))
		}
		if err := os.Remove(cfg.File); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * cfg.SaveEvery)
		synctest.Wait()
		if _, err := os.Stat(cfg.File); err == nil {
			t.Error("written again though nothing changed")
		}
	})
}

// TestBadFileIsIgnored: whatever is in the file, the resolver works, says so,
// and writes a good one when it stops.
func TestBadFileIsIgnored(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		cfg := kept(dir)
		r, stop := run(t, cfg, Deps{Transport: &fakeNet{script: script}})
		r.Resolve(t.Context(), "a.test")
		stop()
		good, err := os.ReadFile(cfg.File)
		if err != nil {
			t.Fatal(err)
		}
		resum := func(body []byte) []byte { return binary.BigEndian.AppendUint64(body, xxhash.Sum64(body)) }
		flip := slices.Clone(good)
		flip[len(flip)/2] ^= 1
		version := slices.Clone(good)
		version[7]++
		lie := resum(append(slices.Clone(good[:len(good)-9]), 0xff))
		other := Default()
		other.Servers = []netip.AddrPort{serverTwo}
		for name, c := range map[string]struct {
			data []byte
			say  string
		}{
			"empty":         {nil, "not a file"},
			"cut":           {good[:len(good)-1], "checksum"},
			"one bit":       {flip, "checksum"},
			"another kind":  {[]byte("#!/bin/sh\necho hello world\n"), "not a file"},
			"newer version": {version, "version"},
			"wrong inside":  {lie, "sense"},
			"other servers": {New(other, Deps{}).encode(time.Now()), "other servers"},
		} {
			if err := os.WriteFile(cfg.File, c.data, 0o600); err != nil {
				t.Fatal(err)
			}
			var log bytes.Buffer
			net := &fakeNet{script: script}
			r, stop := run(t, cfg, Deps{Transport: net, Log: slog.New(slog.NewTextHandler(&log, nil))})
			synctest.Wait()
			if a := r.Resolve(t.Context(), "a.test"); a.Status != Resolved || a.FromCache {
				t.Errorf("%s: %+v", name, a)
			}
			stop()
			if !strings.Contains(log.String(), c.say) {
				t.Errorf("%s: the log does not say %q: %s", name, c.say, log.String())
			}
			if _, err := decode(must(os.ReadFile(cfg.File)), func(Answer) {}); err != nil {
				t.Errorf("%s: not replaced by a good file: %v", name, err)
			}
		}
	})
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func TestUnwritableFileIsAWarning(t *testing.T) {
	dir := t.TempDir()
	blocker := filepath.Join(dir, "sub") // a file where the folder should be
	if err := os.WriteFile(blocker, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		r, stop := run(t, kept(dir), Deps{Transport: &fakeNet{script: script}, Log: slog.New(slog.NewTextHandler(&log, nil))})
		r.Resolve(t.Context(), "a.test")
		stop()
		if !strings.Contains(log.String(), "not saved") {
			t.Errorf("log: %s", log.String())
		}
	})
}

func TestClockSetBackDoesNotKeepLonger(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		cfg := kept(dir)
		ahead := func() time.Time { return time.Now().Add(1000 * time.Hour) }
		r, stop := run(t, cfg, Deps{Transport: &fakeNet{script: script}, Now: ahead})
		r.Resolve(t.Context(), "a.test")
		stop()
		r, stop = run(t, cfg, Deps{Transport: &fakeNet{script: script}})
		defer stop()
		synctest.Wait()
		if a := r.Resolve(t.Context(), "a.test"); !a.FromCache || time.Until(a.Expires) > cfg.MaxTTL {
			t.Errorf("kept for %v, more than the ceiling: %+v", time.Until(a.Expires), a)
		}
	})
}

func FuzzFile(f *testing.F) {
	cfg := Default()
	cfg.Servers = []netip.AddrPort{serverOne}
	r := New(cfg, Deps{})
	for i := range 3 {
		a := &Answer{Host: fmt.Sprintf("h%d.test", i), Status: Resolved, Addrs: addrs("192.0.2.1", "2001:db8::1"), CNAMEs: []string{"c.test"}, Expires: time.Now().Add(time.Hour)}
		r.cache.Put(a.Host, a, a.Expires)
	}
	good := r.encode(time.Now())
	f.Add(good[:len(good)-sumBytes])
	f.Add([]byte(fileMagic))
	f.Fuzz(func(t *testing.T, body []byte) {
		data := binary.BigEndian.AppendUint64(slices.Clone(body), xxhash.Sum64(body))
		_, _ = decode(data, func(a Answer) {
			if !keeps(a.Status) || checkName(a.Host) != "" || len(a.Addrs) > 2*maxAddrs || len(a.CNAMEs) > maxChain {
				t.Errorf("bad entry read: %+v", a)
			}
		})
	})
}
