package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"

	"lycosa.dev/deploy/allinone"
	"lycosa.dev/deploy/internal/report"
	"lycosa.dev/internal/job"
	"lycosa.dev/internal/rpc"
	"lycosa.dev/internal/telemetry"
	gatewayv1 "lycosa.dev/proto/gen/lycosa/gateway/v1"
)

// upCmd runs all services.
type upCmd struct {
	Dir        string   `placeholder:"DIR" default:"crawl" help:"Folder of everything that is kept (default ./crawl)."`
	Listen     []string `placeholder:"HOST:PORT" help:"Where the gateway listens (default 127.0.0.1:7070); beyond loopback TLS and a token are needed."`
	TLSCert    string   `name:"tls-cert" placeholder:"FILE" help:"Certificate of the gateway."`
	TLSKey     string   `name:"tls-key" placeholder:"FILE" help:"Its private key."`
	TLSCA      string   `name:"tls-ca" placeholder:"FILE" help:"Authorities that clients' certificates must come from; makes them required."`
	TokenFile  string   `placeholder:"FILE" help:"File whose first line is the token that callers must send (or LYCOSA_TOKEN)."`
	Debug      string   `placeholder:"HOST:PORT" default:"127.0.0.1:9070" help:"Loopback address of metrics, pprof and health; empty: off (default 127.0.0.1:9070)."`
	DNS        []string `name:"dns" placeholder:"ADDR:PORT" help:"DNS server (default: those of /etc/resolv.conf)."`
	DNSRecords bool     `name:"dns-records" help:"Keep the answers of the DNS servers as WARC records too, in DIR/warc."`
	Secrets    string   `placeholder:"DIR" help:"Folder of the secrets that jobs name (default DIR/secrets)."`
	ProxyNet   []string `placeholder:"CIDR" sep:"none" help:"Network in which the proxies of jobs may lie although it is private or loopback."`
	Groups     string   `placeholder:"FILE" help:"YAML file of named groups of hosts and networks that share a clock in all jobs."`
	OTLP       string   `name:"otlp" placeholder:"HOST:PORT" help:"OTLP gRPC collector that gets the traces, such as 127.0.0.1:4317."`
	TraceRatio float64  `placeholder:"F" default:"0.01" help:"Share of leases that are traced (default 0.01)."`
	LogLevel   string   `placeholder:"LEVEL" default:"info" help:"debug, info, warn or error (default info)."`
	LogFormat  string   `placeholder:"text|json" default:"text" help:"Form of the log on standard error (default text)."`
}

// Help is shown below the flags.
func (*upCmd) Help() string {
	return `Jobs are created with ` + "`lycosa job create`" + ` or grpcurl. They go on where they were
when the process starts again.

Groups are the many names and networks of one operator under one clock, for all
jobs together; a job cannot define one of the same name:
  groups:
    - name: hoster
      hosts: ["*.example.net", example.org]
      nets: [192.0.2.0/24]
      limit: {min_delay: 2s, concurrency: 1, rate_bytes: 1MiB, pages_per_day: 50000}

Examples:
  lycosa up --dir data --otlp 127.0.0.1:4317 --trace-ratio 1
  grpcurl -plaintext 127.0.0.1:7070 lycosa.gateway.v1.AdminService/ListJobs`
}

// Run implements the command.
func (c *upCmd) Run(a *App) error {
	log, err := telemetry.NewLogger(c.LogLevel, c.LogFormat, a.Stderr)
	if err != nil {
		return usage("%w", err)
	}
	cfg, err := c.config(a, log)
	if err != nil {
		return err
	}
	ring, err := a.open(a.ctx, cfg)
	if err != nil {
		return err
	}
	log.Info("serving", "version", telemetry.Version(), "dir", c.Dir, "listen", cfg.Listen, "debug", c.Debug)
	runCtx, cancel := context.WithCancel(a.ctx)
	reports := make(chan struct{})
	go func() {
		defer close(reports)
		c.reportsOnDemand(runCtx, a, ring, log)
	}()
	err = ring.Run(a.ctx)
	cancel()
	<-reports
	if errors.Is(err, rpc.ErrForced) && a.ctx.Err() != nil {
		log.Warn("not everything stopped in time; what is on disk is whole", "err", err)
		err = nil
	}
	return errors.Join(err, ring.Close())
}

func (c *upCmd) config(a *App, log *slog.Logger) (allinone.Config, error) {
	cfg := allinone.Default(c.Dir)
	tlsConf, err := (rpc.TLSFiles{Cert: c.TLSCert, Key: c.TLSKey, CA: c.TLSCA}).Server()
	if err != nil {
		return cfg, usage("%w", err)
	}
	token, err := rpc.ReadToken("", c.TokenFile)
	if err != nil {
		return cfg, usage("%w", err)
	}
	if token == "" {
		token = telemetry.Secret(a.Getenv("LYCOSA_TOKEN"))
	}
	if len(c.Listen) == 0 {
		c.Listen = []string{defaultAddress}
	}
	for _, addr := range c.Listen {
		if err := rpc.CheckListen(addr, tlsConf, token); err != nil {
			return cfg, usage("--listen: %w", err)
		}
	}
	cfg.Listen, cfg.TLS, cfg.Token, cfg.Debug = c.Listen, tlsConf, token, c.Debug
	cfg.DNS, cfg.OTLP, cfg.TraceRatio, cfg.Logger = c.DNS, c.OTLP, c.TraceRatio, log
	cfg.PagesByJob = true
	cfg.AllowNoContact, cfg.DNSRecords, cfg.Secrets, cfg.ProxyNet = true, c.DNSRecords, c.Secrets, c.ProxyNet
	if c.Groups != "" {
		data, err := os.ReadFile(c.Groups)
		if err != nil {
			return cfg, usage("--groups: %w", err)
		}
		if cfg.Groups, err = job.ParseGroups(c.Groups, data); err != nil {
			return cfg, usage("--groups: %w", err)
		}
	}
	if err := cfg.Validate(); err != nil {
		return cfg, usage("%w", err)
	}
	return cfg, nil
}

// reportsOnDemand writes the reports of all jobs when the process is asked to.
func (c *upCmd) reportsOnDemand(ctx context.Context, a *App, ring ring, log *slog.Logger) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-a.Report:
		}
		res, err := ring.Admin().ListJobs(ctx, &gatewayv1.ListJobsRequest{})
		if err != nil {
			log.Error("reports", "err", err)
			continue
		}
		for _, st := range res.GetJobs() {
			dir := reportDir(allinone.Layout(c.Dir), st.GetJobId(), len(res.GetJobs()))
			if _, err := report.Write(ctx, dir, st, ring); err != nil {
				log.Error("reports", "job", st.GetJobId(), "err", err)
				continue
			}
			log.Info("reports written", "job", st.GetJobId(), "dir", dir)
		}
	}
}

// versionCmd prints the version.
type versionCmd struct{}

// Run implements the command.
func (versionCmd) Run(a *App) error {
	_, err := fmt.Fprintln(a.Stdout, "lycosa "+telemetry.Version())
	return err
}
