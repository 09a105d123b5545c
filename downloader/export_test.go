package downloader

import (
	"lycosa.dev/downloader/internal/fetch"
	schedulerv1 "lycosa.dev/proto/gen/lycosa/scheduler/v1"
)

// Hello is what the downloader would announce now.
func (d *Downloader) Hello() *schedulerv1.Hello { return d.hello() }

// WithEngine lets a test change the engine of FetchOne.
func (o OneOptions) WithEngine(f func(*fetch.Config)) OneOptions {
	o.configure = f
	return o
}
