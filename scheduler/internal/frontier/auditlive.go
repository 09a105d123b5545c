package frontier

// AuditLive audits the frontier as it is at this instant, while it goes on. A
// snapshot is taken between two batches; nothing waits for the audit itself.
func (f *Frontier) AuditLive() (*AuditReport, error) {
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
	snap, err := f.view()
	f.mu.Unlock()
	if err != nil {
		return nil, err
	}
	defer snap.Close()
	return auditStore(snap, release)
}
