package telemetry

import "lycosa.dev/internal/telemetry/buildinfo"

// Version is the version of the running binary; see buildinfo.
func Version() string { return buildinfo.Version() }
