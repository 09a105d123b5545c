package frontier

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	jobv1 "lycosa.dev/proto/gen/lycosa/job/v1"
	"lycosa.dev/scheduler/internal/frontier/store"
)

// A group of the deployment is one clock for hosts of any name and address in
// it, of all jobs, over a restart as well; a job's own groups nest with it.
func TestGroupsOfTheDeployment(t *testing.T) {
	mem := store.NewMemory()
	r := newRig(t, mem)
	_ = r.f.Close()
	group := []*jobv1.ClockGroup{{Name: "hoster", Hosts: []string{"*.host.test"}, Nets: []string{"10.255.0.1"},
		Limit: &jobv1.ClockLimit{MinDelay: durationpb.New(7 * time.Second)}}}
	with := func(o *Options) { o.Groups = group }
	mem = mem.Reopen()
	r.open(mem, with)
	free := testSpec(open24)
	own := testSpec(open24, func(s *jobv1.Spec) {
		s.Politeness.Groups = []*jobv1.ClockGroup{{Name: "mine", Hosts: []string{"a.host.test"}, Limit: &jobv1.ClockLimit{MinDelay: durationpb.New(20 * time.Second)}}}
	})
	r.job("one", free, "http://x.host.test/1", "http://shared.test/1", "http://free.test/1", "http://free.test/2")
	r.job("two", own, "http://a.host.test/1", "http://a.host.test/2", "http://y.host.test/1")
	var last, lastMine time.Time
	inGroup := 0
	for n := range 7 {
		if n == 4 {
			_ = r.f.Close()
			mem = mem.Reopen()
			r.open(mem, with)
		}
		l := r.wait(time.Hour)
		if l == nil {
			t.Fatalf("no lease after %d", n)
		}
		now := r.clock.Now()
		if strings.HasSuffix(l.HostKey, ".host.test") || l.HostKey == "shared.test" {
			inGroup++
			if !last.IsZero() && now.Sub(last) < 7*time.Second {
				t.Errorf("%s came %s after another of the group", l.Url, now.Sub(last))
			}
			last = now
		}
		if l.HostKey == "a.host.test" {
			if !lastMine.IsZero() && now.Sub(lastMine) < 20*time.Second {
				t.Errorf("%s came %s after another of the job's own group", l.Url, now.Sub(lastMine))
			}
			lastMine = now
		}
		r.commit(outcomeOf(l, 200))
	}
	if inGroup != 5 {
		t.Errorf("%d fetches of the group, want 5", inGroup)
	}
}

// A job cannot say what a group of the deployment is; where it did before, the
// deployment's definition counts and the operator is told.
func TestGroupsThatConflict(t *testing.T) {
	mem := store.NewMemory()
	r := newRig(t, mem)
	spec := testSpec(open24, func(s *jobv1.Spec) {
		s.Politeness.Groups = []*jobv1.ClockGroup{{Name: "hoster", Hosts: []string{"b.test"}, Limit: &jobv1.ClockLimit{MinDelay: durationpb.New(time.Hour)}}}
	})
	r.job("j", spec, "http://a.test/1", "http://b.test/1", "http://b.test/2")
	_ = r.f.Close()
	var log bytes.Buffer
	r.open(mem.Reopen(), func(o *Options) {
		o.Groups = []*jobv1.ClockGroup{{Name: "hoster", Hosts: []string{"a.test"}, Limit: &jobv1.ClockLimit{Concurrency: 1}}}
		o.Logger = slog.New(slog.NewTextHandler(&log, nil))
	})
	if s := log.String(); !strings.Contains(s, "the deployment's definition counts") || !strings.Contains(s, "job=j") {
		t.Errorf("log %q", s)
	}
	begun := r.clock.Now()
	for range 3 {
		r.commit(outcomeOf(r.wait(time.Minute), 200))
	}
	if d := r.clock.Now().Sub(begun); d > time.Minute {
		t.Errorf("the job's definition held a host back for %s", d)
	}
	for _, id := range []string{"j", "new"} {
		other := testSpec(func(s *jobv1.Spec) { s.Politeness.Groups = spec.Politeness.Groups })
		_, _, err := r.f.ApplyJob(r.ctx, id, other, false)
		if !errors.Is(err, ErrGroup) || !strings.Contains(err.Error(), `politeness.groups[0].name: "hoster" is a group of the deployment`) {
			t.Errorf("job %s: %v", id, err)
		}
	}
}
