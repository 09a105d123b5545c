package buildinfo

import (
	"runtime/debug"
	"strings"
	"testing"
)

func TestVersion(t *testing.T) {
	info := func(v string, settings ...debug.BuildSetting) *debug.BuildInfo {
		return &debug.BuildInfo{Main: debug.Module{Version: v}, Settings: settings}
	}
	revision := debug.BuildSetting{Key: "vcs.revision", Value: "0123456789abcdef0123"}
	dirty := debug.BuildSetting{Key: "vcs.modified", Value: "true"}
	for _, c := range []struct {
		linked string
		info   *debug.BuildInfo
		want   string
	}{
		{"v1.2.3", info("v9"), "v1.2.3"},
		{"", nil, "devel"},
		{"", info("v1.0.0"), "v1.0.0"},
		{"", info("(devel)"), "devel"},
		{"", info("(devel)", revision), "devel-0123456789ab"},
		{"", info("", revision, dirty), "devel-0123456789ab-dirty"},
	} {
		if got := versionFrom(c.linked, c.info, c.info != nil); got != c.want {
			t.Errorf("versionFrom(%q, %v) = %q, want %q", c.linked, c.info, got, c.want)
		}
	}
	if line := VersionLine("lycosa"); !strings.HasPrefix(line, "lycosa "+Version()+" (go") {
		t.Errorf("VersionLine: %q", line)
	}
}
