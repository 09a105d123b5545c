package downloader

import (
	"lycosa.dev/downloader/internal/fetch"
	schedulerv1 "lycosa.dev/proto/gen/lycosa/scheduler/v1"
)

// Hello is what the downloader would announce now.
func (d *Downloader) Hello() *schedulerv1.Hello {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.hello()
}

// WithEngine lets a test change the engine of FetchOne.
func (o OneOptions) WithEngine(f func(*fetch.Config)) OneOptions {
	o.configure = f
	return o
}

// Joined tells whether the scheduler has let the downloader join.
func (d *Downloader) Joined() bool { return d.members.Joined() }

// Remembered is how many answers are remembered.
func (d *Downloader) Remembered() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.answered.byLease)
}
