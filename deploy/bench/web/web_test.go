package web_test

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"go.uber.org/goleak"
	"golang.org/x/net/html"

	"lycosa.dev/deploy/bench/web"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func start(t *testing.T, cfg web.Config) (*web.Server, *http.Client) {
	t.Helper()
	s, err := web.Listen("127.0.0.1:0", cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	tr := &http.Transport{DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, s.Addr())
	}}
	t.Cleanup(func() {
		tr.CloseIdleConnections()
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return s, &http.Client{Transport: tr}
}

func get(t *testing.T, c *http.Client, u string) (int, []byte) {
	t.Helper()
	resp, err := c.Get(u)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, body
}

func links(t *testing.T, base string, body []byte) []string {
	t.Helper()
	b, err := url.Parse(base)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	z := html.NewTokenizer(strings.NewReader(string(body)))
	for z.Next() != html.ErrorToken {
		for _, a := range z.Token().Attr {
			if a.Key == "href" {
				ref, err := b.Parse(a.Val)
				if err != nil {
					t.Fatal(err)
				}
				out = append(out, ref.String())
			}
		}
	}
	return out
}

// TestWeb follows every link from the first page: all pages of all hosts are
// reached, each is of the size and has the number of links that it should, and
// the server counts what it served.
func TestWeb(t *testing.T) {
	cfg := web.Config{Hosts: 4, Pages: 40, Seed: 7}
	s, c := start(t, cfg)
	_, port, _ := net.SplitHostPort(s.Addr())
	first := web.URL(0, 0, port)
	todo, seen := []string{first}, map[string]bool{first: true}
	for len(todo) > 0 {
		u := todo[0]
		todo = todo[1:]
		status, body := get(t, c, u)
		if status != 200 || len(body) != web.DefaultPageBytes {
			t.Fatalf("%s: %d, %d bytes", u, status, len(body))
		}
		found := links(t, u, body)
		if len(found) != web.DefaultLinks {
			t.Fatalf("%s: %d links, want %d", u, len(found), web.DefaultLinks)
		}
		for _, l := range found {
			if !seen[l] {
				seen[l] = true
				todo = append(todo, l)
			}
		}
	}
	if want := cfg.Hosts * cfg.Pages; len(seen) != want {
		t.Errorf("%d pages reached, want %d", len(seen), want)
	}
	get(t, c, first)
	if status, body := get(t, c, "http://"+web.Host(1)+":"+port+"/robots.txt"); status != 200 || !strings.Contains(string(body), "Disallow") {
		t.Errorf("robots.txt: %d %q", status, body)
	}
	if status, _ := get(t, c, "http://"+web.Host(1)+":"+port+"/none"); status != 404 {
		t.Errorf("a page that is not there: %d", status)
	}
	_, body := get(t, c, first+strings.TrimPrefix(web.StatsPath, "/"))
	var st web.Stats
	if err := json.Unmarshal(body, &st); err != nil {
		t.Fatal(err)
	}
	if st.Pages != 161 || st.Distinct != 160 || st.Robots != 1 || st.Other != 1 {
		t.Errorf("counts %+v", st)
	}
	get(t, c, first+strings.TrimPrefix(web.ResetPath, "/"))
	if st := s.Stats(); st.Pages != 0 || st.Distinct != 0 {
		t.Errorf("counts after a reset %+v", st)
	}
}

// TestSameSeedSameWeb: two builds on one port number would be equal; here the
// parts that do not hold the port are compared.
func TestSameSeedSameWeb(t *testing.T) {
	a, ca := start(t, web.Config{Hosts: 2, Pages: 10, Seed: 1})
	b, cb := start(t, web.Config{Hosts: 2, Pages: 10, Seed: 1})
	d, cd := start(t, web.Config{Hosts: 2, Pages: 10, Seed: 2})
	body := func(s *web.Server, c *http.Client) string {
		_, port, _ := net.SplitHostPort(s.Addr())
		_, body := get(t, c, web.URL(1, 3, port))
		return strings.ReplaceAll(string(body), ":"+port, "")
	}
	if body(a, ca) != body(b, cb) {
		t.Error("the same seed gave different pages")
	}
	if body(a, ca) == body(d, cd) {
		t.Error("different seeds gave the same page")
	}
}
