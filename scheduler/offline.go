package scheduler

import "lycosa.dev/scheduler/internal/frontier"

// Errors that tell a caller of Run why the frontier could not be opened or went
// on no longer; test with errors.Is.
var (
	// ErrStorage: the folder is full or cannot be written.
	ErrStorage = frontier.ErrStorage
	// ErrCorrupt: the frontier's files cannot be read.
	ErrCorrupt = frontier.ErrCorrupt
	// ErrLocked: another process works on the folder.
	ErrLocked = frontier.ErrLocked
)

// AuditReport is what Audit found.
type AuditReport = frontier.AuditReport

// Audit recomputes the invariants of a frontier's folder that nobody runs.
func Audit(dir string) (*AuditReport, error) { return frontier.Audit(dir) }
