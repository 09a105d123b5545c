package extractor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"lycosa.dev/extractor/internal/links"
	"lycosa.dev/extractor/internal/page"
	"lycosa.dev/extractor/internal/pipeline"
	"lycosa.dev/extractor/internal/seen"
	"lycosa.dev/extractor/internal/store"
	"lycosa.dev/internal/httpwire"
	"lycosa.dev/internal/job"
	"lycosa.dev/internal/membership"
	"lycosa.dev/internal/telemetry"
	crawlv1 "lycosa.dev/proto/gen/lycosa/crawl/v1"
	jobv1 "lycosa.dev/proto/gen/lycosa/job/v1"
	schedulerv1 "lycosa.dev/proto/gen/lycosa/scheduler/v1"
)

// compiled is one version of a job, ready to work; immutable.
type compiled struct {
	spec       *schedulerv1.JobSpec
	scope      *job.Scope
	pipeline   *pipeline.Pipeline
	generation uint64 // of the cache of acknowledged links
	stores     *jobStores
	limits     httpwire.Limits // of decoded bodies
}

// jobStores are the open stores of one job, shared by its versions.
type jobStores struct {
	mu     sync.Mutex
	stores []store.Store
	names  []string
	users  int
	gone   bool // the job has left the topology: closed when users is 0
}

// jobs compiles specs as pages need them and closes what jobs leave behind.
type jobs struct {
	cfg    Config
	member *membership.Client
	log    *slog.Logger

	mu     sync.Mutex
	byID   map[string]*compiled
	stores map[string]*jobStores
	closed bool
}

func newJobs(cfg Config, member *membership.Client, log *slog.Logger) *jobs {
	return &jobs{cfg: cfg, member: member, log: log, byID: map[string]*compiled{}, stores: map[string]*jobStores{}}
}

var errNoSuchJob = errors.New("the job is not known any more")

// use returns a job of at least the version; the caller releases it. It waits
// for the topology that carries it until ctx ends.
func (j *jobs) use(ctx context.Context, id string, version uint64) (*compiled, error) {
	spec, err := j.member.WaitJob(ctx, id, version)
	if err != nil {
		if j.member.Topology() != nil && j.member.Job(id) == nil && j.member.Joined() {
			return nil, fmt.Errorf("%w: %s", errNoSuchJob, id)
		}
		return nil, err
	}
	return j.take(spec)
}

// take returns the newest version of a job, compiled; was is one that it had.
// The job may have gone on while this page waited for the lock: specs are
// compiled in the order in which they came, never an older over a newer one.
func (j *jobs) take(was *schedulerv1.JobSpec) (*compiled, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.closed {
		return nil, errors.New("the extractor stops")
	}
	id := was.GetJobId()
	spec := j.member.Job(id)
	if spec == nil {
		return nil, fmt.Errorf("%w: %s", errNoSuchJob, id)
	}
	c := j.byID[id]
	if c == nil || c.spec.GetSpecVersion() != spec.GetSpecVersion() || c.spec.GetFrontierEpoch() != spec.GetFrontierEpoch() || c.stores.isGone() {
		var err error
		if c, err = j.compile(spec); err != nil {
			return nil, fmt.Errorf("job %s: %w", id, err)
		}
		j.byID[id] = c
	}
	c.stores.use()
	return c, nil
}

func (c *compiled) release() error { return c.stores.release() }

func (j *jobs) compile(spec *schedulerv1.JobSpec) (*compiled, error) {
	scope, err := job.NewScope(spec.GetSpec(), spec.GetScopeRoots())
	if err != nil {
		return nil, err
	}
	stores, err := j.open(spec)
	if err != nil {
		return nil, err
	}
	finder := links.New(spec.GetSpec())
	pipe, err := pipeline.Compile(spec.GetSpec().GetPipeline(), map[string]pipeline.Factory{
		"links":  func(map[string]string) (pipeline.Handler, error) { return finder, nil },
		"store":  func(map[string]string) (pipeline.Handler, error) { return storeHandler(spec.GetSpec(), stores), nil },
		"select": func(map[string]string) (pipeline.Handler, error) { return pipeline.HandlerFunc(pass), nil },
	})
	if err != nil {
		return nil, err
	}
	return &compiled{
		spec: spec, scope: scope, pipeline: pipe, stores: stores,
		limits: httpwire.Limits{
			MaxBytes: spec.GetSpec().GetFetch().GetMaxDecodedBytes(), MaxRatio: int64(spec.GetSpec().GetFetch().GetMaxDecodedRatio()),
		},
		generation: seen.Generation(spec.GetJobId(), spec.GetFrontierEpoch(), spec.GetSpecVersion()),
	}, nil
}

// pass is the handler "select": a place for a condition and two ways on.
func pass(context.Context, *page.Page) error { return nil }

// storeHandler is the handler "store": every store that the job names.
func storeHandler(spec *jobv1.Spec, stores *jobStores) pipeline.Handler {
	obeyNoarchive := spec.GetStorage().GetObeyNoarchive()
	none := spec.GetStorage().GetNone()
	return pipeline.HandlerFunc(func(ctx context.Context, p *page.Page) error {
		switch {
		case none:
			p.SkippedBy = "storage none"
			return nil
		case obeyNoarchive && p.Directives.NoArchive:
			p.SkippedBy = "noarchive"
			return nil
		}
		var without []string
		for _, s := range stores.stores {
			if i := slices.IndexFunc(p.StoredBefore, func(r *crawlv1.StoredRecord) bool { return r.GetStore() == s.Name() }); i >= 0 {
				p.Stored = append(p.Stored, p.StoredBefore[i])
				continue
			}
			rec, err := s.Put(ctx, p)
			if err != nil {
				return fmt.Errorf("store %s: %w", s.Name(), err)
			}
			if rec != nil {
				p.Stored = append(p.Stored, rec)
			} else {
				without = append(without, s.Name())
			}
		}
		switch {
		case len(p.Stored) == 0:
			p.SkippedBy = "nothing to store"
		case len(without) > 0:
			p.SkippedBy, p.SkippedStores = "nothing to store in "+strings.Join(without, ", "), without
		}
		return nil
	})
}

// open returns the job's stores, opening them once.
func (j *jobs) open(spec *schedulerv1.JobSpec) (*jobStores, error) {
	names := spec.GetSpec().GetStorage().GetStores()
	if s := j.stores[spec.GetJobId()]; s != nil && !s.isGone() && slices.Equal(s.names, names) {
		return s, nil
	}
	s := &jobStores{names: names}
	for _, name := range names {
		opened, err := j.openStore(name, spec)
		if err != nil {
			return nil, errors.Join(err, s.closeAll())
		}
		s.stores = append(s.stores, opened)
	}
	if old := j.stores[spec.GetJobId()]; old != nil {
		if err := old.leave(); err != nil {
			j.log.Error("closing a job's stores failed", "job", spec.GetJobId(), "err", err)
		}
	}
	j.stores[spec.GetJobId()] = s
	return s, nil
}

func (j *jobs) openStore(name string, spec *schedulerv1.JobSpec) (store.Store, error) {
	switch name {
	case "warc":
		return store.OpenWARC(filepath.Join(j.cfg.Dir, "warc"), spec.GetJobId(), spec.GetSpec(), telemetry.Version(), j.log)
	case "files":
		folder := ""
		if j.cfg.PagesByJob {
			folder = spec.GetJobId()
		}
		return store.OpenFiles(filepath.Join(j.cfg.Dir, "pages"), folder)
	}
	return nil, fmt.Errorf("storage.stores: %q is unknown", name)
}

// run closes the stores of jobs that have left the topology.
func (j *jobs) run(ctx context.Context) error {
	for {
		changed := j.member.Changed()
		if j.member.Topology() != nil {
			j.sweep()
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil
		}
	}
}

func (j *jobs) sweep() {
	j.mu.Lock()
	defer j.mu.Unlock()
	for id, s := range j.stores {
		if j.member.Job(id) != nil {
			continue
		}
		delete(j.stores, id)
		delete(j.byID, id)
		if err := s.leave(); err != nil {
			j.log.Error("closing a job's stores failed", "job", id, "err", err)
		}
	}
}

// close closes all stores, used or not: nothing may write after it.
func (j *jobs) close() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.closed = true
	var errs []error
	for _, s := range j.stores {
		errs = append(errs, s.closeAll())
	}
	clear(j.stores)
	clear(j.byID)
	return errors.Join(errs...)
}

func (s *jobStores) isGone() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.gone
}

func (s *jobStores) use() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.users++
}

func (s *jobStores) release() error {
	s.mu.Lock()
	s.users--
	last := s.gone && s.users == 0
	s.mu.Unlock()
	if last {
		return s.closeAll()
	}
	return nil
}

func (s *jobStores) leave() error {
	s.mu.Lock()
	s.gone = true
	idle := s.users == 0
	s.mu.Unlock()
	if idle {
		return s.closeAll()
	}
	return nil
}

func (s *jobStores) closeAll() error {
	var errs []error
	for _, st := range s.stores {
		errs = append(errs, st.Close())
	}
	return errors.Join(errs...)
}
