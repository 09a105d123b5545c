package allinone

import "path/filepath"

// Layout names what is in the folder of a Process. It is a folder's path.
type Layout string

// Frontier is the folder of the scheduler's store.
func (l Layout) Frontier() string { return filepath.Join(string(l), "frontier") }

// Reports is the folder of the reports.
func (l Layout) Reports() string { return filepath.Join(string(l), "reports") }

// WARC is the folder of the WARC files.
func (l Layout) WARC() string { return filepath.Join(string(l), "warc") }

// Pages is the folder of the pages that are kept as files.
func (l Layout) Pages() string { return filepath.Join(string(l), "pages") }

// Logs is the folder of crawl.log and lycosa.log.
func (l Layout) Logs() string { return filepath.Join(string(l), "logs") }

// Log is the process's own log.
func (l Layout) Log() string { return filepath.Join(l.Logs(), "lycosa.log") }

// CrawlLog has one line a fetch.
func (l Layout) CrawlLog() string { return filepath.Join(l.Logs(), "crawl.log") }

// Job is the effective spec of a crawl.
func (l Layout) Job() string { return filepath.Join(string(l), "job.yaml") }

// DNSCache keeps the dnser's cache across restarts.
func (l Layout) DNSCache() string { return filepath.Join(string(l), "dns.cache") }

// Cookies is the folder of the jobs' cookies, a cookies.txt each.
func (l Layout) Cookies() string { return filepath.Join(string(l), "cookies") }

// Secrets is the folder of the secrets that jobs name, a file each (mode 0600),
// if whoever runs the process makes one.
func (l Layout) Secrets() string { return filepath.Join(string(l), "secrets") }

// Socket is where a living process serves AdminService.
func (l Layout) Socket() string { return filepath.Join(string(l), "lycosa.sock") }

// Lock is held by the process that works on the folder; it contains its id.
func (l Layout) Lock() string { return filepath.Join(string(l), "lycosa.lock") }
