// Command bench-dns says how many names a second the dnser's resolver answers:
// new ones, asked of an authoritative server in a process of its own over real
// sockets, and ones that its cache knows; and what a cached name takes in memory.
//
// The server is nsd where it is installed, else this program once more.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/netip"
	"os"
	"os/signal"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"lycosa.dev/dnser/internal/resolver"
)

type options struct {
	server string
	names  int
	cached int
	askers int
	runs   int
	out    string
	serve  bool
}

func main() {
	var o options
	flag.StringVar(&o.server, "server", "auto", "authoritative server: nsd, own (this program), or auto")
	flag.IntVar(&o.names, "names", 20_000, "different names, each asked once of the server")
	flag.IntVar(&o.cached, "cached", 1_000_000, "questions that the cache answers")
	flag.IntVar(&o.askers, "askers", 64, "names asked at a time")
	flag.IntVar(&o.runs, "runs", 3, "runs; the table shows medians")
	flag.StringVar(&o.out, "out", "", "folder for the report; empty: none is written")
	flag.BoolVar(&o.serve, "serve", false, "be the server: print the address, answer until standard input ends")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, o)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench-dns:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) error {
	if o.serve {
		return serve(os.Stdin, os.Stdout)
	}
	if o.names < 1 || o.cached < 1 || o.askers < 1 || o.runs < 1 {
		return errors.New("-names, -cached, -askers and -runs must be at least 1")
	}
	rep := newReport(o)
	for i := range o.runs {
		if err := rep.measure(ctx, o, i+1); err != nil {
			return err
		}
	}
	rep.print(os.Stdout)
	if o.out == "" {
		return nil
	}
	path, err := rep.Write(o.out, "dns", rep)
	if err == nil {
		fmt.Println(path)
	}
	return err
}

// measure makes one run with a server and a resolver of its own.
func (rep *Report) measure(ctx context.Context, o options, n int) (err error) {
	srv, err := start(ctx, o.server)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, srv.stop()) }()
	rep.Server = srv.kind

	cfg := resolver.Default()
	cfg.Servers = []netip.AddrPort{srv.addr}
	cfg.MaxEntries = max(cfg.MaxEntries, 2*o.names)
	cfg.MaxBytes = 0
	r := resolver.New(cfg, resolver.Deps{})
	base, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- r.Run(base) }()
	defer func() { cancel(); err = errors.Join(err, <-ended) }()

	names := make([]string, o.names)
	for i := range names {
		names[i] = fmt.Sprintf("host-%d-%d.%s", n, i, zone)
	}
	before := heap()
	uncached, err := timed("uncached", n, o.names, o.askers, srv, func(i int) error {
		return right(r.Resolve(ctx, names[i]), false)
	})
	if err != nil {
		return err
	}
	uncached.EntryBytes = float64(heap()-before) / float64(o.names)
	cached, err := timed("cached", n, o.cached, runtime.GOMAXPROCS(0), srv, func(i int) error {
		return right(r.Resolve(ctx, names[i*7919%len(names)]), true)
	})
	if err != nil {
		return err
	}
	runtime.KeepAlive(r)
	rep.Results = append(rep.Results, uncached, cached)
	return nil
}

var (
	wantA    = netip.MustParseAddr("192.0.2.1")
	wantAAAA = netip.MustParseAddr("2001:db8::1")
)

// right says what is wrong with an answer: a fast wrong one does not count.
func right(a resolver.Answer, cached bool) error {
	if err := a.Err(); err != nil {
		return err
	}
	if a.FromCache != cached || a.Stale || len(a.Addrs) != 2 || a.Addrs[0] != wantA || a.Addrs[1] != wantAAAA {
		return fmt.Errorf("%s: %v, from the cache: %v; want %v %v, %v", a.Host, a.Addrs, a.FromCache, wantA, wantAAAA, cached)
	}
	return nil
}

// timed calls do for every number below total, from askers goroutines.
func timed(what string, run, total, askers int, srv *server, do func(i int) error) (Result, error) {
	var next atomic.Int64
	var wg sync.WaitGroup
	failed := make(chan error, askers)
	cpu, serverCPU, begin := ownCPU(), srv.cpu(), time.Now()
	for range askers {
		wg.Go(func() {
			for i := next.Add(1) - 1; i < int64(total); i = next.Add(1) - 1 {
				if err := do(int(i)); err != nil {
					failed <- err
					return
				}
			}
		})
	}
	wg.Wait()
	wall := time.Since(begin)
	res := Result{
		What: what, Run: run, Answers: total, Askers: askers, WallSeconds: wall.Seconds(),
		AnswersPerSecond:    float64(total) / wall.Seconds(),
		CPUMicrosPerAnswer:  float64((ownCPU() - cpu).Microseconds()) / float64(total),
		ServerMicrosPerName: float64((srv.cpu() - serverCPU).Microseconds()) / float64(total),
	}
	select {
	case err := <-failed:
		return res, fmt.Errorf("%s, run %d: %w", what, run, err)
	default:
		return res, nil
	}
}

// heap is the bytes in use after a collection.
func heap() int64 {
	runtime.GC()
	runtime.GC() // what finalizers and pools still held
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// ownCPU is this process' time, user and system.
func ownCPU() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
