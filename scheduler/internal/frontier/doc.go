// Package frontier holds every URL of every job, decides which may be fetched
// now and by whom, and takes what came of it. It is the domain of the
// scheduler; it knows no gRPC and asks the network nothing but addresses.
//
// # The life of a URL
//
//	candidate → pending → queued → leased → done | excluded(rule) | failed(reason)
//	                        ▲        │
//	                        └────────┘  retry, lost lease, recrawl
//
// Commit brings a page's links. They are not looked up: the commit's batch
// appends them to the journal as one record, beside the outcome, the lease's
// end, the host's clock and the job's counters, and is synced once. They are
// pending.
//
// The decider takes the journal in batches. It sorts the candidates by
// fingerprint (64 bits of xxh3, keyed with the job's secret), passes those that
// it lately found known, takes as new those of which the filter says no, looks
// the others up in the seen set in the order of their keys, and writes what is
// new into the queues in the order of first sight. No URL's record is read for
// it. The enqueues, the new keys, the journal's deletion and the counters are
// one batch, so that a crash repeats a decision and never halves it. It runs at once when a downloader has asked for
// more than was ready, else when a batch is full or DecideDelay has passed. A
// URL whose depth is above max_depth, or that a trap rule keeps out, is recorded
// as excluded. In a job with max_depth a shorter way that is found later lowers
// a URL's depth and that of all that it leads to, and queues what max_depth had
// cut (depth.go); elsewhere a URL keeps the depth of the first way.
//
// The seen set (package sieve) is a job's fingerprints with the least depth of
// each: the youngest in memory and as records beside the URLs that they stand
// for, the others in sorted files, runs, that the store lists. A full table
// becomes a run, which is durable before the batch that lists it and deletes
// the records; runs are merged in the background, within a rate, and removed
// once the batch that does not list them is durable. A run that its checksums
// find damaged, or that is gone, is built anew from the URLs' records. The
// filter is filled from the runs after a start, and grows up to a setting.
//
// A snapshot (Checkpoint) is the store, the runs that it lists and nothing
// else, made beside the work; who opens it or a copy gives the jobs new epochs.
//
// A queue holds the URLs of one host in one job, in the order of their
// positions (class, and what the job's strategy makes of depth, priority and
// sequence, see order.go): on disk all of them, in memory the
// first few of those queues that have a slot. MaxActiveHosts bounds the slots;
// the other queues lie on disk in the order of their due times, and get slots
// that are free, or that are taken from queues that wait long or have had their
// turn.
//
// A host is shared by the jobs that crawl it. It has one clock, one robots.txt
// for each scheme and one set of addresses. place is the only function that
// says where a host is: its queues are in the ready lists of their jobs (one
// list for each downloader's shard), or the host is in the heap of waiting
// hosts by time, or an event (a lease's end, an answer of the dnser, a
// robots.txt, its turn under a clock) will call place again.
//
// Clocks nest: address, registrable domain, named group, host, job. A lease
// takes a place under all of them at once or under none; where one refuses, the
// queue is parked there and gets its turn in the order in which it came
// (limiter.go). Clocks belong to the deployment, so that jobs share them; what
// outlives a delay (pages of the day, bytes to be paid for) is on disk.
//
// A queue whose host or domain has used up its budget is retired: on disk behind
// all due times, out of memory, until a budget is raised (budget.go). So is one
// whose host has only failed for long (deadhost.go). A page
// that is to be fetched again is done, and lies in an order by due time
// (recrawl.go).
//
// Lease takes hosts from the ready lists, jobs by turns, and two jobs on one
// host by turns. Before a URL it leases what the URL needs: addresses that are
// known and have not expired, the origin's robots.txt, and a place under every
// clock. It reserves the page unit and the bytes of the job's
// limits and budgets, so that they are exact. What robots.txt forbids, what lies too deep,
// and what belongs to a host that is dead is ended here with the reason's name,
// a bounded number in one call.
//
// A lease ends by a commit (done, failed, or a retry after a back-off of the
// host), by the downloader's answer (Release), by its deadline (Renew extends
// it), or by the end of its process. Only outcomes are tries: lost leases are
// counted apart. Where nobody knows how long a fetch took, the host waits its
// longest delay. An outcome whose lease has ended counts if the URL is queued;
// an outcome that comes twice counts once.
//
// # Control and explanations
//
// People change a job while it runs: queues are held or deleted (hold.go),
// exclusions swept through the known URLs (exclude.go), settings laid over some
// hosts (overlay.go), seeds given again (seedagain.go). Each is durable when it
// is answered and goes on after a crash. Why a URL, a queue or a job stands
// where it does is told by whyurl.go, whyqueue.go and whyjob.go; a URL's steps
// are in a history of bounded size (history.go). AuditLive reads a view of the
// store at one instant.
//
// # Who owns what
//
// One mutex guards memory. Under it batches are applied, which orders them as
// the changes in memory are ordered; their sync is awaited outside it, so that
// all who wait share one. No network and no sync happens under the mutex; reads
// of the store do, a few for a host that gets a slot and one for 16 URLs of a
// queue. Batches that come while a sync is under way are gathered and logged as
// one, of which the last change of each key is written (store/group.go). Run
// owns the goroutines: the decider, the tick (clocks, deadlines, ends of jobs,
// slots) and the lookups.
//
// A write that fails is the frontier's end: memory is ahead of the disk then,
// and only the disk is true. Every method returns ErrStorage from then on, Run
// returns, and the next Open goes on from what was durable.
//
// # Invariants
//
// known = queued + leased + done + excluded + failed for each job, after each
// batch, on disk; AuditStore recomputes it, and that every queued URL is in a
// queue, every queue in the order, every leased URL in a lease, every done page
// in its stores. A job finishes when queued, leased and pending are 0, or when
// all that is queued is in retired queues, read under the mutex as one; one with
// a recrawl policy does not.
package frontier
