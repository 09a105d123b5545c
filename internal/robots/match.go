package robots

import (
	"sort"
	"strings"
)

// RobotsPath is the path that is always allowed (RFC 9309, section 2.2.2).
const RobotsPath = "/robots.txt"

// Test decides for a path with its query ("/a/b?c=d", see [PathAndQuery]): the
// longest rule that matches decides, Allow among equals; without one the URL
// is allowed. It takes time linear in the rules with wildcards and logarithmic
// in the others, whatever the patterns are.
func (r *Rules) Test(pathAndQuery string) Decision {
	if r == nil || len(r.rules) == 0 || pathAndQuery == RobotsPath {
		return Decision{Allowed: true}
	}
	path := pathAndQuery
	if path == "" || path[0] != '/' {
		path = "/" + path
	}
	best := int32(-1)
	if isPlain(path) {
		best = r.find(path, best, true)
	} else {
		best = r.findForms(path)
	}
	if best < 0 {
		return Decision{Allowed: true}
	}
	b := &r.rules[best]
	return Decision{Allowed: b.allow, Line: int(b.line), Rule: r.string(b.raw)}
}

// Allowed is Test for those who want no reason.
func (r *Rules) Allowed(pathAndQuery string) bool { return r.Test(pathAndQuery).Allowed }

// findForms searches for each form of the URL that differs.
func (r *Rules) findForms(path string) int32 {
	buf := make([]byte, 0, 3*len(path))
	literal := string(appendForm(buf, path, formLiteral, false))
	best := r.find(literal, -1, true)
	decoded := string(appendForm(buf, path, formDecoded, false))
	if decoded != literal {
		best = r.find(decoded, best, true)
	}
	if folded := appendForm(buf, path, formFolded, false); string(folded) != decoded {
		best = r.find(string(folded), best, false)
	}
	return best
}

// find returns the better of best and the best rule that matches s; without
// withAllow only Disallow rules count.
func (r *Rules) find(s string, best int32, withAllow bool) int32 {
	// Any pattern that is a prefix of s sorts before s, and everything between
	// the two begins with it: so it is among the parents of the last pattern
	// that does not sort after s.
	i := int32(sort.Search(len(r.prefixes), func(i int) bool {
		return r.string(r.prefixes[i].pattern) > s
	})) - 1
	for i >= 0 {
		n := &r.prefixes[i]
		if strings.HasPrefix(s, r.string(n.pattern)) {
			best = r.better(best, n, withAllow)
		}
		i = n.parent
	}
	if len(r.exacts) > 0 {
		i := sort.Search(len(r.exacts), func(i int) bool { return r.string(r.exacts[i].pattern) >= s })
		if i < len(r.exacts) && r.string(r.exacts[i].pattern) == s {
			best = r.better(best, &r.exacts[i], withAllow)
		}
	}
	for i := range r.wild {
		w := &r.wild[i]
		if best >= 0 && !r.beats(w.rule, best) {
			break // sorted: no later one does
		}
		if !withAllow && r.rules[w.rule].allow {
			continue
		}
		if glob(r.string(w.pattern), s, w.anchored) {
			best = w.rule
			break
		}
	}
	return best
}

func (r *Rules) better(best int32, n *node, withAllow bool) int32 {
	if n.deny >= 0 && (best < 0 || r.beats(n.deny, best)) {
		best = n.deny
	}
	if withAllow && n.allow >= 0 && (best < 0 || r.beats(n.allow, best)) {
		best = n.allow
	}
	return best
}

// beats tells whether rule a comes before rule b when both match.
func (r *Rules) beats(a, b int32) bool {
	x, y := &r.rules[a], &r.rules[b]
	if x.weight != y.weight {
		return x.weight > y.weight
	}
	return x.allow && !y.allow
}

// glob matches a pattern with at least one "*" against s from its start, and
// to its end if anchored. Taking each piece where it first occurs is enough
// and never goes back, so the time is linear.
func glob(p, s string, anchored bool) bool {
	star := strings.IndexByte(p, '*')
	if !strings.HasPrefix(s, p[:star]) {
		return false
	}
	s, p = s[star:], p[star+1:]
	for {
		star = strings.IndexByte(p, '*')
		if star < 0 {
			break
		}
		i := strings.Index(s, p[:star])
		if i < 0 {
			return false
		}
		s, p = s[i+star:], p[star+1:]
	}
	if anchored {
		return strings.HasSuffix(s, p)
	}
	return strings.Contains(s, p)
}
