package frontier

import (
	"fmt"

	"lycosa.dev/scheduler/internal/frontier/store"
)

// AuditLive audits the frontier as it is at this instant, while it goes on. A
// snapshot is taken between two batches; nothing waits for the audit itself.
func (f *Frontier) AuditLive() (*AuditReport, error) {
	viewer, ok := f.st.(store.Viewer)
	if !ok {
		return nil, fmt.Errorf("%w: the store gives no view of one instant; stop the process and audit its folder", ErrState)
	}
	// The decider changes the runs of the seen sets; it waits until those of
	// the snapshot are open, and can then remove what it has merged.
	f.decideMu.Lock()
	held := true
	release := func() {
		if held {
			held = false
			f.decideMu.Unlock()
		}
	}
	defer release()
	f.mu.Lock()
	if f.err != nil {
		defer f.mu.Unlock()
		return nil, f.err
	}
	snap, err := viewer.View()
	f.mu.Unlock()
	if err != nil {
		return nil, err
	}
	defer snap.Close()
	return auditStore(snap, release)
}
