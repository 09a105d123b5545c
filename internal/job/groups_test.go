package job_test

import (
	"strings"
	"testing"
	"time"

	"lycosa.dev/internal/job"
)

func TestParseGroups(t *testing.T) {
	list, err := job.ParseGroups("groups.yaml", []byte(`
groups:
  - name: hoster
    hosts: ["*.example.net", example.org]
    nets: [192.0.2.0/24]
    limit: {min_delay: 2s, concurrency: 1, rate_bytes: 1MiB, pages_per_day: 50000}
  - {name: other, hosts: [a.test], limit: {concurrency: 3}}
`))
	if err != nil {
		t.Fatal(err)
	}
	if len(list) != 2 || list[0].GetLimit().GetMinDelay().AsDuration() != 2*time.Second || list[0].GetLimit().GetRateBytes() != 1<<20 || list[1].GetName() != "other" {
		t.Errorf("%v", list)
	}
	if list, err = job.ParseGroups("groups.yaml", nil); err != nil || len(list) != 0 {
		t.Errorf("an empty file: %v, %v", list, err)
	}
}

func TestParseGroupsThatAreWrong(t *testing.T) {
	for text, want := range map[string]string{
		"groups: [{name: x, hosts: [a.test]}]":                            "groups[0].limit: limits nothing",
		"groups: [{name: x, limit: {concurrency: 1}}]":                    "groups[0]: has neither hosts nor nets",
		"groups: [{name: x, nets: [ten], limit: {concurrency: 1}}]":       "groups[0].nets[0]",
		"groups: [{name: x, hosts: ['A.test'], limit: {concurrency: 1}}]": "groups[0].hosts[0]",
		"groups: [{name: x, hosts: [a.test], limt: {concurrency: 1}}]":    "limit",
		"min_delay: 1s": "holds \"groups\" and nothing else",
		"groups: [{name: x, hosts: [a.test], limit: {concurrency: 1}}, {name: x, hosts: [b.test], limit: {concurrency: 1}}]": "is the name of another group",
		"a: 1\n---\nb: 2": "a file of groups holds one document",
	} {
		if _, err := job.ParseGroups("groups.yaml", []byte(text)); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "groups.yaml") {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}
