// Package descriptors says how many file descriptors a process may hold and how
// they are shared out, so that connections to the web never take those that
// files need: a store that cannot open its next file ends the crawl, a fetch
// that waits does not.
package descriptors

import (
	"errors"
	"syscall"
)

// The files of a process: stores, logs, streams between services.
const (
	minFiles = 32
	maxFiles = 1024
)

// Share is how a process's descriptors are used. Of few, half are left to
// files; of many, maxFiles.
type Share struct {
	// Connections is how many connections to web servers may be open.
	Connections int
	// Queries is how many sockets may be open to name servers.
	Queries int
}

// Split shares out a limit; limits below 16 are taken for 16.
func Split(limit int) Share {
	limit = max(limit, 16)
	files := min(max(limit/2, minFiles), maxFiles, limit*3/4)
	left := limit - files
	queries := min(max(left/4, 2), 1024)
	return Share{Connections: max(left-queries, 2), Queries: queries}
}

// Own is Split of this process's limit.
func Own() Share { return Split(Limit()) }

// Exhausted tells whether err says that this process, or the machine, has no
// descriptor or socket memory left. It is our own lack and nobody else's fault.
func Exhausted(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) || errors.Is(err, syscall.ENOBUFS)
}
