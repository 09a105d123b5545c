// Package e2e holds the tests of the product as its users have it: the real
// binaries, started, killed and started again, against a web whose log is the
// oracle. What a crawl left on disk is read by readers of the tests' own, so
// that no mistake of the product's readers hides one of its writers.
package e2e
