// Package frontier holds every URL of every job and decides which may be
// fetched now.
package frontier
