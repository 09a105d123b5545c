package robots

// Policy says what the answer to a request for robots.txt means.
type Policy uint8

const (
	// UseBody: 2xx, obey what the body says.
	UseBody Policy = iota + 1
	// Redirect: 3xx, follow, at least five times (RFC 9309, section 2.3.1.2).
	// Until the end of the chain is known nothing is allowed.
	Redirect
	// AllowAll: 4xx, the file is unavailable and there are no restrictions
	// (section 2.3.1.3).
	AllowAll
	// DisallowAll: 5xx, no answer, or an answer that means nothing; nothing is
	// allowed, and the file is asked for again later (section 2.3.1.4).
	DisallowAll
)

// StatusPolicy returns what an HTTP status means. 0 stands for no answer.
func StatusPolicy(status int) Policy {
	switch status / 100 {
	case 2:
		return UseBody
	case 3:
		return Redirect
	case 4:
		return AllowAll
	default:
		return DisallowAll
	}
}

// AllowsAll tells whether everything may be fetched without reading a body.
func (p Policy) AllowsAll() bool { return p == AllowAll }

// DisallowsAll tells whether nothing may be fetched for now.
func (p Policy) DisallowsAll() bool { return p == DisallowAll || p == Redirect }

// Defers tells whether robots.txt has to be asked for again before its
// origin's URLs are given up.
func (p Policy) Defers() bool { return p.DisallowsAll() }

// String returns the policy's name.
func (p Policy) String() string {
	switch p {
	case UseBody:
		return "use-body"
	case Redirect:
		return "redirect"
	case AllowAll:
		return "allow-all"
	case DisallowAll:
		return "disallow-all"
	default:
		return "unknown"
	}
}
