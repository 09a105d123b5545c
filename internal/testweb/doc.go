// Package testweb is a web and a name server for tests: virtual hosts on
// loopback, described in Go, that answer as told (slowly, in chunks, coded, cut
// off, with 429 and Retry-After) and write down every request. The request log
// is the oracle of tests about completeness and politeness: what was fetched,
// how often, how far apart.
//
// Both servers are owned by the test that starts them and are gone, with all
// their goroutines, when it ends.
package testweb
