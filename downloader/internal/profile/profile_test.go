package profile_test

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"lycosa.dev/downloader/internal/fetch"
	"lycosa.dev/downloader/internal/profile"
	jobv1 "lycosa.dev/proto/gen/lycosa/job/v1"
	schedulerv1 "lycosa.dev/proto/gen/lycosa/scheduler/v1"
)

func TestProfile(t *testing.T) {
	base := fetch.Default().Settings
	p := profile.New(profile.Options{Base: base, JobNets: true})
	job := &schedulerv1.JobSpec{JobId: "a", SpecVersion: 1, Spec: &jobv1.Spec{
		Identity: &jobv1.Identity{UserAgent: "X/1", Contact: "me@example.org"},
		Limits:   &jobv1.Limits{MaxPageBytes: 77},
		Fetch: &jobv1.Fetch{
			AllowNet: []string{"127.0.0.0/8"}, InsecureTls: true, IdleTimeout: durationpb.New(time.Second),
			Headers: []string{"X-A: b"},
		},
	}}
	s, err := p.For(job)
	if err != nil {
		t.Fatal(err)
	}
	if s.UserAgent != "X/1" || s.From != "me@example.org" || s.MaxBodyBytes != 77 || s.IdleTimeout != time.Second ||
		s.ConnectTimeout != base.ConnectTimeout || s.Verify != fetch.VerifyRecord || len(s.Headers) != 1 || len(s.Policy.AllowNets) != 1 {
		t.Errorf("%+v", s)
	}
	if again, _ := p.For(job); again != s {
		t.Error("made anew for the same version")
	}
	job.SpecVersion, job.Spec.Identity.UserAgent = 2, "X/2"
	job.Spec.Identity.Contact = "https://example.org/@me"
	if s, _ := p.For(job); s.UserAgent != "X/2" || s.From != "" {
		t.Errorf("%+v", s)
	}
	if s, _ := profile.New(profile.Options{Base: base}).For(job); len(s.Policy.AllowNets) != 0 {
		t.Error("a job opened a network although jobs may not")
	}
	for _, bad := range []*jobv1.Fetch{{AllowNet: []string{"x"}}, {Headers: []string{"Host: evil"}}, {Headers: []string{"A: b\r\nC: d"}}} {
		job.SpecVersion++
		job.Spec.Fetch = bad
		if _, err := p.For(job); err == nil || !strings.Contains(err.Error(), "job a") {
			t.Errorf("%v: error %v", bad, err)
		}
	}
}
