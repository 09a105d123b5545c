package fetch

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"lycosa.dev/downloader/internal/auth"
	"lycosa.dev/downloader/internal/cookie"
	"lycosa.dev/downloader/internal/proxy"
	"lycosa.dev/internal/job"
	"lycosa.dev/internal/netpolicy"
	crawlv1 "lycosa.dev/proto/gen/lycosa/crawl/v1"
)

// Settings are what one exchange needs to be told: who asks, and within which
// limits. Start from Default.
type Settings struct {
	// UserAgent is sent with every request.
	UserAgent string
	// From is the operator's mail address, sent as From; empty: not sent.
	From string
	// Accept is sent as Accept.
	Accept string
	// AcceptEncoding is sent as Accept-Encoding; empty: not sent.
	AcceptEncoding string
	// AcceptLanguage is sent as Accept-Language; empty: not sent.
	AcceptLanguage string
	// Headers are further header lines, "Name: value"; see CheckHeader. One that
	// is named Accept, Accept-Language or From takes the place of ours.
	Headers []string
	// HostHeaders are header lines for some hosts.
	HostHeaders []HostHeaders

	// Jar keeps cookies between exchanges; nil: none are sent or kept.
	Jar *cookie.Jar
	// Auth answers servers that ask who we are; nil: nobody does.
	Auth *auth.Auth
	// Certificates are ours for some hosts; the first that matches counts.
	Certificates []HostCertificate
	// StoreSecrets leaves credentials and cookies in the request that the Sink
	// is given. Otherwise their values are replaced by "redacted".
	StoreSecrets bool
	// Proxies say how hosts are reached. The address policy counts for what lies
	// behind them; ProxyNets are networks in which they themselves may lie.
	Proxies   proxy.Rules
	ProxyNets []netip.Prefix

	// ConnectTimeout bounds connecting, over all addresses together.
	ConnectTimeout time.Duration
	// TLSTimeout bounds the TLS handshake.
	TLSTimeout time.Duration
	// FirstByteTimeout bounds the wait from the request to the first byte of
	// the response.
	FirstByteTimeout time.Duration
	// HeadTimeout bounds the time from the response's first byte to the end of
	// its header block.
	HeadTimeout time.Duration
	// IdleTimeout bounds the wait between two bytes of a response.
	IdleTimeout time.Duration
	// TotalTimeout bounds the whole exchange, connecting included.
	TotalTimeout time.Duration
	// MinRateBytes is the least number of bytes a second, on average, at which a
	// body is still received, once MinRateGrace has passed; 0: no minimum.
	MinRateBytes int64
	// MinRateGrace is how long a body may be slower than MinRateBytes.
	MinRateGrace time.Duration
	// MaxBodyBytes bounds a body, counted on the wire; a longer one is cut.
	MaxBodyBytes int64

	// Policy says which addresses may be connected to.
	Policy netpolicy.Policy
	// Verify says what happens when a certificate is not valid.
	Verify Verify
	// HTTP2 speaks HTTP/2 with servers that offer it (by ALPN).
	HTTP2 bool
	// LegacyTLS tries servers that refuse today's TLS once more, with the versions
	// and cipher suites of old ones, and remembers for a day that they need it.
	LegacyTLS bool
}

// With returns settings with what a lease's overlay changes in its request.
func (s *Settings) With(o *crawlv1.RequestOverlay) *Settings {
	if o == nil {
		return s
	}
	c := *s
	if ua := o.GetUserAgent(); ua != "" {
		c.UserAgent = ua
	}
	replaced := o.GetHeaders()
	if l := o.GetAcceptLanguage(); l != "" {
		c.AcceptLanguage = l
		replaced = append(slices.Clip(replaced), "Accept-Language: "+l)
	}
	if len(replaced) > 0 {
		c.Headers = append(slices.Clip(job.WithoutHeaders(c.Headers, replaced)), o.GetHeaders()...)
		c.HostHeaders = slices.Clone(c.HostHeaders)
		for i := range c.HostHeaders {
			c.HostHeaders[i].Lines = job.WithoutHeaders(c.HostHeaders[i].Lines, replaced)
		}
	}
	return &c
}

// HostHeaders are header lines for the hosts of a pattern (job.MatchHost).
type HostHeaders struct {
	Host  string
	Lines []string
	// Secret keeps the values out of stored requests.
	Secret bool
}

// HostCertificate is a client certificate for the hosts of a pattern.
type HostCertificate struct {
	Host        string
	Certificate *tls.Certificate
}

// Config sets up an engine. Start from Default.
type Config struct {
	// Settings are for requests that bring none of their own.
	Settings

	// MaxHeadBytes bounds a response's header block.
	MaxHeadBytes int
	// KeepAlive is how long a connection is kept without use; 0: connections
	// are not kept.
	KeepAlive time.Duration
	// MaxOpen bounds the connections open at a time, kept ones included; 0: as
	// many as the process's limit of open files allows (package descriptors). A
	// fetch beyond it has a kept connection closed, or waits for ConnectTimeout.
	MaxOpen int
	// MaxIdle bounds the connections kept, over all hosts, and never is above
	// MaxOpen; the least recently used goes first.
	MaxIdle int
	// MaxIdlePerHost bounds the connections kept to one address of a host. How
	// many are open at a time is for the leases to say, not for this.
	MaxIdlePerHost int

	// TLSSessions bounds the sessions remembered for resumption, of each kind of
	// session; 0: none.
	TLSSessions int
	// RootCAs are the authorities trusted; nil: the system's.
	RootCAs *x509.CertPool
	// AcceptHTTP09 takes a response without a status line on the scheme's
	// default port for HTTP/0.9, as old browsers do. Otherwise it is a
	// protocol error.
	AcceptHTTP09 bool
}

// Verify says what happens when a server's certificate is not valid.
type Verify string

// The settings of Verify.
const (
	// VerifyStrict ends the exchange with a TLS failure.
	VerifyStrict Verify = "strict"
	// VerifyRecord goes on and notes the fact.
	VerifyRecord Verify = "record"
)

// Default returns the settings that suit a polite crawl of the web. UserAgent
// is to be set by the caller.
func Default() Config {
	return Config{
		Settings: Settings{
			UserAgent:        "Lycosa",
			Accept:           "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8",
			AcceptEncoding:   "gzip, deflate, br, zstd",
			ConnectTimeout:   10 * time.Second,
			TLSTimeout:       10 * time.Second,
			FirstByteTimeout: 30 * time.Second,
			HeadTimeout:      30 * time.Second,
			IdleTimeout:      30 * time.Second,
			TotalTimeout:     20 * time.Minute,
			MinRateBytes:     64,
			MinRateGrace:     30 * time.Second,
			MaxBodyBytes:     100 << 20,
			Verify:           VerifyStrict,
			HTTP2:            true,
			LegacyTLS:        true,
		},
		MaxHeadBytes:   256 << 10,
		KeepAlive:      75 * time.Second,
		MaxIdle:        1024,
		MaxIdlePerHost: 256,
		TLSSessions:    4096,
	}
}

// Validate returns all that is wrong with the settings of one exchange.
func (s *Settings) Validate() error {
	var errs []error
	for _, d := range []struct {
		name string
		d    time.Duration
	}{
		{"connect_timeout", s.ConnectTimeout},
		{"tls_timeout", s.TLSTimeout},
		{"first_byte_timeout", s.FirstByteTimeout},
		{"head_timeout", s.HeadTimeout},
		{"idle_timeout", s.IdleTimeout},
		{"total_timeout", s.TotalTimeout},
	} {
		if d.d <= 0 {
			errs = append(errs, fmt.Errorf("%s: must be above 0, is %v", d.name, d.d))
		}
	}
	if s.MinRateGrace < 0 || s.MinRateBytes < 0 {
		errs = append(errs, errors.New("min_rate_grace, min_rate: must be 0 or more"))
	}
	if s.MaxBodyBytes < 1 {
		errs = append(errs, fmt.Errorf("max_page: must be 1 or more, is %d", s.MaxBodyBytes))
	}
	if s.Verify != VerifyStrict && s.Verify != VerifyRecord {
		errs = append(errs, fmt.Errorf("verify_tls: must be strict or record, is %q", s.Verify))
	}
	for _, h := range []struct{ name, v string }{
		{"user_agent", s.UserAgent},
		{"from", s.From},
		{"accept", s.Accept},
		{"accept_encoding", s.AcceptEncoding},
		{"accept_language", s.AcceptLanguage},
	} {
		if strings.ContainsFunc(h.v, isControl) {
			errs = append(errs, fmt.Errorf("%s: must be one line of text, %q holds control characters", h.name, h.v))
		}
	}
	if strings.TrimSpace(s.UserAgent) == "" {
		errs = append(errs, errors.New("user_agent: is empty; give a name that site owners can look up"))
	}
	for _, h := range s.Headers {
		if err := CheckHeader(h); err != nil {
			errs = append(errs, err)
		}
	}
	for _, h := range s.HostHeaders {
		for _, line := range h.Lines {
			err := CheckHeader(line)
			if err != nil && h.Secret {
				err = fmt.Errorf("headers of %s: the secret must be one line \"Name: value\" with a name that the downloader does not set itself", h.Host)
			}
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// Validate returns all that is wrong with the configuration.
func (c *Config) Validate() error {
	errs := []error{c.Settings.Validate()}
	if c.MaxHeadBytes < 1<<10 || c.MaxHeadBytes > 16<<20 {
		errs = append(errs, fmt.Errorf("max_head: must be 1 KiB to 16 MiB, is %d", c.MaxHeadBytes))
	}
	if c.TLSSessions < 0 || c.TLSSessions > 1<<20 {
		errs = append(errs, fmt.Errorf("tls_sessions: must be 0 to 1048576, is %d", c.TLSSessions))
	}
	if c.MaxOpen < 0 {
		errs = append(errs, fmt.Errorf("max_open: must be 0 or more, is %d", c.MaxOpen))
	}
	if c.KeepAlive < 0 || c.MaxIdle < 0 || c.MaxIdlePerHost < 0 {
		errs = append(errs, errors.New("keep_alive, max_idle, max_idle_per_host: must be 0 or more"))
	}
	return errors.Join(errs...)
}

// CheckHeader says why a line "Name: value" cannot be sent with a request.
func CheckHeader(line string) error {
	if err := job.CheckHeader(line); err != nil {
		return fmt.Errorf("headers: %w", err)
	}
	return nil
}

func isControl(r rune) bool { return r < ' ' || r == 0x7f }
