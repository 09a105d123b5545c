// Package buildinfo knows the version of the running binary. It stands apart
// from telemetry so that what only prints a version needs no tracing library.
package buildinfo

import (
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
)

// version is set by the build: -ldflags "-X lycosa.dev/internal/telemetry/buildinfo.version=v1.2.3".
var version string

// Version is the version of the running binary: what the linker was told, else
// the module's version or the commit it was built from, else "devel".
var Version = sync.OnceValue(func() string {
	info, ok := debug.ReadBuildInfo()
	return versionFrom(version, info, ok)
})

// VersionLine is the line that --version prints: name, version, Go version and
// platform.
func VersionLine(name string) string {
	return name + " " + Version() + " (" + runtime.Version() + " " + runtime.GOOS + "/" + runtime.GOARCH + ")"
}

func versionFrom(linked string, info *debug.BuildInfo, ok bool) string {
	if linked != "" {
		return linked
	}
	if !ok {
		return "devel"
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	var revision string
	var dirty bool
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			revision = s.Value
		case "vcs.modified":
			dirty = s.Value == "true"
		}
	}
	if revision == "" {
		return "devel"
	}
	if len(revision) > 12 {
		revision = revision[:12]
	}
	v := strings.Join([]string{"devel", revision}, "-")
	if dirty {
		v += "-dirty"
	}
	return v
}
