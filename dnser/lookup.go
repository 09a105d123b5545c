package dnser

import (
	"context"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"lycosa.dev/dnser/internal/idn"
	"lycosa.dev/dnser/internal/resolver"
	dnserv1 "lycosa.dev/proto/gen/lycosa/dnser/v1"
)

// Lookup implements DnserService.
func (d *Dnser) Lookup(ctx context.Context, req *dnserv1.LookupRequest) (*dnserv1.LookupResponse, error) {
	if err := d.ready(ctx); err != nil {
		return nil, status.FromContextError(err).Err()
	}
	var job job
	if req.GetJobId() != "" {
		wait, cancel := context.WithTimeout(ctx, d.cfg.ResolveWait)
		defer cancel()
		var err error
		if job, err = d.job(wait, req.GetJobId()); err != nil {
			if ctx.Err() != nil {
				return nil, status.FromContextError(ctx.Err()).Err()
			}
			return nil, status.Errorf(codes.NotFound, "the scheduler tells of no job %q", req.GetJobId())
		}
	}
	host := req.GetHost()
	if !isIPv6(host) { // people write ports
		host = hostname(host)
	}
	host = idn.ASCII(host) // and the letters of their languages
	a := d.resolver.Lookup(ctx, host, resolver.Options{Rules: job.rules, Refresh: req.GetRefresh()})
	if a.Pending {
		if ctx.Err() != nil {
			return nil, status.FromContextError(ctx.Err()).Err()
		}
		return nil, status.Error(codes.Unavailable, a.Detail)
	}
	h := hostAddresses(host, a, job.policy)
	d.metrics.host(h.GetStatus())
	return &dnserv1.LookupResponse{Host: h, Cnames: a.CNAMEs, FromCache: a.FromCache, Server: server(a)}, nil
}

// server is who answered now; the cache remembers who answered then.
func server(a resolver.Answer) string {
	if a.FromCache {
		return ""
	}
	return a.Server
}
