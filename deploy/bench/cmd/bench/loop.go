package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"

	"lycosa.dev/deploy/bench/web"
)

// runLoop is the bare loop: every page once, host by host, on kept
// connections, with nothing done but reading the body. Its process's CPU a page
// is what the crawler's is held against.
func runLoop(ctx context.Context, o options) error {
	_, port, err := net.SplitHostPort(o.loop)
	if err != nil {
		return err
	}
	dialer := &net.Dialer{}
	client := &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return dialer.DialContext(ctx, network, o.loop)
		},
		MaxIdleConnsPerHost: 1,
		DisableCompression:  true,
	}}
	hosts := make(chan int)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	var fetched atomic.Int64
	for range o.concurrency {
		wg.Go(func() {
			buf := make([]byte, 64<<10)
			for h := range hosts {
				for p := range o.web.Pages {
					if err := fetch(ctx, client, web.URL(h, p, port), buf); err != nil {
						cancel(err)
						return
					}
					fetched.Add(1)
				}
			}
		})
	}
	for h := range o.web.Hosts {
		select {
		case hosts <- h:
		case <-ctx.Done():
		}
	}
	close(hosts)
	wg.Wait()
	if err := context.Cause(ctx); err != nil {
		return fmt.Errorf("after %d pages: %w", fetched.Load(), err)
	}
	return nil
}

// fetch reads a page to its end.
func fetch(ctx context.Context, client *http.Client, url string, buf []byte) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: status %d", url, resp.StatusCode)
	}
	for {
		if _, err := resp.Body.Read(buf); err == io.EOF {
			return nil
		} else if err != nil {
			return fmt.Errorf("%s: %w", url, err)
		}
	}
}
