package frontier

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	jobv1 "lycosa.dev/proto/gen/lycosa/job/v1"
	schedulerv1 "lycosa.dev/proto/gen/lycosa/scheduler/v1"

	"lycosa.dev/scheduler/internal/frontier/store"
)

// Exclusions that change while a job runs. The new spec holds at once for links
// that are judged from then on; a sweep applies it to what is known: queued URLs
// that an exclusion now matches end with the rule's name. Where a rule is gone,
// or max_depth is higher, every URL that a rule or max_depth had ended is judged
// anew, whichever it was: it is queued again, or its reason is the one that
// keeps it out now. A link that was judged
// before and arrives after the sweep has passed is ended when its turn comes to
// be leased. The sweep's place is on disk, so that a crash only repeats a
// chunk. Seeds stay: somebody named them.
//
// What an exclusion had kept out before it was ever stored is not known and
// cannot come back but by its pages being read again.

const (
	// sweepChunk is the number of records that a sweep looks at in one batch.
	sweepChunk = 1000
	// examplesShown is how many URLs a preview names.
	examplesShown = 20
	// excludePrefix begins the reason of a URL that an exclusion ended.
	excludePrefix = "exclude "
)

// sweep is a change of rules on its way through the known URLs.
type sweep struct {
	reviving bool   // queued URLs are done; the ended ones are looked at
	at       []byte // where it stands
	loosened bool   // something is allowed again: the ended ones are to be looked at
	dropped  uint64
	revived  uint64
}

func (s *sweep) encode(key []byte) []byte {
	w := newWriter()
	w.bool(s.reviving)
	w.bytes(s.at)
	w.bool(s.loosened)
	return w.seal(key)
}

func decodeSweep(key, value []byte) (*sweep, error) {
	r, err := open(key, value)
	if err != nil {
		return nil, err
	}
	s := &sweep{reviving: r.bool(), at: r.bytes(), loosened: r.bool()}
	return s, r.err
}

// loadSweeps finds the sweeps that were under way.
func (f *Frontier) loadSweeps() error {
	for _, j := range f.order {
		key := sweepKey(j.num)
		v, ok, err := f.st.Get(key)
		if err != nil {
			return err
		}
		if !ok {
			continue
		}
		if j.sweep, err = decodeSweep(key, v); err != nil {
			f.noteBad(key, v)
			j.sweep = nil
			f.log.Error("the record of a change of exclusions is damaged; queued URLs are still judged when they are leased", "job", j.id)
		}
	}
	return nil
}

// exclusions are what a spec and its overlays keep out.
type exclusions struct {
	rules []exclusion
	job   *job // nil: no overlay excludes
}

// compileExclusions makes a spec's exclusions ready, those of overlays apart;
// those that do not compile were refused before.
func compileExclusions(spec *jobv1.Spec) exclusions {
	var x exclusions
	for _, s := range spec.GetScope().GetExclude() {
		if re, err := regexp.Compile(s); err == nil {
			x.rules = append(x.rules, exclusion{re, excludePrefix + s})
		}
	}
	return x
}

func (x *exclusions) none() bool { return len(x.rules) == 0 && x.job == nil }

// by names the exclusion that matches a URL; empty: none does, or it is a seed.
func (x *exclusions) by(e *entry, hostKey string) string {
	if e.seed {
		return ""
	}
	if x.job != nil {
		for _, r := range x.job.ofURL(hostKey, e.url).excludes {
			if r.re.MatchString(e.url) {
				return r.reason
			}
		}
	}
	for _, r := range x.rules {
		if r.re.MatchString(e.url) {
			return r.reason
		}
	}
	return ""
}

// ExclusionChange is what a change of exclusions did, or would do.
type ExclusionChange struct {
	Job      *schedulerv1.JobStatus
	Dropped  uint64
	Revived  uint64
	Examples []string // of those dropped
}

// ChangeExclusions adds and removes exclusions of a job and applies them to what
// is known; with dryRun it only counts. Errors: ErrNoJob, ErrNoRule, ErrRule.
func (f *Frontier) ChangeExclusions(ctx context.Context, jobID string, add, remove []string, dryRun bool) (*ExclusionChange, error) {
	f.mu.Lock()
	j, err := f.find(jobID)
	if err != nil {
		f.mu.Unlock()
		return nil, err
	}
	spec, err := withExclusions(j.spec, add, remove)
	res := &ExclusionChange{Job: f.status(j)}
	f.mu.Unlock()
	if err != nil {
		return nil, fmt.Errorf("job %q: %w", jobID, err)
	}
	if dryRun {
		return res, f.previewExclusions(ctx, j, spec, loosens(j.spec, spec), res)
	}
	// Some of what is dropped is named, as the preview does.
	before := &ExclusionChange{}
	if err := f.previewExclusions(ctx, j, spec, false, before); err != nil {
		return nil, err
	}
	res.Examples = before.Examples
	var mine *sweep
	res.Job, err = f.control(func(b *store.Batch, now time.Time) (*job, error) {
		if f.jobs[jobID] != j {
			return nil, fmt.Errorf("job %q: %w", jobID, ErrNoJob)
		}
		spec, err := withExclusions(j.spec, add, remove)
		if err != nil {
			return nil, fmt.Errorf("job %q: %w", jobID, err)
		}
		if proto.Equal(spec, j.spec) {
			return j, nil
		}
		f.sweepFor(b, j, j.spec, spec)
		mine = j.sweep
		j.setSpec(spec)
		j.version++
		f.saveJob(b, j)
		f.publish()
		return j, nil
	})
	if err != nil || mine == nil {
		return res, err
	}
	for {
		if err := ctx.Err(); err != nil {
			return nil, err // the tick goes on with it
		}
		f.mu.Lock()
		done := f.err != nil || f.jobs[jobID] != j || j.sweep != mine
		if !done {
			f.sweepStep(j, f.now())
		}
		err, res.Dropped, res.Revived, res.Job = f.err, mine.dropped, mine.revived, f.status(j)
		f.mu.Unlock()
		if err != nil || done {
			return res, err
		}
	}
}

// withExclusions is a spec with other exclusions.
func withExclusions(spec *jobv1.Spec, add, remove []string) (*jobv1.Spec, error) {
	spec = proto.CloneOf(spec)
	if spec.Scope == nil {
		spec.Scope = &jobv1.Scope{}
	}
	list := spec.Scope.Exclude
	for _, s := range remove {
		i := slices.Index(list, s)
		if i < 0 {
			there := "there are none"
			if len(list) > 0 {
				there = "there are: " + strings.Join(list, "  ")
			}
			return nil, fmt.Errorf("%q is not one of its exclusions; %s: %w", s, there, ErrNoRule)
		}
		list = slices.Delete(list, i, i+1)
	}
	for _, s := range add {
		if _, err := regexp.Compile(s); err != nil {
			return nil, fmt.Errorf("exclusion %q: %w: %w", s, ErrRule, err)
		}
		if !slices.Contains(list, s) {
			list = append(list, s)
		}
	}
	spec.Scope.Exclude = list
	return spec, nil
}

// ruleReasons are the reasons that a spec's exclusions give, those of overlays
// too.
func ruleReasons(spec *jobv1.Spec) []string {
	var list []string
	for _, s := range spec.GetScope().GetExclude() {
		list = append(list, excludePrefix+s)
	}
	for _, o := range spec.GetOverlays() {
		for _, s := range o.GetExclude() {
			list = append(list, overlayReason(o.GetName(), s))
		}
	}
	return list
}

// sameReach tells whether the overlays that exclude apply to the same URLs.
func sameReach(old, spec *jobv1.Spec) bool {
	reach := func(s *jobv1.Spec) []string {
		var list []string
		for _, o := range s.GetOverlays() {
			if len(o.GetExclude()) > 0 {
				list = append(list, fmt.Sprintf("%q %q %q %q", o.GetName(), o.GetHosts(), o.GetDomains(), o.GetUrlPrefixes()))
			}
		}
		return list
	}
	return slices.Equal(reach(old), reach(spec))
}

// loosens tells whether a change allows something that was kept out.
func loosens(old, spec *jobv1.Spec) bool {
	left := ruleReasons(spec)
	same := sameReach(old, spec)
	for _, r := range ruleReasons(old) {
		// An overlay that reaches elsewhere may have let go of some.
		if !slices.Contains(left, r) || !same && strings.HasPrefix(r, overlayPrefix) {
			return true
		}
	}
	o, n := old.GetLimits(), spec.GetLimits()
	return o != nil && o.MaxDepth != nil && (n == nil || n.MaxDepth == nil || n.GetMaxDepth() > o.GetMaxDepth())
}

// sweepFor starts the sweep that a change of the spec needs, if it needs one.
// One that is under way begins again, with what it had to bring back.
func (f *Frontier) sweepFor(b *store.Batch, j *job, old, spec *jobv1.Spec) {
	loosened := loosens(old, spec)
	if !loosened && slices.Equal(ruleReasons(old), ruleReasons(spec)) && sameReach(old, spec) {
		return
	}
	s := &sweep{loosened: loosened || j.sweep != nil && j.sweep.loosened, at: numbered(kindQueued, j.num)}
	j.sweep = s
	key := sweepKey(j.num)
	b.Set(key, s.encode(key))
	f.dueAt(f.now())
}

// previewExclusions counts what a change would do, without holding anything up.
func (f *Frontier) previewExclusions(ctx context.Context, j *job, spec *jobv1.Spec, loosened bool, res *ExclusionChange) error {
	judge := &job{id: j.id}
	judge.setSpec(spec)
	rules := &judge.excludes
	seen := 0
	var err error
	alive := func() bool {
		if seen++; seen%1024 == 0 {
			err = ctx.Err()
		}
		return err == nil
	}
	prefix := numbered(kindQueued, j.num)
	if !rules.none() {
		scanErr := f.st.Scan(prefix, after(prefix), func(k, v []byte) bool {
			_, host, _, _, _, _ := parseQueuedKey(k)
			if e, err := decodeQueued(k, v); err == nil && rules.by(e, host) != "" {
				res.Dropped++
				if len(res.Examples) < examplesShown {
					res.Examples = append(res.Examples, e.url)
				}
			}
			return alive()
		})
		if scanErr != nil {
			return scanErr
		}
	}
	if !loosened || err != nil {
		return err
	}
	prefix = numbered(kindURL, j.num)
	scanErr := f.st.Scan(prefix, after(prefix), func(k, v []byte) bool {
		if rec, err := decodeURL(k, v); err == nil && ruled(rec) && judge.keepsOut(rec.entry, rec.host) == "" {
			res.Revived++
		}
		return alive()
	})
	if scanErr != nil {
		return scanErr
	}
	return err
}

// ruled tells whether a URL ended by a rule that a spec can take back: an
// exclusion or max_depth. A damaged record has lost its URL and stays.
func ruled(rec *urlRecord) bool {
	return rec.state == stateExcluded && rec.entry.url != "" && (isMaxDepth(rec.reason) ||
		strings.HasPrefix(rec.reason, excludePrefix) || strings.HasPrefix(rec.reason, overlayPrefix))
}

// keepsOut names the exclusion or the max_depth that keeps a URL out now; empty:
// none does.
func (j *job) keepsOut(e *entry, host string) string {
	if why := j.excludes.by(e, host); why != "" {
		return why
	}
	if j.tooDeep(e.depth) {
		return maxDepthReason(j)
	}
	return ""
}

// sweepSome goes on with the sweeps that are under way.
func (f *Frontier) sweepSome(now time.Time) {
	for _, j := range f.order {
		if j.sweep == nil || f.err != nil {
			continue
		}
		if f.sweepStep(j, now); j.sweep != nil {
			f.dueAt(now)
		}
	}
}

// sweepStep does one chunk of a job's sweep. Called with mu held.
func (f *Frontier) sweepStep(j *job, now time.Time) {
	s := j.sweep
	kind := byte(kindQueued)
	if s.reviving {
		kind = kindURL
	}
	b := f.newBatch()
	var next []byte
	n := 0
	var drop []*entry
	var hosts []string
	var back, still []*urlRecord // of the ended ones: queued again; kept out by another rule
	err := f.st.Scan(s.at, after(numbered(kind, j.num)), func(k, v []byte) bool {
		if n++; n > sweepChunk {
			next = slices.Clone(k)
			return false
		}
		if !s.reviving {
			_, host, _, _, _, _ := parseQueuedKey(k)
			if e, err := decodeQueued(k, v); err == nil && j.excludes.by(e, host) != "" {
				drop, hosts = append(drop, e), append(hosts, host)
			}
		} else if rec, err := decodeURL(k, v); err == nil && ruled(rec) {
			switch why := j.keepsOut(rec.entry, rec.host); why {
			case rec.reason:
			case "":
				back = append(back, rec)
			default:
				rec.reason = why
				still = append(still, rec)
			}
		}
		return true
	})
	if err != nil {
		f.fail(err)
		return
	}
	for i, e := range drop {
		f.endQueued(b, j, hosts[i], e, j.excludes.by(e, hosts[i]), now)
		s.dropped++
	}
	a := admission{f: f, b: b, now: now, stored: map[queueName]bool{}, touched: map[*host]struct{}{}}
	for _, rec := range back {
		a.again(j, rec)
		s.revived++
	}
	for h := range a.touched {
		f.place(h, now)
	}
	for _, rec := range still {
		k := urlKey(j.num, rec.entry.key)
		b.Set(k, rec.encode(k))
		f.endedWithoutFetch(b, j, rec.entry, rec.state, rec.reason, now)
	}
	key := sweepKey(j.num)
	switch {
	case next != nil:
		s.at = next
		b.Set(key, s.encode(key))
	case !s.reviving && s.loosened:
		s.reviving, s.at = true, numbered(kindURL, j.num)
		b.Set(key, s.encode(key))
	default:
		j.sweep = nil
		b.Delete(key)
		f.log.Info("a change of rules was applied to the known URLs", "job", j.id, "dropped", s.dropped, "revived", s.revived)
	}
	f.saveCounters(b, j)
	f.settle(b, j, now)
	_, _ = f.apply(b, false)
}
