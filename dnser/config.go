package dnser

import (
	"errors"
	"fmt"
	"net/netip"
	"time"

	"lycosa.dev/dnser/internal/resolver"
	"lycosa.dev/dnser/internal/static"
	"lycosa.dev/dnser/internal/upstream"
	"lycosa.dev/internal/descriptors"
	"lycosa.dev/internal/service"
)

// Port is the dnser's default port.
const Port = 7074

// Config is the dnser's settings.
type Config struct {
	service.Config `yaml:",inline"`

	Scheduler   string        `yaml:"scheduler" usage:"address of the scheduler"`
	ResolveWait time.Duration `yaml:"resolve_wait" usage:"how long a page's links wait for addresses; slower names go on without"`
	Window      int           `yaml:"window" usage:"pages worked on at a time: of each extractor's stream, and towards the scheduler"`

	DNS        []string `yaml:"dns" usage:"DNS servers, ADDR or ADDR:PORT, in order of preference; none: those of resolv_conf"`
	ResolvConf string   `yaml:"resolv_conf" usage:"file that names the DNS servers"`
	Rotate     bool     `yaml:"rotate" usage:"spread the questions over the DNS servers"`
	IPv4Only   bool     `yaml:"ipv4_only" usage:"ask for IPv4 addresses only"`
	Resolve    []string `yaml:"resolve" usage:"HOST:ADDR in place of DNS, for every job; * is every host"`

	TryTimeout  time.Duration `yaml:"try_timeout" usage:"limit of one question to one server; doubles in the second round"`
	Timeout     time.Duration `yaml:"timeout" usage:"limit of a name as a whole"`
	MaxInFlight int           `yaml:"max_in_flight" usage:"names asked at a time; fewer where the limit of open files is low"`

	Hedge        time.Duration `yaml:"hedge" usage:"a DNS server that takes longer is overtaken by the next one; 0: never"`
	ServerRate   int           `yaml:"server_rate" usage:"questions a second to one DNS server at most; 0: no limit"`
	MaxStale     time.Duration `yaml:"max_stale" usage:"expired addresses are used so long while the DNS servers fail or are slow; 0: never"`
	StaleWait    time.Duration `yaml:"stale_wait" usage:"how long a fresh answer is waited for before an expired one is used"`
	PrefetchUses int           `yaml:"prefetch_uses" usage:"names asked for so often are asked again shortly before they expire; 0: none"`
	WARCDir      string        `yaml:"warc_dir" usage:"folder for the answers of the DNS servers as WARC records; empty: none"`

	CacheEntries   int           `yaml:"cache_entries" usage:"names kept in the cache"`
	CacheBytes     int           `yaml:"cache_bytes" usage:"memory that the cache may take"`
	CacheFile      string        `yaml:"cache_file" usage:"file that keeps the cache across restarts; empty: none"`
	CacheSave      time.Duration `yaml:"cache_save" usage:"time between two writes of the cache's file"`
	MinTTL         time.Duration `yaml:"min_ttl" usage:"addresses are kept at least so long"`
	MaxTTL         time.Duration `yaml:"max_ttl" usage:"addresses are kept at most so long"`
	MinNegativeTTL time.Duration `yaml:"min_negative_ttl" usage:"hosts that do not exist are kept at least so long"`
	MaxNegativeTTL time.Duration `yaml:"max_negative_ttl" usage:"hosts that do not exist are kept at most so long"`
}

// Default returns the settings of a dnser on this machine.
func Default() Config {
	r := resolver.Default()
	return Config{
		Config:         service.Defaults("dnser", Port),
		Scheduler:      "127.0.0.1:7071",
		ResolveWait:    500 * time.Millisecond,
		Window:         256,
		ResolvConf:     "/etc/resolv.conf",
		TryTimeout:     r.TryTimeout,
		Timeout:        r.Timeout,
		MaxInFlight:    r.MaxInFlight,
		Hedge:          r.Hedge,
		ServerRate:     r.ServerRate,
		MaxStale:       r.MaxStale,
		StaleWait:      r.StaleWait,
		PrefetchUses:   r.PrefetchUses,
		CacheEntries:   r.MaxEntries,
		CacheBytes:     r.MaxBytes,
		CacheSave:      r.SaveEvery,
		MinTTL:         r.MinTTL,
		MaxTTL:         r.MaxTTL,
		MinNegativeTTL: r.MinNegativeTTL,
		MaxNegativeTTL: r.MaxNegativeTTL,
	}
}

// Validate returns all problems.
func (c Config) Validate() error {
	errs := []error{c.Config.Validate()}
	bad := func(name, format string, args ...any) {
		errs = append(errs, fmt.Errorf(name+": "+format, args...))
	}
	if c.Scheduler == "" {
		bad("scheduler", "is empty; give the scheduler's address, such as 127.0.0.1:7071")
	}
	for _, d := range []struct {
		name  string
		value time.Duration
	}{
		{"resolve_wait", c.ResolveWait}, {"try_timeout", c.TryTimeout}, {"timeout", c.Timeout},
		{"min_ttl", c.MinTTL}, {"min_negative_ttl", c.MinNegativeTTL},
	} {
		if d.value <= 0 {
			bad(d.name, "must be positive, is %s", d.value)
		}
	}
	for _, d := range []struct {
		name  string
		value int64
	}{
		{"hedge", int64(c.Hedge)}, {"max_stale", int64(c.MaxStale)}, {"stale_wait", int64(c.StaleWait)},
		{"server_rate", int64(c.ServerRate)}, {"prefetch_uses", int64(c.PrefetchUses)},
	} {
		if d.value < 0 {
			bad(d.name, "must not be negative")
		}
	}
	if c.CacheBytes < minCacheBytes {
		bad("cache_bytes", "must be at least %d, is %d", minCacheBytes, c.CacheBytes)
	}
	if c.MaxTTL < c.MinTTL {
		bad("max_ttl", "must be at least min_ttl (%s), is %s", c.MinTTL, c.MaxTTL)
	}
	if c.MaxNegativeTTL < c.MinNegativeTTL {
		bad("max_negative_ttl", "must be at least min_negative_ttl (%s), is %s", c.MinNegativeTTL, c.MaxNegativeTTL)
	}
	if c.CacheFile != "" && c.CacheSave <= 0 {
		bad("cache_save", "must be positive with cache_file, is %s", c.CacheSave)
	}
	for _, n := range []struct {
		name  string
		value int
	}{{"window", c.Window}, {"max_in_flight", c.MaxInFlight}, {"cache_entries", c.CacheEntries}} {
		if n.value < 1 {
			bad(n.name, "must be at least 1, is %d", n.value)
		}
	}
	for i, text := range c.DNS {
		if _, err := upstream.ParseServer(text); err != nil {
			bad(fmt.Sprintf("dns[%d]", i), "%w", err)
		}
	}
	if _, err := static.ParseAll(c.Resolve); err != nil {
		bad("resolve", "%w", err)
	}
	return errors.Join(errs...)
}

// minCacheBytes lets every shard of the cache hold some answers of any size.
const minCacheBytes = 1 << 20

// localServer is what libc asks when nobody names a server: resolv.conf(5).
var localServer = netip.MustParseAddrPort("127.0.0.1:53")

// servers are the DNS servers to ask. Where resolv.conf cannot be read or names
// none, it is the local one, and problem says why.
func (c Config) servers() (list []netip.AddrPort, problem error) {
	for _, text := range c.DNS {
		s, err := upstream.ParseServer(text)
		if err != nil {
			return nil, err // Validate has refused it
		}
		list = append(list, s)
	}
	if len(list) > 0 {
		return list, nil
	}
	list, err := upstream.ReadResolvConf(c.ResolvConf)
	if err != nil {
		return []netip.AddrPort{localServer}, err
	}
	return list, nil
}

// resolver are the settings of the engine.
func (c Config) resolver(servers []netip.AddrPort, rules *static.Table) resolver.Config {
	r := resolver.Default()
	r.Servers, r.Rules = servers, rules
	r.Rotate, r.DisableIPv6 = c.Rotate, c.IPv4Only
	r.TryTimeout, r.Timeout = c.TryTimeout, c.Timeout
	// Each name takes two sockets, one for each family.
	r.MaxInFlight = min(c.MaxInFlight, max(descriptors.Own().Queries/2, 1))
	r.Hedge, r.ServerRate = c.Hedge, c.ServerRate
	r.MaxStale, r.StaleWait, r.PrefetchUses = c.MaxStale, c.StaleWait, c.PrefetchUses
	r.MaxBytes = c.CacheBytes
	r.MaxEntries, r.File, r.SaveEvery = c.CacheEntries, c.CacheFile, c.CacheSave
	r.MinTTL, r.MaxTTL = c.MinTTL, c.MaxTTL
	r.MinNegativeTTL, r.MaxNegativeTTL = c.MinNegativeTTL, c.MaxNegativeTTL
	return r
}
