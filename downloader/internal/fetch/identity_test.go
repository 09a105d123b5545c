package fetch_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/md5"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"fmt"
	"io"
	"log"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"regexp"
	"strings"
	"testing"
	"time"

	"lycosa.dev/downloader/internal/auth"
	"lycosa.dev/downloader/internal/cookie"
	"lycosa.dev/downloader/internal/fetch"
)

// Cookies go to the host that set them and to no other; a URL that redirects to
// itself with a new cookie is asked for again, but not for ever.
func TestCookies(t *testing.T) {
	var seen []string
	s := serve(t, func(p *peer, _ int) {
		for r := p.request(); r != ""; r = p.request() {
			seen = append(seen, r)
			switch {
			case strings.HasPrefix(r, "GET /gate ") && !strings.Contains(r, "Cookie: seen=1\r\n"):
				p.say("HTTP/1.1 302 Found\r\nLocation: ./gate#x\r\nSet-Cookie: seen=1; Path=/\r\nContent-Length: 0\r\n\r\n")
			case strings.HasPrefix(r, "GET /loop "):
				p.say(fmt.Sprintf("HTTP/1.1 302 Found\r\nLocation: /loop\r\nSet-Cookie: n=%d\r\nContent-Length: 0\r\n\r\n", len(seen)))
			default:
				p.say("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na")
			}
		}
	})
	cfg := config()
	cfg.Jar = cookie.New(1 << 20)
	e := engine(t, cfg)
	res := e.Fetch(context.Background(), request(t, s, "/gate"), &page{})
	if res.Class != fetch.ClassNotStarted || res.Code != "cookie-redirect" {
		t.Fatalf("%+v", res)
	}
	var p page
	if res := e.Fetch(context.Background(), request(t, s, "/gate"), &p); res.Status != 200 {
		t.Fatalf("%+v", res)
	}
	if !strings.Contains(seen[len(seen)-1], "Cookie: seen=1\r\n") || !strings.Contains(p.request, "Cookie: redacted\r\n") || strings.Contains(p.request, "seen=1") {
		t.Errorf("sent %q, stored %q", seen[len(seen)-1], p.request)
	}
	other := request(t, s, "/gate")
	other.Target.Host, other.Target.Authority = "other.test", "other.test"
	e.Fetch(context.Background(), other, &page{})
	if strings.Contains(seen[len(seen)-1], "Cookie:") {
		t.Errorf("another host was told: %q", seen[len(seen)-1])
	}
	n := 0
	for res.Class = 0; res.Class != fetch.ClassResponse; n++ {
		res = e.Fetch(context.Background(), request(t, s, "/loop"), &page{})
		if n > 10 {
			t.Fatal("asked again for ever")
		}
	}
	if res.Status != 302 || n < 2 {
		t.Errorf("%+v after %d", res, n)
	}
	// Another job's settings have no jar.
	set := config().Settings
	req := request(t, s, "/gate")
	req.Settings = &set
	e.Fetch(context.Background(), req, &page{})
	if strings.Contains(seen[len(seen)-1], "Cookie:") {
		t.Errorf("another job was told: %q", seen[len(seen)-1])
	}
}

var digestField = regexp.MustCompile(`(\w+)="?([^",]*)"?`)

// A server that demands digest gets it with the fetch after its challenge, and
// then with every one.
func TestDigest(t *testing.T) {
	sum := func(s string) string { h := md5.Sum([]byte(s)); return hex.EncodeToString(h[:]) }
	counts := map[string]bool{}
	s := serve(t, func(p *peer, _ int) {
		for r := p.request(); r != ""; r = p.request() {
			f := map[string]string{}
			if _, a, ok := strings.Cut(r, "Authorization: Digest "); ok {
				a, _, _ = strings.Cut(a, "\r\n")
				for _, m := range digestField.FindAllStringSubmatch(a, -1) {
					f[m[1]] = m[2]
				}
			}
			want := sum(sum("u:r:pass word") + ":n1:" + f["nc"] + ":" + f["cnonce"] + ":auth:" + sum("GET:"+f["uri"]))
			if f["response"] != want || !strings.HasPrefix(r, "GET "+f["uri"]+" ") || counts[f["nc"]] {
				p.say("HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Basic realm=\"x\"\r\nWWW-Authenticate: Digest realm=\"r\", nonce=\"n1\", qop=\"auth,auth-int\", algorithm=MD5\r\nContent-Length: 0\r\n\r\n")
				continue
			}
			counts[f["nc"]] = true
			p.say("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na")
		}
	})
	run := func(password string) (out []int, last page) {
		cfg := config()
		cfg.Auth = auth.New([]auth.Credential{{Host: "127.0.0.1", Kind: "digest", User: "u", Secret: password}})
		e := engine(t, cfg)
		for range 4 {
			last = page{}
			res := e.Fetch(context.Background(), request(t, s, "/a?b"), &last)
			if res.Class == fetch.ClassNotStarted && res.Code != "auth-challenge" {
				t.Errorf("%+v", res)
			}
			out = append(out, res.Status)
		}
		return out, last
	}
	got, p := run("pass word")
	if fmt.Sprint(got) != "[0 200 200 200]" || !strings.Contains(p.request, "Authorization: redacted\r\n") {
		t.Errorf("%v, stored %q", got, p.request)
	}
	if got, _ := run("wrong"); fmt.Sprint(got) != "[0 401 401 401]" {
		t.Errorf("wrong password: %v", got)
	}
}

// Headers for hosts, ours in their place, and secrets that are stored only when
// told.
func TestHostHeadersAndSecrets(t *testing.T) {
	var seen string
	s := serve(t, func(p *peer, _ int) {
		for r := p.request(); r != ""; r = p.request() {
			seen = r
			p.say("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na")
		}
	})
	cfg := config()
	cfg.AcceptLanguage = "en"
	cfg.HostHeaders = []fetch.HostHeaders{
		{Host: "127.0.0.1", Lines: []string{"accept-language: de", "X-Key: hidden"}, Secret: true},
		{Host: "*.other.test", Lines: []string{"X-Not: for us"}},
	}
	cfg.Auth = auth.New([]auth.Credential{{Host: "127.0.0.1", Kind: "basic", User: "u", Secret: "hidden"}})
	for _, store := range []bool{false, true} {
		cfg.StoreSecrets = store
		var p page
		if res := engine(t, cfg).Fetch(context.Background(), request(t, s, "/"), &p); res.Class != fetch.ClassResponse || res.SentBytes != int64(len(seen)) {
			t.Fatalf("%+v", res)
		}
		for _, want := range []string{"\r\naccept-language: de\r\n", "\r\nX-Key: hidden\r\n", "\r\nAuthorization: Basic dTpoaWRkZW4=\r\n"} {
			if !strings.Contains(seen, want) || strings.Contains(p.request, want) != store {
				t.Errorf("%q: sent %q, stored %q", want, seen, p.request)
			}
		}
		if strings.Contains(seen, "Accept-Language: en") || strings.Contains(seen, "X-Not") {
			t.Errorf("sent %q", seen)
		}
		if !store && (strings.Count(p.request, "redacted") != 3 || !strings.HasSuffix(p.request, "\r\n\r\n")) {
			t.Errorf("stored %q", p.request)
		}
	}
	cfg.HostHeaders[0].Lines = []string{"Host: hidden"}
	if err := cfg.Validate(); err == nil || strings.Contains(err.Error(), "hidden") {
		t.Errorf("%v", err)
	}
}

// A client certificate goes to the host that it is for; sessions made with it
// serve no request without it.
func TestClientCertificate(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "crawler"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.WriteString(w, r.TLS.PeerCertificates[0].Subject.CommonName)
		}))
		s.Config.ErrorLog = log.New(io.Discard, "", 0)
		s.TLS = &tls.Config{ClientAuth: tls.RequireAnyClientCert, MaxVersion: version}
		s.EnableHTTP2 = true
		s.StartTLS()
		defer s.Close()
		cfg := config2()
		cfg.Certificates = []fetch.HostCertificate{{Host: "example.com", Certificate: &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}}}
		e := engine(t, cfg)
		addr := netip.MustParseAddrPort(s.Listener.Addr().String())
		target, _ := fetch.ParseTarget("https://example.com/")
		target.Port = addr.Port()
		req := &fetch.Request{Target: target, Addresses: []netip.Addr{addr.Addr()}}
		var p page
		if res := e.Fetch(context.Background(), req, &p); res.Class != fetch.ClassResponse || p.body != "crawler" {
			t.Fatalf("%+v %q", res, p.body)
		}
		set := config2().Settings
		req.Settings = &set
		if res := e.Fetch(context.Background(), req, &page{}); res.Class == fetch.ClassResponse || res.Reused {
			t.Errorf("without a certificate: %+v", res)
		}
	}
}
