package frontier

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	specs "lycosa.dev/internal/job"
	jobv1 "lycosa.dev/proto/gen/lycosa/job/v1"
	schedulerv1 "lycosa.dev/proto/gen/lycosa/scheduler/v1"

	"lycosa.dev/scheduler/internal/frontier/sieve"
	"lycosa.dev/scheduler/internal/frontier/store"
)

// ApplyJob creates a job, or changes the spec of one that exists. The spec is
// effective and valid; the frontier keeps a copy. It is durable when ApplyJob
// returns. Errors: ErrJobExists with createOnly, ErrConflict.
func (f *Frontier) ApplyJob(ctx context.Context, id string, spec *jobv1.Spec, createOnly bool) (*schedulerv1.JobStatus, bool, error) {
	var created bool
	st, err := f.control(func(b *store.Batch, now time.Time) (*job, error) {
		j := f.jobs[id]
		if j != nil {
			if createOnly {
				return nil, fmt.Errorf("job %q: %w", id, ErrJobExists)
			}
			if proto.Equal(j.spec, spec) {
				return j, nil
			}
			if j.cnt.known()+j.cnt.pending > 0 {
				if err := specs.Conflicts(j.spec, spec); err != nil {
					return nil, fmt.Errorf("job %q: %w: %w", id, ErrConflict, err)
				}
			}
			if err := f.checkGroups(spec); err != nil {
				return nil, fmt.Errorf("job %q: %w", id, err)
			}
			f.sweepFor(b, j, j.spec, spec)
			j.setSpec(proto.CloneOf(spec))
			j.lookAtRetired()
			for _, q := range j.queues {
				q.level = j.precedenceOf(q.host.key)
				f.place(q.host, now)
			}
			j.version++
			f.saveJob(b, j)
			f.uncap(j, now)
			f.publish()
			return j, nil
		}
		if id == "" || strings.ContainsRune(id, 0) {
			return nil, fmt.Errorf("job id %q: want a name", id)
		}
		if err := f.checkGroups(spec); err != nil {
			return nil, fmt.Errorf("job %q: %w", id, err)
		}
		created = true
		j = &job{id: id, num: f.nextNum, secret: f.newID(), epoch: f.newID(), version: 1,
			state: jobCreated, round: 1, created: now}
		f.nextNum++
		j.init()
		j.seen = sieve.NewSet(f.seenDir, nil)
		j.setSpec(proto.CloneOf(spec))
		j.moreInactive = false
		f.addJob(j)
		f.saveJob(b, j)
		f.saveMeta(b)
		f.publish()
		return j, nil
	})
	return st, created, err
}

// control makes a change of a job durable and shows the job.
func (f *Frontier) control(change func(b *store.Batch, now time.Time) (*job, error)) (*schedulerv1.JobStatus, error) {
	f.mu.Lock()
	if err := f.usable(); err != nil {
		f.mu.Unlock()
		return nil, err
	}
	b := f.newBatch()
	j, err := change(b, f.now())
	if err != nil {
		f.mu.Unlock()
		return nil, err
	}
	st := f.status(j)
	p, err := f.apply(b, true)
	f.notify(f.kickTick)
	f.mu.Unlock()
	if err != nil {
		return nil, err
	}
	return st, f.await(p)
}

func (f *Frontier) addJob(j *job) {
	f.jobs[j.id], f.byNum[j.num] = j, j
	f.order = append(f.order, j)
	j.ready = make([]readyQueues, max(1, f.members.Len()))
}

func (f *Frontier) find(id string) (*job, error) {
	if j := f.jobs[id]; j != nil {
		return j, nil
	}
	return nil, fmt.Errorf("job %q: %w", id, ErrNoJob)
}

// SetJobState asks a job to start, pause, resume, stop or crawl again. The wish
// is durable when it returns; pausing and stopping go on. A wish that is
// fulfilled already changes nothing. Errors: ErrNoJob, ErrState.
func (f *Frontier) SetJobState(ctx context.Context, id string, wish schedulerv1.JobWish) (*schedulerv1.JobStatus, error) {
	return f.control(func(b *store.Batch, now time.Time) (*job, error) {
		j, err := f.find(id)
		if err != nil {
			return nil, err
		}
		return j, f.setState(b, j, wish, now)
	})
}

func (f *Frontier) setState(b *store.Batch, j *job, wish schedulerv1.JobWish, now time.Time) error {
	refuse := func() error {
		return fmt.Errorf("job %q is %s: %w", j.id, stateName(j.state), ErrState)
	}
	switch wish {
	case schedulerv1.JobWish_JOB_WISH_START, schedulerv1.JobWish_JOB_WISH_RESUME:
		switch j.state {
		case jobRunning:
			return nil
		case jobStopping, jobFailed:
			return refuse()
		case jobCreated, jobFinished:
			if wish == schedulerv1.JobWish_JOB_WISH_RESUME {
				return refuse()
			}
		}
		f.enter(b, j, jobRunning, "", now)
	case schedulerv1.JobWish_JOB_WISH_PAUSE:
		switch j.state {
		case jobPaused, jobPausing:
			return nil
		case jobRunning:
			f.enter(b, j, jobPausing, "", now)
			f.settle(b, j, now)
		default:
			return refuse()
		}
	case schedulerv1.JobWish_JOB_WISH_STOP:
		switch j.state {
		case jobFinished, jobFailed:
			return nil
		case jobStopping:
			return nil
		}
		j.stopReason = reasonStopped
		f.enter(b, j, jobStopping, "", now)
		f.settle(b, j, now)
	case schedulerv1.JobWish_JOB_WISH_RECRAWL:
		if j.state != jobFinished {
			return refuse()
		}
		j.round++
		j.base = limitsBase{pages: j.cnt.pages, bytes: j.cnt.bytes, ran: j.running(now)}
		j.requeue = urlKey(j.num, 0)
		f.enter(b, j, jobRunning, "", now)
	default:
		return fmt.Errorf("job %q: unknown wish %d: %w", j.id, wish, ErrState)
	}
	return nil
}

func stateName(s schedulerv1.JobState) string {
	return strings.ToLower(strings.TrimPrefix(s.String(), "JOB_STATE_"))
}

// enter changes a job's state.
func (f *Frontier) enter(b *store.Batch, j *job, s schedulerv1.JobState, reason string, now time.Time) {
	f.log.Info("job changes state", "job", j.id, "from", stateName(j.state), "to", stateName(s), "reason", reason)
	was := j.state
	j.state, j.reason = s, reason
	j.runFor(now, s == jobRunning)
	switch s {
	case jobRunning:
		j.ended = time.Time{}
		if j.started.IsZero() {
			j.started = now
		}
		j.moreInactive = true
		j.nextDue = 0
		j.inactiveFrom = numbered(kindInactive, j.num)
		j.lookAtRetired()
		j.forgiving = was == jobFinished || was == jobFailed
		f.uncap(j, now)
	case jobStopping:
		j.drainUntil = now.Add(j.drain)
	case jobFinished, jobFailed:
		j.ended = now
		j.stopReason = ""
	}
	if was == jobRunning {
		for _, q := range j.queues {
			f.dropTasks(q, now)
		}
	}
	if s != jobRunning && j.leased == 0 {
		f.unload(j)
	}
	for _, q := range j.queues {
		f.place(q.host, now)
	}
	f.saveJob(b, j)
	f.publish()
}

// settle ends what waits for the last lease of a job: a pause, a stop, or the
// job itself. Counters are read as one: the mutex is held.
func (f *Frontier) settle(b *store.Batch, j *job, now time.Time) {
	if j.leased > 0 {
		return
	}
	switch j.state {
	case jobPausing:
		f.enter(b, j, jobPaused, "", now)
	case jobStopping:
		f.enter(b, j, jobFinished, j.stopReason, now)
	case jobRunning:
		switch {
		case j.requeue != nil || j.lowering || j.sweep != nil:
		case j.maxPages > 0 && j.cnt.pages-j.base.pages >= j.maxPages:
			f.enter(b, j, jobFinished, reasonMaxPages, now)
		case j.maxBytes > 0 && j.bytesLeft() <= 0:
			f.enter(b, j, jobFinished, reasonMaxBytes, now)
		case j.recrawl.again(): // pages will be due
		case j.cnt.queued == 0 && j.cnt.leased == 0 && j.cnt.pending == 0:
			f.enter(b, j, jobFinished, reasonEmpty, now)
		case j.onlyRetired() && !f.blockedLeft(j):
			f.enter(b, j, jobFinished, reasonEmpty, now)
		}
	}
}

// DeleteJob forgets a job that does not run. Its late commits are answered
// "never". Errors: ErrNoJob, ErrState.
func (f *Frontier) DeleteJob(ctx context.Context, id string) error {
	f.decideMu.Lock()
	defer f.decideMu.Unlock()
	f.mu.Lock()
	j := f.jobs[id]
	p, err := f.deleteJob(id)
	f.mu.Unlock()
	if err != nil {
		return err
	}
	if err := f.await(p); err != nil {
		return err
	}
	f.removeRuns(j.seen.Drop())
	return nil
}

func (f *Frontier) deleteJob(id string) (store.Pending, error) {
	if err := f.usable(); err != nil {
		return nil, err
	}
	j, err := f.find(id)
	if err != nil {
		return nil, err
	}
	if j.state == jobRunning || j.state == jobPausing || j.state == jobStopping {
		return nil, fmt.Errorf("job %q is %s; stop it first: %w", id, stateName(j.state), ErrState)
	}
	b := f.newBatch()
	b.Delete(jobKey(id))
	b.Delete(jobCopyKey(id))
	b.Delete(limiterKey("job " + id))
	forgetControl(b, j)
	for _, kind := range []byte{kindEdges, kindDue, kindLower, kindTally, kindDeferred, kindURL, kindQueued, kindQueue, kindInactive, kindRecent} {
		prefix := numbered(kind, j.num)
		b.DeleteRange(prefix, after(prefix))
	}
	b.Delete(countersKey(j.num))
	b.Delete(runsKey(j.num))
	f.unload(j)
	f.journal.forget(j)
	f.onDisk.forget()
	delete(f.jobs, id)
	delete(f.byNum, j.num)
	f.order = slices.DeleteFunc(f.order, func(o *job) bool { return o == j })
	f.publish()
	return f.apply(b, true)
}

// Job shows one job.
func (f *Frontier) Job(ctx context.Context, id string) (*schedulerv1.JobStatus, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	j, err := f.find(id)
	if err != nil {
		return nil, err
	}
	return f.status(j), nil
}

// Jobs shows all jobs, by id.
func (f *Frontier) Jobs(ctx context.Context) ([]*schedulerv1.JobStatus, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	list := make([]*schedulerv1.JobStatus, 0, len(f.jobs))
	for _, j := range f.jobs {
		list = append(list, f.status(j))
	}
	slices.SortFunc(list, func(a, b *schedulerv1.JobStatus) int { return strings.Compare(a.JobId, b.JobId) })
	return list, nil
}

// JobSpecs returns what the other services need of all jobs that have not
// finished, by id. The specs are shared and not to be changed.
func (f *Frontier) JobSpecs() []*schedulerv1.JobSpec {
	f.mu.Lock()
	defer f.mu.Unlock()
	var list []*schedulerv1.JobSpec
	for _, j := range f.jobs {
		if j.over() {
			continue
		}
		list = append(list, &schedulerv1.JobSpec{
			JobId: j.id, SpecVersion: j.version, FrontierEpoch: j.epoch, Spec: j.spec, ScopeRoots: slices.Clone(j.roots),
		})
	}
	slices.SortFunc(list, func(a, b *schedulerv1.JobSpec) int { return strings.Compare(a.JobId, b.JobId) })
	return list
}

// AddScopeRoot lets a URL join what the job's scope is relative to. The spec's
// version grows, so that links judged before are judged again.
func (f *Frontier) AddScopeRoot(ctx context.Context, jobID, url string) error {
	_, err := f.control(func(b *store.Batch, now time.Time) (*job, error) {
		j, err := f.find(jobID)
		if err != nil {
			return nil, err
		}
		f.addRoot(b, j, url)
		return j, nil
	})
	return err
}

func (f *Frontier) addRoot(b *store.Batch, j *job, url string) {
	if !j.takeRoot(url) {
		return
	}
	j.version++
	f.saveJob(b, j)
	f.publish()
}
