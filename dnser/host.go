package dnser

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"sync"

	"google.golang.org/protobuf/types/known/timestamppb"

	"lycosa.dev/dnser/internal/resolver"
	"lycosa.dev/dnser/internal/static"
	"lycosa.dev/internal/netpolicy"
	crawlv1 "lycosa.dev/proto/gen/lycosa/crawl/v1"
	schedulerv1 "lycosa.dev/proto/gen/lycosa/scheduler/v1"
)

// isIPv6 says that text is a bare IPv6 literal, whose colons begin no port.
func isIPv6(text string) bool {
	a, err := netip.ParseAddr(text)
	return err == nil && a.Is6()
}

// hostAddresses tells an answer in the words of the contract, without the
// addresses that the policy refuses.
func hostAddresses(host string, a resolver.Answer, policy netpolicy.Policy) *crawlv1.HostAddresses {
	h := &crawlv1.HostAddresses{Host: host, ExpiresAt: timestamppb.New(a.Expires), Error: a.Detail}
	switch a.Status {
	case resolver.Resolved:
		h.Status, h.Error = crawlv1.HostStatus_HOST_STATUS_RESOLVED, ""
	case resolver.NotExist, resolver.NoAddress:
		h.Status = crawlv1.HostStatus_HOST_STATUS_NOT_FOUND
		if a.Confirmed {
			h.Status = crawlv1.HostStatus_HOST_STATUS_NOT_FOUND_CONFIRMED
		}
		return h
	case resolver.Invalid: // no second answer could be another
		h.Status = crawlv1.HostStatus_HOST_STATUS_NOT_FOUND_CONFIRMED
		return h
	default:
		h.Status = crawlv1.HostStatus_HOST_STATUS_UNAVAILABLE
		h.Error = fmt.Sprintf("%s: %s", a.Status, a.Detail)
		return h
	}
	h.Addresses = make([][]byte, 0, len(a.Addrs))
	var refused []string
	for _, ip := range a.Addrs {
		if err := policy.Check(ip); err != nil {
			refused = append(refused, err.Error())
			continue
		}
		h.Addresses = append(h.Addresses, ip.AsSlice())
	}
	if len(h.Addresses) == 0 {
		h.Status = crawlv1.HostStatus_HOST_STATUS_FORBIDDEN
		h.Error = strings.Join(refused, "; ")
	}
	return h
}

// job is what resolving needs of a job's spec. The zero value has no rules and
// allows the public Internet only.
type job struct {
	rules  *static.Table
	policy netpolicy.Policy
}

// jobs keeps what was read of the specs of the last topology seen.
type jobs struct {
	mu       sync.Mutex
	topology *schedulerv1.Topology
	byID     map[string]readJob
}

type readJob struct {
	version, epoch uint64
	job            job
	err            error
}

// job is the job of that id, once the scheduler tells of it. It waits for that
// until ctx ends. A spec that cannot be read, which the scheduler should have
// refused, is an error too.
func (d *Dnser) job(ctx context.Context, id string) (job, error) {
	if _, err := d.members.WaitJob(ctx, id, 0); err != nil {
		return job{}, err
	}
	d.jobs.mu.Lock()
	defer d.jobs.mu.Unlock()
	if t := d.members.Topology(); t != d.jobs.topology {
		d.jobs.read(t)
		for id, j := range d.jobs.byID {
			if j.err != nil {
				d.log.Error("the spec of a job cannot be used", "job", id, "err", j.err)
			}
		}
	}
	j, ok := d.jobs.byID[id]
	if !ok {
		return job{}, fmt.Errorf("job %s is gone", id)
	}
	return j.job, j.err
}

// read takes over the specs of t; those that have not changed are not read
// again.
func (j *jobs) read(t *schedulerv1.Topology) {
	byID := make(map[string]readJob, len(t.GetJobs()))
	for _, spec := range t.GetJobs() {
		r, ok := j.byID[spec.GetJobId()]
		if !ok || r.version != spec.GetSpecVersion() || r.epoch != spec.GetFrontierEpoch() {
			r = readJob{version: spec.GetSpecVersion(), epoch: spec.GetFrontierEpoch()}
			r.job, r.err = readSpec(spec)
		}
		byID[spec.GetJobId()] = r
	}
	j.topology, j.byID = t, byID
}

func readSpec(spec *schedulerv1.JobSpec) (job, error) {
	fetch := spec.GetSpec().GetFetch()
	rules, err := static.ParseAll(fetch.GetResolve())
	if err != nil {
		return job{}, err
	}
	nets, err := netpolicy.ParseNets(fetch.GetAllowNet())
	if err != nil {
		return job{}, err
	}
	return job{rules: rules, policy: netpolicy.Policy{AllowNets: nets}}, nil
}
