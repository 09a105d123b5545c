package downloader

import schedulerv1 "lycosa.dev/proto/gen/lycosa/scheduler/v1"

// Hello is what the downloader would announce now.
func (d *Downloader) Hello() *schedulerv1.Hello { return d.hello() }
