package job_test

import (
	"strings"
	"testing"
	"time"

	"lycosa.dev/internal/job"
	jobv1 "lycosa.dev/proto/gen/lycosa/job/v1"
)

const limitsYAML = `
name: t
seeds: ["http://a.test/"]
politeness:
  domain_limit: {min_delay: 2s, concurrency: 2, pages_per_day: 5000}
  groups:
    - name: hoster
      hosts: ["*.example.net"]
      nets: [192.0.2.0/24]
      limit: {min_delay: 500ms, rate_bytes: 1MiB}
  failures:
    - {class: timeout, wait: 30s, max_tries: 5}
limits: {max_host_pages: 10000}
order: {strategy: breadth_first, precedence: [{hosts: ["example.org"], precedence: 0}]}
recrawl: {policy: adaptive, interval: 12h, min_interval: 1h, max_interval: 720h}
traps: {max_repeats: 0}
`

func TestLimitsFromYAML(t *testing.T) {
	s, err := job.ParseYAML("job.yaml", []byte(limitsYAML))
	if err != nil {
		t.Fatal(err)
	}
	s = job.WithDefaults(s, "1")
	if err := job.Validate(s); err != nil {
		t.Fatal(err)
	}
	p := s.GetPoliteness()
	if p.GetDomainLimit().GetMinDelay().AsDuration() != 2*time.Second || p.GetGroups()[0].GetLimit().GetRateBytes() != 1<<20 ||
		p.GetFailures()[0].GetClass() != jobv1.FailureClass_FAILURE_CLASS_TIMEOUT || s.GetLimits().GetMaxHostPages() != 10000 ||
		s.GetOrder().GetStrategy() != jobv1.OrderStrategy_ORDER_STRATEGY_BREADTH_FIRST || s.GetRecrawl().GetFactor() != job.DefaultRecrawlFactor {
		t.Errorf("%v", s)
	}
	if s.GetTraps().GetMaxRepeats() != 0 || s.GetTraps().GetMaxPathSegments() != job.DefaultMaxPathSegments {
		t.Errorf("traps %v", s.GetTraps())
	}
}

func TestLimitsThatAreWrong(t *testing.T) {
	for yaml, want := range map[string]string{
		"politeness: {host_limit: {min_delay: 48h}}":                                     "politeness.host_limit.min_delay: must be 0 to 24h",
		"politeness: {groups: [{name: x, limit: {concurrency: 1}}]}":                     "politeness.groups[0]: has neither hosts nor nets",
		"politeness: {groups: [{name: 'a b', hosts: [a.test]}]}":                         "politeness.groups[0].name",
		"politeness: {groups: [{name: x, nets: [ten]}]}":                                 "politeness.groups[0].nets[0]",
		"politeness: {groups: [{name: x, hosts: [a.test]}, {name: x, hosts: [b.test]}]}": "is the name of another group",
		"politeness: {failures: [{wait: 1s}]}":                                           "politeness.failures[0].class: is not set",
		"politeness: {failures: [{class: dns}, {class: dns}]}":                           "politeness.failures[1].class: is given twice",
		"order: {precedence: [{hosts: [a.test], precedence: 4}]}":                        "order.precedence[0].precedence: must be 0 to 3",
		"recrawl: {policy: fixed, interval: 0}":                                          "recrawl.interval: must be at least 1s",
		"recrawl: {policy: adaptive, min_interval: 2h, max_interval: 1h}":                "recrawl.max_interval: is 1h0m0s, below min_interval 2h0m0s",
	} {
		s, err := job.ParseYAML("job.yaml", []byte("name: t\nidentity: {user_agent: bot}\n"+yaml))
		if err != nil {
			t.Errorf("%s: %v", yaml, err)
			continue
		}
		if err := job.Validate(job.WithDefaults(s, "1")); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", yaml, err, want)
		}
	}
}
