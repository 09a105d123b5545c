// Package weburl is the URL of the crawler: parsing, serialising and reference
// resolution as the WHATWG URL Standard says, a canonical form, and the keys
// that are made of it (host key, origin, registrable domain, SURT).
//
// A [URL] is an immutable value: one string (the href of the standard) and the
// offsets of its parts. Two URLs are the same if they compare equal with ==.
//
// # Canonical form
//
// [URL.Canonical] gives the form under which the crawler knows, fetches and
// stores a page. For the special schemes (http, https, ws, wss, ftp, file):
//
//   - scheme and host are lower case; the host has passed UTS #46 (non-ASCII
//     names become xn-- names) and the standard's IPv4 and IPv6 forms
//     (http://0x7f.1 is http://127.0.0.1)
//   - the scheme's default port is dropped, also an empty one
//   - an empty path is "/"; "." and ".." segments are resolved, also where they
//     are written %2e; a backslash is a slash
//   - escapes are normalised (RFC 3986, 6.2.2): hex digits are upper case,
//     letters, digits and "-._~" are never escaped
//   - a percent sign that starts no escape is escaped (%25), so that decoding
//     never makes an escape that was not there
//   - what the standard escapes is escaped, and besides what RFC 3986 allows in
//     no path and no query: [ ] | in a path, [ ] | \ ^ ` { } in a query
//   - the fragment is dropped
//   - credentials (user:password@) are dropped: they are no part of a page's
//     identity, a crawler does not log in with what it finds in a link, and they
//     must not reach logs and archives
//
// Nothing is done that could name another page: reserved characters keep their
// spelling, an empty query keeps its "?", doubled slashes, the order of
// parameters and a trailing dot of the host stay. Such changes are [Rules] that
// a job switches on.
//
// For other schemes only the fragment and the credentials are dropped.
//
// The form is idempotent: canonical(canonical(x)) = canonical(x), also under any
// set of rules, and Parse gives back the same URL for its string.
//
// # Two ways, one result
//
// [Resolver] and [ParseCanonical] read a link byte by byte and write the
// canonical form as they go (fast.go). What that reader does not know (a name
// that is not ASCII, an address, credentials, tabs inside, …) it leaves to the
// standard's parser (parse.go) followed by Canonical; tests hold the two equal.
package weburl
