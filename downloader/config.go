package downloader

import (
	"errors"
	"fmt"
	"time"

	"lycosa.dev/downloader/internal/fetch"
	"lycosa.dev/internal/config"
	"lycosa.dev/internal/netpolicy"
	"lycosa.dev/internal/service"
	"lycosa.dev/internal/telemetry"
)

// Port is the first downloader's default port; the next ones take 7172, 7272 …
const Port = 7072

// Config is the downloader's settings. What a job says of its own fetches wins
// over them.
type Config struct {
	service.Config `yaml:",inline"`

	Scheduler    string        `yaml:"scheduler" usage:"address of the scheduler to join"`
	Capacity     int           `yaml:"capacity" usage:"leases worked on at a time"`
	MaxLease     time.Duration `yaml:"max_lease" usage:"how long a lease may take with everything that follows, before it is given up"`
	DrainTimeout time.Duration `yaml:"drain_timeout" usage:"how long leases may take to end when the downloader stops"`

	UserAgent      string   `yaml:"user_agent" usage:"User-Agent for jobs that name none"`
	AcceptLanguage string   `yaml:"accept_language" usage:"Accept-Language to send; empty: none"`
	AllowNet       []string `yaml:"allow_net" usage:"networks that may be connected to although they are private, loopback or otherwise special"`
	JobNets        bool     `yaml:"job_nets" usage:"whether jobs may open further networks by their own fetch.allow_net"`
	VerifyTLS      string   `yaml:"verify_tls" usage:"strict: a bad certificate is a failure; record: it is noted and the page fetched"`

	ProxyNet   []string `yaml:"proxy_net" usage:"networks in which the proxies of jobs may lie although they are private, loopback or otherwise special"`
	SecretsDir string   `yaml:"secrets_dir" usage:"folder of the secrets that jobs name, a file each (mode 0600); also LYCOSA_SECRET_<NAME>"`
	CookiesDir string   `yaml:"cookies_dir" usage:"folder in which the jobs' cookies are kept, a cookies.txt each; empty: in memory only"`

	ConnectTimeout   time.Duration `yaml:"connect_timeout" usage:"limit of connecting, over all addresses of a host"`
	TLSTimeout       time.Duration `yaml:"tls_timeout" usage:"limit of the TLS handshake"`
	FirstByteTimeout time.Duration `yaml:"first_byte_timeout" usage:"limit from the request to the first byte of the response"`
	HeadTimeout      time.Duration `yaml:"head_timeout" usage:"limit from the response's first byte to the end of its header block"`
	IdleTimeout      time.Duration `yaml:"idle_timeout" usage:"limit between two bytes of a response"`
	TotalTimeout     time.Duration `yaml:"total_timeout" usage:"limit of a whole fetch"`
	MinRate          config.Size   `yaml:"min_rate" usage:"least bytes a second on average; 0: no minimum"`
	MinRateGrace     time.Duration `yaml:"min_rate_grace" usage:"how long a body may be slower than min_rate"`
	MaxPage          config.Size   `yaml:"max_page" usage:"bytes of a body, as received, beyond which it is cut"`
	MaxHead          config.Size   `yaml:"max_head" usage:"bytes of a response's header block beyond which it is refused"`

	KeepAlive      time.Duration `yaml:"keep_alive" usage:"how long a connection is kept without use; 0: not at all"`
	MaxOpen        int           `yaml:"max_open" usage:"connections open at a time; 0: as many as the limit of open files allows"`
	MaxIdle        int           `yaml:"max_idle" usage:"connections kept without use, over all hosts"`
	MaxIdlePerHost int           `yaml:"max_idle_per_host" usage:"connections kept without use to one address of a host"`
	HTTP2          bool          `yaml:"http2" usage:"speak HTTP/2 with servers that offer it"`
	LegacyTLS      bool          `yaml:"legacy_tls" usage:"try servers that refuse today's TLS with what old ones speak"`
	TLSSessions    int           `yaml:"tls_sessions" usage:"TLS sessions remembered for resumption; 0: none"`
	AcceptHTTP09   bool          `yaml:"accept_http09" usage:"take a response without a status line, on a default port, for a page"`
}

// Default returns the settings of a downloader on this machine.
func Default() Config {
	f := fetch.Default()
	return Config{
		Config:       service.Defaults("downloader", Port),
		Scheduler:    "127.0.0.1:7071",
		Capacity:     512,
		MaxLease:     time.Hour,
		DrainTimeout: 20 * time.Second,

		UserAgent: "Lycosa/" + telemetry.Version(),
		JobNets:   true,
		VerifyTLS: string(f.Verify),

		ConnectTimeout:   f.ConnectTimeout,
		TLSTimeout:       f.TLSTimeout,
		FirstByteTimeout: f.FirstByteTimeout,
		HeadTimeout:      f.HeadTimeout,
		IdleTimeout:      f.IdleTimeout,
		TotalTimeout:     f.TotalTimeout,
		MinRate:          config.Size(f.MinRateBytes),
		MinRateGrace:     f.MinRateGrace,
		MaxPage:          config.Size(f.MaxBodyBytes),
		MaxHead:          config.Size(f.MaxHeadBytes),

		KeepAlive:      f.KeepAlive,
		MaxIdle:        f.MaxIdle,
		MaxIdlePerHost: f.MaxIdlePerHost,
		HTTP2:          f.HTTP2,
		LegacyTLS:      f.LegacyTLS,
		TLSSessions:    f.TLSSessions,
	}
}

// Validate returns all problems.
func (c Config) Validate() error {
	errs := []error{c.Config.Validate()}
	if c.Scheduler == "" {
		errs = append(errs, errors.New("scheduler: is empty; give the scheduler's address, such as 127.0.0.1:7071"))
	}
	if c.Capacity < 1 || c.Capacity > 100000 {
		errs = append(errs, fmt.Errorf("capacity: must be 1 to 100000, is %d", c.Capacity))
	}
	if c.MaxLease <= 0 {
		errs = append(errs, fmt.Errorf("max_lease: must be positive, is %s", c.MaxLease))
	}
	if c.DrainTimeout < 0 {
		errs = append(errs, fmt.Errorf("drain_timeout: must not be negative, is %s", c.DrainTimeout))
	}
	engine, err := c.engine()
	if err == nil {
		err = engine.Validate()
	}
	return errors.Join(append(errs, err)...)
}

// engine returns the fetch engine's configuration.
func (c Config) engine() (fetch.Config, error) {
	f := fetch.Default()
	nets, err := netpolicy.ParseNets(c.AllowNet)
	if err != nil {
		return f, fmt.Errorf("allow_net: %w", err)
	}
	f.Policy = netpolicy.Policy{AllowNets: nets}
	if f.ProxyNets, err = netpolicy.ParseNets(c.ProxyNet); err != nil {
		return f, fmt.Errorf("proxy_net: %w", err)
	}
	f.UserAgent, f.AcceptLanguage = c.UserAgent, c.AcceptLanguage
	f.Verify = fetch.Verify(c.VerifyTLS)
	f.ConnectTimeout, f.TLSTimeout, f.FirstByteTimeout = c.ConnectTimeout, c.TLSTimeout, c.FirstByteTimeout
	f.HeadTimeout, f.IdleTimeout, f.TotalTimeout = c.HeadTimeout, c.IdleTimeout, c.TotalTimeout
	f.MinRateBytes, f.MinRateGrace = int64(c.MinRate), c.MinRateGrace
	f.MaxBodyBytes, f.MaxHeadBytes = int64(c.MaxPage), int(c.MaxHead)
	f.MaxOpen = c.MaxOpen
	f.KeepAlive, f.MaxIdle, f.MaxIdlePerHost = c.KeepAlive, c.MaxIdle, c.MaxIdlePerHost
	f.AcceptHTTP09 = c.AcceptHTTP09
	f.HTTP2, f.LegacyTLS, f.TLSSessions = c.HTTP2, c.LegacyTLS, c.TLSSessions
	return f, nil
}
