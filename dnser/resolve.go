package dnser

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"lycosa.dev/internal/rpc"
	"lycosa.dev/internal/telemetry"
	crawlv1 "lycosa.dev/proto/gen/lycosa/crawl/v1"
	dnserv1 "lycosa.dev/proto/gen/lycosa/dnser/v1"
	schedulerv1 "lycosa.dev/proto/gen/lycosa/scheduler/v1"
)

const (
	// tooLong is when a commit's addresses are left out: a message above the
	// chassis' limit would break the stream for all that are on it.
	tooLong = rpc.DefaultMaxMessageBytes - 64<<10
	// manyCandidates is when a commit may be so long.
	manyCandidates = 4096
	// refusals is how often an item is sent again when its stream breaks with
	// a refusal of a message: its own, or another's that was on the stream.
	refusals = 3
	// retryAfter is asked of the sender of an item that was not taken.
	retryAfter = time.Second
)

// Resolve implements DnserService.
func (d *Dnser) Resolve(stream grpc.BidiStreamingServer[dnserv1.ResolveRequest, dnserv1.ResolveResponse]) error {
	if err := d.ready(stream.Context()); err != nil {
		return status.FromContextError(err).Err()
	}
	return rpc.ServeItems(stream, rpc.ItemsOptions{Window: d.cfg.Window, Logger: d.log}, d.item,
		func(req *dnserv1.ResolveRequest, v any) *dnserv1.ResolveResponse {
			return d.answer(req, notTaken(fmt.Sprintf("dnser: panic: %v", v)))
		})
}

// item resolves, commits and answers one item.
func (d *Dnser) item(ctx context.Context, req *dnserv1.ResolveRequest) *dnserv1.ResolveResponse {
	if !d.items.Enter() {
		return d.answer(req, notTaken("dnser: stopping"))
	}
	defer d.items.Leave()
	if tp := req.GetTraceparent(); tp != "" {
		var span trace.Span
		ctx, span = d.tracer.Start(telemetry.Extract(ctx, tp), "resolve")
		defer span.End()
	}
	begin := time.Now()
	hosts := d.hosts(ctx, req.GetOutcome().GetJobId(), req.GetCandidates())
	d.metrics.resolve.Observe(time.Since(begin).Seconds())
	if telemetry.Sampled(ctx) {
		trace.SpanFromContext(ctx).SetAttributes(
			attribute.Int("lycosa.candidates", len(req.GetCandidates())),
			attribute.Int("lycosa.hosts", len(hosts)),
		)
	}
	return d.answer(req, d.commit(ctx, req, hosts))
}

func (d *Dnser) answer(req *dnserv1.ResolveRequest, a *crawlv1.Answer) *dnserv1.ResolveResponse {
	d.metrics.verdict(a.GetVerdict())
	return &dnserv1.ResolveResponse{Id: req.GetId(), Answer: a}
}

func notTaken(reason string) *crawlv1.Answer {
	return &crawlv1.Answer{
		Verdict: crawlv1.Verdict_VERDICT_RETRY_LATER, Reason: reason, RetryAfter: durationpb.New(retryAfter),
	}
}

// hosts is what is known of the candidates' hosts within resolve_wait, a host
// once. Those that nothing is known of yet are left out: the scheduler asks
// again before it leases them.
func (d *Dnser) hosts(ctx context.Context, jobID string, candidates []*crawlv1.Candidate) []*crawlv1.HostAddresses {
	names := hostnames(candidates)
	if len(names) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, d.cfg.ResolveWait)
	defer cancel()
	job, err := d.job(ctx, jobID)
	if err != nil {
		// Without its spec, neither its rules nor its policy are known.
		d.metrics.late(len(names))
		return nil
	}
	known := make([]*crawlv1.HostAddresses, 0, len(names))
	for i, a := range d.resolver.ResolveAll(ctx, names, job.rules) {
		if a.Pending {
			d.metrics.late(1)
			continue
		}
		h := hostAddresses(names[i], a, job.policy)
		d.metrics.host(h.GetStatus())
		known = append(known, h)
	}
	return known
}

// hostnames are the different hosts of the candidates without port, in the
// order first seen. Most links of a page are on one host.
func hostnames(candidates []*crawlv1.Candidate) []string {
	var names []string
	var seen map[string]struct{}
	last := ""
	for _, c := range candidates {
		name := hostname(c.GetHostKey())
		if name == "" || name == last {
			continue
		}
		last = name
		if seen == nil {
			seen = make(map[string]struct{}, 8)
		}
		if _, ok := seen[name]; ok {
			continue
		}
		seen[name] = struct{}{}
		names = append(names, name)
	}
	return names
}

// hostname is a host key without its port; an IPv6 literal keeps its brackets.
func hostname(hostKey string) string {
	if i := strings.LastIndexByte(hostKey, ':'); i >= 0 && !strings.HasSuffix(hostKey, "]") {
		return hostKey[:i]
	}
	return hostKey
}

// commit hands the item to the scheduler and waits for its answer, as long as
// the asker does. When the stream breaks, it is sent again: a commit is
// idempotent.
func (d *Dnser) commit(ctx context.Context, req *dnserv1.ResolveRequest, hosts []*crawlv1.HostAddresses) *crawlv1.Answer {
	traceparent := telemetry.Inject(ctx)
	refused := 0
	for {
		// A message sent is the receiver's: each try has its own.
		m := &schedulerv1.CommitRequest{
			Outcome: req.GetOutcome(), Candidates: req.GetCandidates(), Hosts: hosts, Traceparent: traceparent, Part: req.GetPart(),
		}
		if len(m.GetCandidates()) >= manyCandidates && proto.Size(m) > tooLong {
			hosts, m.Hosts = nil, nil
			if n := proto.Size(m); n > tooLong {
				return &crawlv1.Answer{
					Verdict: crawlv1.Verdict_VERDICT_NEVER,
					Reason:  fmt.Sprintf("dnser: the page's links are %d bytes, more than the %d of a message", n, tooLong),
				}
			}
		}
		res, err := d.commits.Call(ctx, m)
		if err == nil {
			if a := res.GetAnswer(); a != nil {
				return a
			}
			return notTaken("dnser: the scheduler's answer is empty")
		}
		if errors.Is(err, rpc.ErrStopped) || ctx.Err() != nil || !errors.Is(err, rpc.ErrStreamBroken) {
			return notTaken("dnser: not committed: " + err.Error())
		}
		switch status.Code(err) {
		case codes.InvalidArgument, codes.ResourceExhausted:
			if refused++; refused >= refusals {
				d.log.Error("the scheduler's stream breaks with this item", "lease", req.GetOutcome().GetLeaseId(), "err", err)
				return notTaken("dnser: the scheduler refuses the message: " + err.Error())
			}
		}
	}
}
