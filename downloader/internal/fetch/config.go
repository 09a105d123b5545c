package fetch

import (
	"crypto/x509"
	"errors"
	"fmt"
	"strings"
	"time"

	"lycosa.dev/internal/netpolicy"
)

// Config sets the engine's identity and limits. Start from Default.
type Config struct {
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

	// ConnectTimeout bounds connecting, over all addresses together.
	ConnectTimeout time.Duration
	// TLSTimeout bounds the TLS handshake.
	TLSTimeout time.Duration
	// FirstByteTimeout bounds the wait from the request to the first byte of
	// the response.
	FirstByteTimeout time.Duration
	// IdleTimeout bounds the wait between two bytes of a response.
	IdleTimeout time.Duration
	// TotalTimeout bounds the whole exchange, connecting included.
	TotalTimeout time.Duration
	// MinRateBytes is the least number of bytes a second, on average, at which a
	// body is still received, once MinRateGrace has passed; 0: no minimum.
	MinRateBytes int64
	// MinRateGrace is how long a body may be slower than MinRateBytes.
	MinRateGrace time.Duration

	// MaxHeadBytes bounds a response's header block.
	MaxHeadBytes int
	// MaxBodyBytes bounds a body, counted on the wire; a longer one is cut.
	MaxBodyBytes int64

	// KeepAlive is how long a connection is kept without use; 0: connections
	// are not kept.
	KeepAlive time.Duration
	// MaxIdle bounds the connections kept, over all hosts; the least recently
	// used goes first.
	MaxIdle int
	// MaxIdlePerHost bounds the connections kept to one host's address.
	MaxIdlePerHost int

	// Policy says which addresses may be connected to.
	Policy netpolicy.Policy
	// Verify says what happens when a certificate is not valid.
	Verify Verify
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
		UserAgent:        "Lycosa",
		Accept:           "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8",
		AcceptEncoding:   "gzip, deflate, br, zstd",
		ConnectTimeout:   15 * time.Second,
		TLSTimeout:       15 * time.Second,
		FirstByteTimeout: 60 * time.Second,
		IdleTimeout:      30 * time.Second,
		TotalTimeout:     10 * time.Minute,
		MinRateBytes:     64,
		MinRateGrace:     30 * time.Second,
		MaxHeadBytes:     256 << 10,
		MaxBodyBytes:     1 << 30,
		KeepAlive:        75 * time.Second,
		MaxIdle:          1024,
		MaxIdlePerHost:   8,
		Verify:           VerifyStrict,
	}
}

// Validate returns all that is wrong with the settings.
func (c *Config) Validate() error {
	var errs []error
	for _, d := range []struct {
		name string
		d    time.Duration
	}{
		{"connect_timeout", c.ConnectTimeout}, {"tls_timeout", c.TLSTimeout},
		{"first_byte_timeout", c.FirstByteTimeout}, {"idle_timeout", c.IdleTimeout}, {"total_timeout", c.TotalTimeout},
	} {
		if d.d <= 0 {
			errs = append(errs, fmt.Errorf("%s: %v; want a duration above 0", d.name, d.d))
		}
	}
	if c.KeepAlive < 0 || c.MinRateGrace < 0 || c.MinRateBytes < 0 {
		errs = append(errs, errors.New("keep_alive, min_rate_grace, min_rate_bytes: want 0 or more"))
	}
	if c.MaxHeadBytes < 1<<10 || c.MaxHeadBytes > 16<<20 {
		errs = append(errs, fmt.Errorf("max_head_bytes: %d; want 1 KiB to 16 MiB", c.MaxHeadBytes))
	}
	if c.MaxBodyBytes < 1 {
		errs = append(errs, fmt.Errorf("max_body_bytes: %d; want 1 or more", c.MaxBodyBytes))
	}
	if c.MaxIdle < 0 || c.MaxIdlePerHost < 0 {
		errs = append(errs, errors.New("max_idle, max_idle_per_host: want 0 or more"))
	}
	if c.Verify != VerifyStrict && c.Verify != VerifyRecord {
		errs = append(errs, fmt.Errorf("verify: %q; want strict or record", c.Verify))
	}
	for _, h := range []struct{ name, v string }{
		{"user_agent", c.UserAgent}, {"from", c.From}, {"accept", c.Accept},
		{"accept_encoding", c.AcceptEncoding}, {"accept_language", c.AcceptLanguage},
	} {
		if strings.ContainsFunc(h.v, func(r rune) bool { return r < ' ' || r == 0x7f }) {
			errs = append(errs, fmt.Errorf("%s: %q holds control characters; want one line of text", h.name, h.v))
		}
	}
	if strings.TrimSpace(c.UserAgent) == "" {
		errs = append(errs, errors.New("user_agent: empty; want a name that site owners can look up"))
	}
	return errors.Join(errs...)
}
