//go:build !unix

package descriptors

// Limit is a number that this system's processes reach without being refused.
func Limit() int { return 16384 }
