package dnser

import (
	"context"
	"fmt"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"
	"google.golang.org/grpc"

	"lycosa.dev/dnser/internal/dnstest"
	"lycosa.dev/dnser/internal/resolver"
	"lycosa.dev/internal/rpc"
	"lycosa.dev/internal/service"
	"lycosa.dev/internal/warc"
	dnserv1 "lycosa.dev/proto/gen/lycosa/dnser/v1"
	schedulerv1 "lycosa.dev/proto/gen/lycosa/scheduler/v1"
)

// TestArchive: what the servers answered lies in warc_dir when Lookup returns,
// in files that are sound and closed when the dnser has stopped.
func TestArchive(t *testing.T) {
	name := dnstest.Start(t, zone)
	s := newScheduler(jobSpec("j", 1, nil, nil))
	local := rpc.NewLocal(rpc.ServerOptions{})
	local.Register("scheduler", func(r grpc.ServiceRegistrar) { schedulerv1.RegisterSchedulerServiceServer(r, s) })
	cfg := Default()
	cfg.Scheduler, cfg.DNS, cfg.ID = "inproc:scheduler", []string{name.Addr.String()}, "host:7074"
	cfg.WARCDir = filepath.Join(t.TempDir(), "dns")
	d, err := New(cfg, service.Deps{Dialer: local})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- d.Run(ctx) }()
	for _, host := range []string{"b.test", "gone.test", "mail.test", "b.test"} {
		if _, err := d.Lookup(t.Context(), &dnserv1.LookupRequest{Host: host}); err != nil {
			t.Errorf("%s: %v", host, err)
		}
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	files, _ := filepath.Glob(filepath.Join(cfg.WARCDir, "dns-host_7074-*.warc.gz"))
	if len(files) != 1 {
		all, _ := os.ReadDir(cfg.WARCDir)
		t.Fatalf("files %v of %v, want one", files, all)
	}
	if rep, err := warc.Verify(t.Context(), files[0]); err != nil || !rep.OK() {
		t.Errorf("verify: %+v, %v", rep, err)
	}
	r, closer, err := warc.OpenFile(files[0], 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = closer.Close() }()
	var got []string
	for {
		e, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if e.Get("WARC-Type") == "warcinfo" {
			continue
		}
		block, err := io.ReadAll(e.Block)
		if err != nil {
			t.Fatal(err)
		}
		when, rest, _ := strings.Cut(string(block), "\n")
		if at, err := time.Parse("20060102150405", when); err != nil || time.Since(at).Abs() > time.Minute {
			t.Errorf("first line %q: %v", when, err)
		}
		lines := strings.Split(strings.TrimSpace(rest), "\n")
		slices.Sort(lines)
		got = append(got, strings.Join([]string{
			e.Get("WARC-Type"), e.Get("WARC-Target-URI"), e.Get("WARC-IP-Address"), e.Get("Content-Type"), strings.Join(lines, "|"),
		}, " "))
	}
	want := "resource dns:b.test 127.0.0.1 text/dns " +
		"a.test.\t300\tIN\tA\t198.18.0.1|a.test.\t300\tIN\tA\t93.184.216.34|a.test.\t300\tIN\tAAAA\t2606:2800:220:1::1|b.test.\t300\tIN\tCNAME\ta.test."
	if !slices.Equal(got, []string{want}) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

func TestArchiveThatCannotBeOpened(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	local := rpc.NewLocal(rpc.ServerOptions{})
	local.Register("scheduler", func(r grpc.ServiceRegistrar) {
		schedulerv1.RegisterSchedulerServiceServer(r, newScheduler())
	})
	cfg := Default()
	cfg.Scheduler, cfg.DNS, cfg.WARCDir = "inproc:scheduler", []string{"192.0.2.1"}, filepath.Join(file, "dns")
	d, err := New(cfg, service.Deps{Dialer: local})
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "warc_dir") {
		t.Errorf("%v, want a word of warc_dir", err)
	}
}

// TestRecordsOfTwoServers: each server's replies are a record of their own.
func TestRecordsOfTwoServers(t *testing.T) {
	at := time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC)
	one, two := netip.MustParseAddrPort("192.0.2.1:53"), netip.MustParseAddrPort("[2001:db8::2]:53")
	a, aaaa := dnstest.RR("x.test. 60 IN A 192.0.2.9"), dnstest.RR("x.test. 60 IN AAAA 2001:db8::9")
	list := dnsRecords("x.test", []resolver.Seen{
		{Records: []dns.RR{a}, Server: one, At: at}, {Server: two, At: at}, {Records: []dns.RR{aaaa, aaaa}, Server: two, At: at},
	})
	var got []string
	for _, r := range list {
		got = append(got, fmt.Sprintf("%s %s %s", r.TargetURI, r.IP, r.Body))
	}
	want := []string{
		"dns:x.test 192.0.2.1 20260504030201\nx.test.\t60\tIN\tA\t192.0.2.9\n",
		"dns:x.test 2001:db8::2 20260504030201\nx.test.\t60\tIN\tAAAA\t2001:db8::9\n",
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
