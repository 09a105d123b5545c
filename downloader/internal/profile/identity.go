package profile

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"time"

	"lycosa.dev/downloader/internal/auth"
	"lycosa.dev/downloader/internal/cookie"
	"lycosa.dev/downloader/internal/fetch"
	"lycosa.dev/downloader/internal/proxy"
	"lycosa.dev/internal/job"
	jobv1 "lycosa.dev/proto/gen/lycosa/job/v1"
)

// identity adds who we are to hosts, and by which way they are reached. Errors
// name the field and never hold a secret.
func (p *Profiles) identity(s *fetch.Settings, jobID string, f *jobv1.Fetch) error {
	s.StoreSecrets = f.GetStoreSecrets()
	for _, h := range f.GetHostHeaders() {
		s.HostHeaders = append(s.HostHeaders, fetch.HostHeaders{Host: h.GetHost(), Lines: h.GetHeaders()})
	}
	if f.GetCookies() {
		most := f.GetMaxCookieBytes()
		if most <= 0 {
			most = job.DefaultMaxCookieBytes
		}
		var err error
		if s.Jar, err = p.jars.Get(jobID, most, func(j *cookie.Jar) error { return p.seed(j, f.GetCookiesSecret()) }); err != nil {
			return fmt.Errorf("fetch.cookies_secret: %w", err)
		}
	}
	if err := p.credentials(s, f.GetCredentials()); err != nil {
		return err
	}
	return p.proxies(s, f.GetProxies())
}

func (p *Profiles) seed(j *cookie.Jar, name string) error {
	if name == "" {
		return nil
	}
	b, err := p.secrets.Value(name)
	if err != nil {
		return err
	}
	_, err = j.ReadNetscape(bytes.NewReader(b), time.Now())
	return err
}

func (p *Profiles) credentials(s *fetch.Settings, list []*jobv1.Credential) error {
	var known []auth.Credential
	for i, c := range list {
		value, err := p.secrets.Value(c.GetSecret())
		if err != nil {
			return fmt.Errorf("fetch.credentials[%d].secret: %w", i, err)
		}
		switch c.GetKind() {
		case "basic", "digest", "bearer":
			if bytes.ContainsAny(value, "\r\n\x00") {
				return fmt.Errorf("fetch.credentials[%d].secret: the secret must be one line", i)
			}
			known = append(known, auth.Credential{Host: c.GetHost(), Kind: c.GetKind(), User: c.GetUser(), Secret: string(value)})
		case "header":
			s.HostHeaders = append(s.HostHeaders, fetch.HostHeaders{Host: c.GetHost(), Lines: []string{string(value)}, Secret: true})
		case "certificate":
			cert, err := tls.X509KeyPair(value, value)
			if err != nil {
				return fmt.Errorf("fetch.credentials[%d].secret: must be PEM with a certificate (its chain after it) and its key: %w", i, err)
			}
			s.Certificates = append(s.Certificates, fetch.HostCertificate{Host: c.GetHost(), Certificate: &cert})
		default:
			return fmt.Errorf("fetch.credentials[%d].kind: %q is not known", i, c.GetKind())
		}
	}
	if known != nil {
		s.Auth = auth.New(known)
	}
	return nil
}

func (p *Profiles) proxies(s *fetch.Settings, list []*jobv1.ProxyRule) error {
	for i, r := range list {
		rule := &proxy.Rule{Host: r.GetHost(), RemoteDNS: r.GetRemoteDns()}
		password := ""
		if r.GetSecret() != "" {
			b, err := p.secrets.Value(r.GetSecret())
			if err != nil {
				return fmt.Errorf("fetch.proxies[%d].secret: %w", i, err)
			}
			password = string(b)
		}
		for j, u := range r.GetUrls() {
			scheme, addr, err := job.ParseProxy(u)
			switch {
			case err != nil:
				return fmt.Errorf("fetch.proxies[%d].urls[%d]: %w", i, j, err)
			case scheme == "direct" && len(r.GetUrls()) > 1:
				return fmt.Errorf("fetch.proxies[%d].urls: \"direct\" stands alone, a host that has proxies is never fetched without", i)
			case scheme != "direct":
				rule.Upstreams = append(rule.Upstreams, &proxy.Upstream{Scheme: scheme, Addr: addr, User: r.GetUser(), Password: password})
			}
		}
		s.Proxies = append(s.Proxies, rule)
	}
	return nil
}
