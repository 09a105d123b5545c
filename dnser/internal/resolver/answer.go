package resolver

import (
	"fmt"
	"net/netip"
	"time"
	"unsafe"

	"github.com/miekg/dns"

	"lycosa.dev/dnser/internal/upstream"
)

// Status says what is known of a name.
type Status uint8

// The statuses. Resolved, NotExist and NoAddress are facts that the DNS told;
// Invalid is a fact about the name itself; the others are temporary.
const (
	// Unknown is the zero value: nothing has been asked.
	Unknown Status = iota
	// Resolved has at least one address.
	Resolved
	// NotExist is NXDOMAIN: no such name, for any type (RFC 8020).
	NotExist
	// NoAddress is NODATA for every address family asked (RFC 2308).
	NoAddress
	// ServFail is servers that tried and failed, an alias loop, or replies of
	// no use.
	ServFail
	// Timeout is no reply in time: from the servers, or within the caller's
	// patience.
	Timeout
	// Refused is servers that will not answer us.
	Refused
	// Invalid is no name that can be asked: too long, empty labels, characters
	// that no host has, a last label of digits only.
	Invalid

	statusCount
)

var statusNames = [statusCount]string{
	"unknown", "resolved", "not_exist", "no_address", "servfail", "timeout", "refused", "invalid",
}

// String is the status as a metric label.
func (s Status) String() string {
	if s < statusCount {
		return statusNames[s]
	}
	return fmt.Sprintf("Status(%d)", uint8(s))
}

// Temporary says that asking again later may give another answer.
func (s Status) Temporary() bool {
	return s == ServFail || s == Timeout || s == Refused || s == Unknown
}

// Negative says that the DNS denied the name or its addresses.
func (s Status) Negative() bool { return s == NotExist || s == NoAddress }

// Answer is what is known of one name. Its slices are shared with the cache:
// read them only.
type Answer struct {
	// Host as asked, in lower case, without port and trailing dot.
	Host string
	// Status says what the rest means.
	Status Status
	// Confirmed is set for a negative status that was told twice: by a second
	// question, or by a new one after the first answer had expired.
	Confirmed bool
	// Pending is set for a Timeout that says nothing about the host: the caller
	// left before the question was answered (the cache will have its answer), or
	// before it could be asked, or the resolver is stopping.
	Pending bool
	// FromCache says that no question was asked for this answer.
	FromCache bool
	// Addrs are the addresses, IPv4 first, each family in the server's order;
	// at most maxAddrs. IPv4-mapped ones are unmapped.
	Addrs []netip.Addr
	// Expires is until when this may be used.
	Expires time.Time
	// CNAMEs are the aliases followed, in order.
	CNAMEs []string
	// Server that answered as ADDR:PORT; empty for a rule, a literal, a special
	// name.
	Server string
	// Detail says why, in words, where Status is not Resolved.
	Detail string
	// Stale says that the addresses have expired and that the servers have not
	// answered since (RFC 8767).
	Stale bool
	// Reason is the class of a temporary failure of the servers; empty otherwise.
	Reason upstream.Reason

	ttl   time.Duration // how long it was good for when it was learned
	over  time.Duration // how much of Expires is past what the DNS allowed
	fails uint8         // failures of this name in a row before this one
	asked bool          // its refresh has failed: it is not prefetched again
	seen  []Seen        // the replies it was read from, if they are recorded
}

// Seen is one reply that an answer was read from.
type Seen struct {
	// Records are the answer section, in the reply's order.
	Records []dns.RR
	// Server that sent it.
	Server netip.AddrPort
	// At is when.
	At time.Time
}

// answerBytes is what an answer and its place in the cache take besides what
// hangs on them: the structs, the map's entry and the allocator's rounding.
const answerBytes = 384

// bytes is about what a kept answer takes in memory, its place in the cache and
// the name included.
func (a *Answer) bytes() int {
	n := answerBytes + len(a.Host) + len(a.Detail) + int(unsafe.Sizeof(netip.Addr{}))*cap(a.Addrs)
	for _, c := range a.CNAMEs {
		n += len(c) + int(unsafe.Sizeof(c)) + 16
	}
	return n
}

// Err is nil for an answer with addresses, and the reason in words otherwise.
func (a Answer) Err() error {
	if a.Status == Resolved {
		return nil
	}
	return fmt.Errorf("resolve %q: %s: %s", a.Host, a.Status, a.Detail)
}
