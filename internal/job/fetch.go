package job

import (
	"fmt"
	"net"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	jobv1 "lycosa.dev/proto/gen/lycosa/job/v1"
)

// Defaults of how a fetch is made, beside those in this package's other files.
const (
	DefaultHeadTimeout     = DefaultFirstByteTimeout
	DefaultMinRateBytes    = 64
	DefaultMinRateGrace    = DefaultIdleTimeout
	DefaultMaxDecodedBytes = 64 << 20
	DefaultMaxDecodedRatio = 500
	DefaultMaxCookieBytes  = 1 << 20
)

func fetchDefaults(f *jobv1.Fetch) {
	setDuration(&f.HeadTimeout, DefaultHeadTimeout)
	setDuration(&f.MinRateGrace, DefaultMinRateGrace)
	if f.MinRateBytes == nil {
		f.MinRateBytes = proto.Int64(DefaultMinRateBytes)
	}
	set(&f.MaxDecodedBytes, DefaultMaxDecodedBytes)
	set(&f.MaxDecodedRatio, DefaultMaxDecodedRatio)
	setBool(&f.Http2, true)
	setBool(&f.LegacyTls, true)
	set(&f.MaxCookieBytes, DefaultMaxCookieBytes)
}

// credentialKinds are the kinds of lycosa.job.v1.Credential.
var credentialKinds = []string{"basic", "digest", "bearer", "header", "certificate"}

var secretName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// validateIdentity checks what a spec says of who we are to some hosts, and by
// which way they are reached.
func validateIdentity(f *jobv1.Fetch, bad func(field, format string, args ...any)) {
	for _, d := range []struct {
		field string
		n     int64
	}{{"min_rate_bytes", f.GetMinRateBytes()}, {"max_decoded_bytes", f.GetMaxDecodedBytes()}, {"max_cookie_bytes", f.GetMaxCookieBytes()}} {
		if d.n < 0 {
			bad("fetch."+d.field, "must not be negative, is %d", d.n)
		}
	}
	if n := f.GetMaxCookieBytes(); n > 64<<20 {
		bad("fetch.max_cookie_bytes", "must be at most 64 MiB, is %d", n)
	}
	if f.GetHeadTimeout().AsDuration() < 0 || f.GetMinRateGrace().AsDuration() < 0 {
		bad("fetch.head_timeout, fetch.min_rate_grace", "must not be negative")
	}
	if strings.ContainsAny(f.GetAcceptLanguage(), "\r\n\x00") {
		bad("fetch.accept_language", "must be one line of text, is %q", f.GetAcceptLanguage())
	}
	secret := func(field, name string) {
		if !secretName.MatchString(name) {
			bad(field, "must be the name of a secret (letters, digits, \"-\", \"_\"), not the secret itself")
		}
	}
	if f.GetCookiesSecret() != "" {
		secret("fetch.cookies_secret", f.GetCookiesSecret())
	}
	for i, h := range f.GetHostHeaders() {
		at := fmt.Sprintf("fetch.host_headers[%d].", i)
		if err := CheckHostPattern(h.GetHost()); err != nil {
			bad(at+"host", "%v", err)
		}
		for j, line := range h.GetHeaders() {
			checkHeader(fmt.Sprintf("%sheaders[%d]", at, j), line, bad)
		}
	}
	for i, c := range f.GetCredentials() {
		at := fmt.Sprintf("fetch.credentials[%d].", i)
		if err := CheckHostPattern(c.GetHost()); err != nil {
			bad(at+"host", "%v", err)
		} else if c.GetHost() == "*" {
			bad(at+"host", "is \"*\": credentials are for named hosts only")
		}
		if !oneOf(c.GetKind(), credentialKinds) {
			bad(at+"kind", "%s", unknown(c.GetKind(), credentialKinds))
		}
		if k := c.GetKind(); (k == "basic" || k == "digest") && (c.GetUser() == "" || strings.ContainsAny(c.GetUser(), "\r\n\x00")) {
			bad(at+"user", "must be a user name on one line, is %q", c.GetUser())
		}
		secret(at+"secret", c.GetSecret())
	}
	for i, r := range f.GetProxies() {
		at := fmt.Sprintf("fetch.proxies[%d].", i)
		if err := CheckHostPattern(r.GetHost()); err != nil {
			bad(at+"host", "%v", err)
		}
		if len(r.GetUrls()) == 0 {
			bad(at+"urls", "is empty; name at least one proxy, or \"direct\"")
		}
		for j, u := range r.GetUrls() {
			if _, _, err := ParseProxy(u); err != nil {
				bad(fmt.Sprintf("%surls[%d]", at, j), "%v", err)
			}
		}
		if r.GetSecret() != "" {
			secret(at+"secret", r.GetSecret())
		}
	}
}

func checkHeader(field, h string, bad func(field, format string, args ...any)) {
	if err := CheckHeader(h); err != nil {
		bad(field, "%v", err)
	}
}

// ownHeaders are fields that the downloader sets itself: the framing of an
// exchange, its conditions, and who we are.
var ownHeaders = []string{
	"host", "connection", "keep-alive", "content-length", "transfer-encoding", "upgrade", "te", "trailer", "expect",
	"if-none-match", "if-modified-since", "user-agent", "accept-encoding", "proxy-connection", "proxy-authorization", "range",
}

// CheckHeader says why a line "Name: value" cannot be sent with a request.
func CheckHeader(line string) error {
	name, _, ok := strings.Cut(line, ":")
	isControl := func(r rune) bool { return r < ' ' || r == 0x7f }
	if !ok || name == "" || strings.ContainsFunc(line, isControl) || strings.ContainsFunc(name, func(r rune) bool {
		return r <= ' ' || r > '~' || strings.ContainsRune("\"(),/;<=>?@[\\]{}", r)
	}) {
		return fmt.Errorf("must be \"Name: value\" on one line, is %q", line)
	}
	if slices.Contains(ownHeaders, strings.ToLower(name)) {
		return fmt.Errorf("%q is set by the downloader itself", name)
	}
	return nil
}

// CheckHostPattern says what is wrong with a pattern of hosts: a host, a host
// key, "*.domain" or "*".
func CheckHostPattern(p string) error {
	rest := strings.TrimPrefix(p, "*.")
	if p == "*" {
		return nil
	}
	if rest == "" || strings.ContainsAny(rest, "*/@ \t\r\n\x00") || rest != strings.ToLower(rest) {
		return fmt.Errorf("must be a host such as example.org or example.org:8080 in lower case, *.example.org, or *, is %q", p)
	}
	return nil
}

// MatchHost tells whether a pattern covers a host key. A pattern without a port
// covers every port of its host; "*.example.org" covers all below example.org,
// not itself.
func MatchHost(pattern, hostKey string) bool {
	if pattern == "*" || pattern == hostKey {
		return true
	}
	host := hostKey
	if i := strings.LastIndexByte(hostKey, ':'); i >= 0 && !strings.HasSuffix(hostKey, "]") {
		host = hostKey[:i]
	}
	if domain, ok := strings.CutPrefix(pattern, "*."); ok {
		return len(host) > len(domain)+1 && strings.HasSuffix(host, domain) && host[len(host)-len(domain)-1] == '.'
	}
	return pattern == host
}

// Ports of proxies that name none.
var proxyPorts = map[string]string{"http": "3128", "https": "443", "socks5": "1080", "socks5h": "1080"}

// ParseProxy reads a proxy's URL into its scheme and address; "direct" is the
// scheme of no proxy. Credentials are not part of it.
func ParseProxy(s string) (scheme, addr string, err error) {
	if s == "direct" {
		return s, "", nil
	}
	u, err := url.Parse(s)
	if err != nil || u.Host == "" || proxyPorts[u.Scheme] == "" {
		return "", "", fmt.Errorf("must be http://HOST:PORT, https://…, socks5://…, socks5h://… or direct, is %q", clip(s))
	}
	if u.User != nil {
		return "", "", fmt.Errorf("the URL of a proxy holds a user name or a password; give them as user and secret")
	}
	port := u.Port()
	if port == "" {
		port = proxyPorts[u.Scheme]
	}
	return u.Scheme, net.JoinHostPort(u.Hostname(), port), nil
}

// clip bounds what an error shows, and hides what may be a password.
func clip(s string) string {
	if i := strings.LastIndexByte(s, '@'); i >= 0 {
		s = "…" + s[i:]
	}
	return s[:min(len(s), 120)]
}
