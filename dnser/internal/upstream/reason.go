package upstream

import (
	"fmt"
	"strconv"

	"github.com/miekg/dns"
)

// Reason is the class of a failure within its Class, as a metric label.
type Reason string

// The reasons. Those of a SERVFAIL are as exact as the server tells: by the
// extended error of RFC 8914, if it sends one.
const (
	// ReasonTimeout is no reply in time, or no way to the server.
	ReasonTimeout Reason = "timeout"
	// ReasonRate is our own limit of questions a second.
	ReasonRate Reason = "rate"
	// ReasonSockets is our own lack of file descriptors.
	ReasonSockets Reason = "sockets"
	// ReasonRefused is a server that will not answer us.
	ReasonRefused Reason = "refused"
	// ReasonFiltered is a name that the server's policy blocks or forges.
	ReasonFiltered Reason = "filtered"
	// ReasonServFail is a SERVFAIL that says no more.
	ReasonServFail Reason = "servfail"
	// ReasonDNSSEC is a name whose signatures do not hold.
	ReasonDNSSEC Reason = "dnssec"
	// ReasonUnreachable is a name whose own servers cannot be reached, or are
	// lame.
	ReasonUnreachable Reason = "unreachable"
	// ReasonNotReady is a server that is starting or out of means.
	ReasonNotReady Reason = "not_ready"
	// ReasonLame is a server that neither recurses nor owns the name.
	ReasonLame Reason = "lame"
	// ReasonFormat is a server that does not understand the question.
	ReasonFormat Reason = "format"
	// ReasonAliases is an alias chain that is a circle, or too long.
	ReasonAliases Reason = "aliases"
	// ReasonOther is everything else.
	ReasonOther Reason = "other"
)

// Reasons are all there are.
func Reasons() []Reason {
	return []Reason{
		ReasonTimeout, ReasonRate, ReasonSockets, ReasonRefused, ReasonFiltered, ReasonServFail, ReasonDNSSEC,
		ReasonUnreachable, ReasonNotReady, ReasonLame, ReasonFormat, ReasonAliases, ReasonOther,
	}
}

// maxExtraText bounds what is told of a server's own words.
const maxExtraText = 100

// explain reads the reason of a reply that is no answer, and puts it in words.
// Of a reply that is one, only ReasonFiltered matters.
func explain(m *dns.Msg) (Reason, string) {
	reason, text := ReasonServFail, rcodeName(m.Rcode)
	ede := extended(m)
	if ede == nil {
		return reason, text
	}
	switch ede.InfoCode {
	case dns.ExtendedErrorCodeUnsupportedDNSKEYAlgorithm, dns.ExtendedErrorCodeUnsupportedDSDigestType,
		dns.ExtendedErrorCodeDNSSECIndeterminate, dns.ExtendedErrorCodeDNSBogus, dns.ExtendedErrorCodeSignatureExpired,
		dns.ExtendedErrorCodeSignatureNotYetValid, dns.ExtendedErrorCodeDNSKEYMissing, dns.ExtendedErrorCodeRRSIGsMissing,
		dns.ExtendedErrorCodeNoZoneKeyBitSet, dns.ExtendedErrorCodeNSECMissing:
		reason = ReasonDNSSEC
	case dns.ExtendedErrorCodeNotReady:
		reason = ReasonNotReady
	case dns.ExtendedErrorCodeForgedAnswer, dns.ExtendedErrorCodeBlocked, dns.ExtendedErrorCodeCensored, dns.ExtendedErrorCodeFiltered:
		reason = ReasonFiltered
	case dns.ExtendedErrorCodeNoReachableAuthority, dns.ExtendedErrorCodeNetworkError:
		reason = ReasonUnreachable
	}
	text += " (" + edeName(ede.InfoCode)
	if extra := ede.ExtraText; extra != "" {
		text += ": " + strconv.QuoteToASCII(extra[:min(len(extra), maxExtraText)])
	}
	return reason, text + ")"
}

// extended is the first extended error of a reply, or nil.
func extended(m *dns.Msg) *dns.EDNS0_EDE {
	opt := m.IsEdns0()
	if opt == nil {
		return nil
	}
	for _, o := range opt.Option {
		if e, ok := o.(*dns.EDNS0_EDE); ok {
			return e
		}
	}
	return nil
}

func edeName(code uint16) string {
	if s, ok := dns.ExtendedErrorCodeToString[code]; ok {
		return s
	}
	return fmt.Sprintf("extended error %d", code)
}

func rcodeName(rcode int) string {
	if s, ok := dns.RcodeToString[rcode]; ok {
		return s
	}
	return fmt.Sprintf("RCODE%d", rcode)
}
