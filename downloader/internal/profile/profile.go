// Package profile turns what a job says of its fetches (its identity, limits,
// headers, opened networks) into settings of the fetch engine. A profile is
// made once for each version of a job's spec and shared by all its leases.
package profile

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"lycosa.dev/downloader/internal/cookie"
	"lycosa.dev/downloader/internal/fetch"
	"lycosa.dev/downloader/internal/secret"
	"lycosa.dev/internal/netpolicy"
	schedulerv1 "lycosa.dev/proto/gen/lycosa/scheduler/v1"
)

// maxCached bounds the profiles kept; more jobs than that at a time cost a new
// profile now and then.
const maxCached = 1024

// Profiles makes and keeps profiles. Its methods are safe for concurrent use.
type Profiles struct {
	base    fetch.Settings
	jobNets bool
	secrets secret.Store
	jars    *cookie.Jars

	mu   sync.RWMutex
	jobs map[string]entry
}

type entry struct {
	version  uint64
	settings *fetch.Settings
	err      error
}

// Options are what profiles are made from beside the jobs' specs.
type Options struct {
	// Base are the downloader's own settings, which count where a job says nothing.
	Base fetch.Settings
	// JobNets says whether jobs may open networks of their own.
	JobNets bool
	// Secrets finds what jobs name.
	Secrets secret.Store
	// Jars are the jobs' cookies; nil: they are not kept beyond the process.
	Jars *cookie.Jars
}

// New returns Profiles.
func New(o Options) *Profiles {
	if o.Jars == nil {
		o.Jars = cookie.NewJars("")
	}
	return &Profiles{base: o.Base, jobNets: o.JobNets, secrets: o.Secrets, jars: o.Jars, jobs: map[string]entry{}}
}

// For returns the settings for a job. They are shared and must not be changed.
// The error says what in the spec cannot be used.
func (p *Profiles) For(job *schedulerv1.JobSpec) (*fetch.Settings, error) {
	p.mu.RLock()
	e, ok := p.jobs[job.GetJobId()]
	p.mu.RUnlock()
	if ok && e.version == job.GetSpecVersion() {
		return e.settings, e.err
	}
	e = entry{version: job.GetSpecVersion()}
	e.settings, e.err = p.build(job)
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.jobs) >= maxCached {
		clear(p.jobs)
	}
	p.jobs[job.GetJobId()] = e
	return e.settings, e.err
}

func (p *Profiles) build(job *schedulerv1.JobSpec) (*fetch.Settings, error) {
	s := p.base
	spec := job.GetSpec()
	if ua := spec.GetIdentity().GetUserAgent(); ua != "" {
		s.UserAgent = ua
	}
	if c := spec.GetIdentity().GetContact(); mailAddress(c) {
		s.From = strings.TrimPrefix(c, "mailto:")
	}
	f := spec.GetFetch()
	set(&s.ConnectTimeout, f.GetConnectTimeout())
	set(&s.TLSTimeout, f.GetTlsTimeout())
	set(&s.FirstByteTimeout, f.GetFirstByteTimeout())
	set(&s.HeadTimeout, f.GetHeadTimeout())
	set(&s.IdleTimeout, f.GetIdleTimeout())
	set(&s.TotalTimeout, f.GetTotalTimeout())
	if n := spec.GetLimits().GetMaxPageBytes(); n > 0 {
		s.MaxBodyBytes = n
	}
	if f.MinRateBytes != nil {
		s.MinRateBytes = f.GetMinRateBytes()
	}
	set(&s.MinRateGrace, f.GetMinRateGrace())
	if f.GetInsecureTls() {
		s.Verify = fetch.VerifyRecord
	}
	if f.Http2 != nil {
		s.HTTP2 = f.GetHttp2()
	}
	if f.LegacyTls != nil {
		s.LegacyTLS = f.GetLegacyTls()
	}
	if l := f.GetAcceptLanguage(); l != "" {
		s.AcceptLanguage = l
	}
	s.Headers = append(append([]string(nil), s.Headers...), f.GetHeaders()...)
	if len(f.GetAllowNet()) > 0 && p.jobNets {
		nets, err := netpolicy.ParseNets(f.GetAllowNet())
		if err != nil {
			return nil, fmt.Errorf("job %s: fetch.allow_net: %w", job.GetJobId(), err)
		}
		s.Policy.AllowNets = append(nets, s.Policy.AllowNets...)
	}
	if err := p.identity(&s, job.GetJobId(), f); err != nil {
		return nil, fmt.Errorf("job %s: %w", job.GetJobId(), err)
	}
	if err := s.Validate(); err != nil {
		return nil, fmt.Errorf("job %s: %w", job.GetJobId(), err)
	}
	return &s, nil
}

func set(dst *time.Duration, d *durationpb.Duration) {
	if d.AsDuration() > 0 {
		*dst = d.AsDuration()
	}
}

// mailAddress tells a mail address from a URL, which is what a contact may be.
func mailAddress(s string) bool {
	return strings.Contains(s, "@") && !strings.Contains(s, "/")
}
