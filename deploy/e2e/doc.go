// Package e2e holds the tests of the product as its users have it: the real
// binaries, started, killed and started again, against a web whose log is the
// oracle. What a crawl left on disk is read by readers of the tests' own, so
// that no mistake of the product's readers hides one of its writers.
//
// Environment: LYCOSA_SITES and LYCOSA_WARCIO name what make test-deps has
// installed, LYCOSA_JAEGER the binary that make jaeger builds; a test whose part
// is missing is skipped and says so. LYCOSA_E2E_SEED repeats the moments of the
// kills of an earlier run, LYCOSA_E2E_RACE=1 builds the binaries with the race
// detector.
package e2e
