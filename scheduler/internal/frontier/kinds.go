package frontier

import "fmt"

// A recordKind is what the frontier keeps under one kind of key.
type recordKind struct {
	what   string // for people, the rest of the key behind it
	decode func(key, value []byte) error
}

// recordKinds are the kinds whose values are records: versioned, with a
// checksum. Every one has a decoder here, by which the audit reads it and the
// fuzz target of records reaches it.
var recordKinds = map[byte]recordKind{
	kindMeta:       {"the deployment", decodes(decodeMeta)},
	kindJob:        {"job", decodes(decodeJob)},
	kindJobCopy:    {"copy of job", decodes(decodeJob)},
	kindCounters:   {"counters of job", decodes(decodeCounters)},
	kindURL:        {"URL", decodes(decodeURL)},
	kindQueued:     {"queued URL", decodes(decodeQueued)},
	kindQueue:      {"queue", decodes(decodeQueue)},
	kindHost:       {"host", decodes(decodeHost)},
	kindDNS:        {"addresses of", decodes(decodeAddresses)},
	kindRobots:     {"robots.txt of", decodes(decodeRobots)},
	kindLease:      {"lease", decodes(decodeLease)},
	kindJournal:    {"journal entry", decodes(decodeJournal)},
	kindLimiter:    {"clock of", decodes(decodeLimiter)},
	kindRuns:       {"runs of the seen set of", decodes(decodeRuns)},
	kindRecent:     {"recent keys of the seen set of", func(k, v []byte) error { _, _, err := decodeRecent(k, v); return err }},
	kindTally:      {"tally", decodes(decodeTally)},
	kindEdges:      {"links of", decodes(decodeEdges)},
	kindLower:      {"page to come nearer", func(k, v []byte) error { _, _, err := decodeLower(k, v); return err }},
	kindDeferred:   {"deferred hosts of", decodes(decodeDeferred)},
	kindHold:       {"hold of queue", decodes(decodeHeld)},
	kindSweep:      {"change of rules of", decodes(decodeSweep)},
	kindStep:       {"step", decodes(decodeStep)},
	kindGeneration: {"generation of the history of", decodes(decodeGeneration)},
	kindMark:       {"mark of the history of", decodes(decodeMark)},
}

// bareKinds are the kinds whose keys say all, or whose values are not ours to
// read: a record that was set aside is kept as it was found.
var bareKinds = map[byte]bool{kindInactive: true, kindDue: true, kindBad: true}

// decodes is a decoder of which only the error matters.
func decodes[T any](decode func(key, value []byte) (T, error)) func(key, value []byte) error {
	return func(key, value []byte) error { _, err := decode(key, value); return err }
}

// badRecord tells what is wrong with a record; nil: nothing is, or its kind has
// no records.
func badRecord(key, value []byte) error {
	kind, ok := recordKinds[key[0]]
	if !ok {
		return nil
	}
	if err := kind.decode(key, value); err != nil {
		return fmt.Errorf("%s %q: %w", kind.what, key[1:], err)
	}
	return nil
}
