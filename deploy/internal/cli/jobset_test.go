package cli

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	jobv1 "lycosa.dev/proto/gen/lycosa/job/v1"
)

func TestWithSettings(t *testing.T) {
	five := uint32(5)
	spec, err := effective(&jobv1.Spec{Name: "x", Seeds: []string{"http://a.test/"}, Limits: &jobv1.Limits{MaxDepth: &five},
		Identity: &jobv1.Identity{Contact: "a@b.org"}, Scope: &jobv1.Scope{Exclude: []string{`\.(png|gif)$`, "/x: y/"}}})
	if err != nil {
		t.Fatal(err)
	}
	same, err := withSettings(spec, []string{"name=x"})
	if err != nil {
		t.Fatal(err)
	}
	if same, _ = effective(same); !proto.Equal(same, spec) {
		t.Errorf("a change of nothing made\n%v of\n%v", same, spec)
	}
	got, err := withSettings(spec, []string{"politeness.min_delay=2.5s", "limits.max_pages=7", "limits.max_depth=", "politeness.robots=ignore"})
	if err != nil {
		t.Fatal(err)
	}
	if got.GetPoliteness().GetMinDelay().AsDuration() != 2500*time.Millisecond || got.GetLimits().GetMaxPages() != 7 ||
		got.GetLimits().MaxDepth != nil || got.GetPoliteness().GetRobots() != jobv1.RobotsPolicy_ROBOTS_POLICY_IGNORE {
		t.Errorf("got %v", got)
	}
	for _, bad := range []string{"min_delay", "politeness.min_dely=2s", "limits.max_pages=many", "=x"} {
		if _, err := withSettings(spec, []string{bad}); err == nil || !strings.Contains(err.Error(), strings.TrimLeft(strings.Split(bad, "=")[0], "")) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}
