// Command benchweb serves the synthetic web on a loopback address. It prints
// the address that it listens on, and serves until it is told to stop or its
// standard input ends (with --until-eof), so that it never outlives the runner
// that started it.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"lycosa.dev/deploy/bench/web"
)

func main() {
	addr := flag.String("addr", "127.0.0.1:0", "address to listen on")
	untilEOF := flag.Bool("until-eof", false, "stop when standard input ends")
	var cfg web.Config
	flag.IntVar(&cfg.Hosts, "hosts", web.DefaultHosts, "number of hosts, h0001.bench.test and so on")
	flag.IntVar(&cfg.Pages, "pages", web.DefaultPages, "pages of each host")
	flag.IntVar(&cfg.PageBytes, "bytes", web.DefaultPageBytes, "bytes of a page")
	flag.IntVar(&cfg.Links, "links", web.DefaultLinks, "links of a page")
	flag.Uint64Var(&cfg.Seed, "seed", 1, "chooses links and text")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if *untilEOF {
		go func() {
			_, _ = io.Copy(io.Discard, os.Stdin)
			stop()
		}()
	}
	s, err := web.Listen(*addr, cfg)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(s.Addr())
	if err := s.Run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
