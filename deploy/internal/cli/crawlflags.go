package cli

import (
	"time"

	"lycosa.dev/internal/config"
)

// crawlFlags are the flags of `lycosa crawl`; scripts rely on their names. A
// nil pointer or slice is a flag that was not given.
type crawlFlags struct {
	URL []string `arg:"" optional:"" name:"url" help:"Seeds: absolute http or https URLs; without a scheme https is taken."`

	Dir   string   `placeholder:"DIR" default:"crawl" help:"Folder of the crawl (default ./crawl)."`
	Seeds []string `placeholder:"FILE|-" sep:"none" help:"Read seeds from a file, one a line; - is standard input."`
	Job   string   `placeholder:"FILE" help:"Job file (YAML); flags win over it."`

	Scope       *string        `placeholder:"page|prefix|host|domain|any" help:"What belongs to the crawl, from the seeds (default host)."`
	MaxPages    *uint64        `placeholder:"N" help:"End after so many pages; 0: no limit."`
	MaxDepth    *string        `placeholder:"N" help:"Links from a seed; 0: the seeds and what they embed, none: no limit."`
	MaxDuration *time.Duration `placeholder:"D" help:"End after this time, such as 90m; 0: no limit. What is in flight then has limits.drain_timeout more (default 30s)."`
	MaxBytes    *config.Size   `placeholder:"SIZE" help:"End after so many bytes received, such as 10GiB; 0: no limit."`
	Concurrency *uint32        `placeholder:"N" help:"Fetches at a time (default 128)."`
	PerHost     *uint32        `placeholder:"N" help:"Fetches of one host at a time (default 1; more inside --allow-net only)."`

	MinDelay     *time.Duration `placeholder:"D" help:"Shortest wait between two fetches of a host (default 1s)."`
	MaxDelay     *time.Duration `placeholder:"D" help:"Longest wait, robots.txt's Crawl-delay apart (default 30s)."`
	DelayFactor  *float64       `placeholder:"F" help:"Wait as a multiple of the last fetch's time (default 5)."`
	AddressDelay *time.Duration `placeholder:"D" help:"Wait between two fetches of an address (default 100ms)."`

	AllowNet   []string `placeholder:"CIDR" sep:"none" help:"Network that may be crawled although it is private or loopback."`
	Resolve    []string `placeholder:"HOST:ADDR" sep:"none" help:"Address of a host in place of the DNS; * is every host, IP addresses in URLs too, as curl's."`
	DNS        []string `name:"dns" placeholder:"ADDR:PORT" help:"DNS server (default: those of /etc/resolv.conf)."`
	DNSRecords bool     `name:"dns-records" help:"Keep the answers of the DNS servers as WARC records too, in DIR/warc."`
	Secrets    string   `placeholder:"DIR" help:"Folder of the secrets that the job names (default DIR/secrets)."`
	UserAgent  *string  `placeholder:"S" help:"User-Agent (default Lycosa, its version and the contact)."`
	Contact    *string  `placeholder:"URL|MAIL" help:"Who answers for the crawl."`
	Robots     *string  `placeholder:"obey|ignore" help:"Whether robots.txt is obeyed (default obey)."`
	Include    []string `placeholder:"RE" sep:"none" help:"Of what is in scope, crawl only URLs that match."`
	Exclude    []string `placeholder:"RE" sep:"none" help:"Do not crawl URLs that match."`
	Store      *string  `placeholder:"warc|files|none" help:"Where pages are kept, a comma list (default warc)."`

	Recrawl  bool   `help:"Crawl a finished crawl again: another round."`
	JSON     bool   `name:"json" help:"Progress and summary as JSON lines on standard output."`
	Quiet    bool   `help:"No progress and no summary (with --json: the summary alone)."`
	LogLevel string `placeholder:"LEVEL" default:"warn" help:"debug, info, warn or error, on standard error (default warn)."`
}
