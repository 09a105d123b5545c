package frontier

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	crawlv1 "lycosa.dev/proto/gen/lycosa/crawl/v1"
	jobv1 "lycosa.dev/proto/gen/lycosa/job/v1"

	"lycosa.dev/scheduler/internal/frontier/store"
)

// Errors of the frontier's methods; test with errors.Is.
var (
	// ErrNoJob: there is no job of that id.
	ErrNoJob = errors.New("no such job")
	// ErrJobExists: a job of that id exists and only a new one was wanted.
	ErrJobExists = errors.New("the job exists already")
	// ErrConflict: the change does not fit a job that has URLs (its scope kind
	// or identity), the message says which field.
	ErrConflict = errors.New("the change conflicts with what the job has crawled")
	// ErrState: the wish does not fit the job's state.
	ErrState = errors.New("the job's state does not allow it")
	// ErrRule: an exclusion cannot be used.
	ErrRule = errors.New("it is no regular expression")
	// ErrNoRule: an exclusion that is to be removed is not there.
	ErrNoRule = errors.New("no such exclusion")
	// ErrClosed: the frontier was closed.
	ErrClosed = errors.New("the frontier is closed")
	// ErrStorage: the store failed; nothing is taken any more. The process is
	// to end with "storage full or unwritable".
	ErrStorage = store.ErrFailed
	// ErrCorrupt: the store's files cannot be read.
	ErrCorrupt = store.ErrCorrupt
	// ErrFormat: another version of Lycosa has written the directory.
	ErrFormat = errors.New("the frontier was written by another version")
	// ErrLocked: another process works on the directory.
	ErrLocked = store.ErrLocked
)

// Store is the seam to what keeps the frontier; see package store.
type Store = store.Store

// Clock tells the time. The times must carry a monotonic reading, as time.Now's
// do, so that a wall clock set back does not shorten a wait.
type Clock interface {
	Now() time.Time
}

// ClockFunc makes a Clock of a function.
type ClockFunc func() time.Time

// Now calls the function.
func (f ClockFunc) Now() time.Time { return f() }

// LookupFunc asks the dnser for a host's addresses. refresh asks it to
// distrust its cache. It returns when the answer is there or ctx ends; a host
// that does not resolve is an answer.
type LookupFunc func(ctx context.Context, host, jobID string, refresh bool) (*crawlv1.HostAddresses, error)

// Options configure a frontier. The zero value of a field means its default.
type Options struct {
	// Store keeps the frontier; required. Open takes it over: Close closes it.
	Store store.Store
	// Clock tells the time. Default: time.Now.
	Clock Clock
	// Logger takes what an operator should know. Default: none.
	Logger *slog.Logger
	// Registerer takes the metrics. Default: none are registered.
	Registerer prometheus.Registerer
	// Lookup resolves hosts whose addresses are unknown or expired. Default:
	// none, and only addresses that come with commits are used.
	Lookup LookupFunc
	// RandomID makes lease ids, frontier epochs and job secrets. Default:
	// crypto/rand.
	RandomID func() uint64

	// Groups are the deployment's named clocks: every job is under them. Default:
	// none, and only the groups of jobs count.
	Groups []*jobv1.ClockGroup

	// LeaseDeadline is how long a lease lasts without a renewal. Default: 5m.
	LeaseDeadline time.Duration
	// LeaseGrace is what the scheduler waits beyond a lease's deadline.
	// Default: 15s.
	LeaseGrace time.Duration
	// MaxLease is how long renewals can stretch a lease. Default: 1h.
	MaxLease time.Duration
	// MaxActiveHosts is the number of queues kept in memory. Default: 10000.
	MaxActiveHosts int
	// DeadLeasesAtStart: the leases found by Open belong to a process that is
	// gone (one process holds all services).
	DeadLeasesAtStart bool
	// AdoptWait is how long after Open, at least, a lease of an earlier start
	// is left alone whose downloader has not joined to settle it (Adopt).
	// Default: LeaseDeadline + LeaseGrace.
	AdoptWait time.Duration
	// MaxCrashes is the number of times a URL may be out when its process
	// dies before it runs alone. Default: 5.
	MaxCrashes int
	// ProbeInterval is the wait between two tries while storage is unavailable
	// or the network is down. Default: 10s.
	ProbeInterval time.Duration
	// Lookups is the number of Lookup calls at a time. Default: 16.
	Lookups int
	// DecideDelay is how long the decider gathers candidates when enough work
	// is ready. Default: 50ms.
	DecideDelay time.Duration

	// SeenTable is the number of keys of a job's seen set that are kept in
	// memory before they become a run. Default: 131072, about 5 MiB.
	SeenTable int
	// SeenFilterBytes bounds the filter whose "no" saves the look-up of a new
	// URL. It grows with the URLs up to it. Default: 128 MiB, enough for 100
	// million URLs; beyond it helps less.
	SeenFilterBytes int
	// SeenCacheBytes bounds the blocks of runs that are kept in memory.
	// Default: 64 MiB, taken as they are read.
	SeenCacheBytes int

	// questionsOnly: nothing will be decided, so that no memory is taken for
	// it.
	questionsOnly bool
}
