package robots

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Rules is what one crawler has to obey, compiled. It is immutable and safe
// for use by many goroutines; it keeps nothing of the file it came from. The
// nil *Rules allows all.
type Rules struct {
	group    string
	text     string // every pattern and every rule as written
	rules    []rule
	prefixes []node // patterns without wildcard or "$", sorted by pattern
	exacts   []node // patterns without wildcard that end in "$", sorted
	wild     []wild // the others, the longest rule first
	delay    time.Duration
	hasDelay bool
}

// span is a piece of Rules.text.
type span struct {
	off uint32
	len uint16
}

type rule struct {
	raw    span // the value as written
	line   int32
	weight uint16 // length for the longest match
	allow  bool
}

// node is one pattern without a wildcard. Rules with the same pattern share it.
type node struct {
	pattern span
	allow   int32 // the rule, or -1
	deny    int32
	// parent is the node with the longest pattern that is a prefix of this
	// one's, or -1.
	parent int32
}

// wild is one pattern with wildcards; a "*" at the end is left out.
type wild struct {
	pattern  span
	rule     int32
	anchored bool
}

// Decision is the answer for one URL.
type Decision struct {
	Allowed bool
	Line    int    // 1-based line of the rule that decides, 0 if no rule does
	Rule    string // the rule's value as written
}

// String writes the decision as a line for people.
func (d Decision) String() string {
	verdict, key := "disallowed", "Disallow"
	if d.Allowed {
		verdict, key = "allowed", "Allow"
	}
	if d.Line == 0 {
		return verdict + ": no rule matches"
	}
	return verdict + ": line " + strconv.Itoa(d.Line) + ": " + key + ": " + d.Rule
}

// Group returns the name of the group in force as the file spells it: a
// product token, "*", or "" where no group applies.
func (r *Rules) Group() string {
	if r == nil {
		return ""
	}
	return r.group
}

// CrawlDelay returns the group's Crawl-delay, the longest if there are
// several; false if there is none that can be read.
func (r *Rules) CrawlDelay() (time.Duration, bool) {
	if r == nil {
		return 0, false
	}
	return r.delay, r.hasDelay
}

// Len returns the number of rules.
func (r *Rules) Len() int {
	if r == nil {
		return 0
	}
	return len(r.rules)
}

// item is a pattern during compilation.
type item struct {
	pattern  string
	rule     int32
	allow    bool
	anchored bool
}

type compiler struct {
	out   Rules
	text  strings.Builder
	items []item
	seen  map[item]bool // without rule
	buf   []byte
}

// addGroup takes over a group's rules, and its delays as far as mine says.
func (c *compiler) addGroup(g *group, mine func(delay) bool) {
	for _, d := range g.delays {
		if !mine(d) {
			continue
		}
		if v, ok := parseDelay(d.value); ok && (!c.out.hasDelay || v > c.out.delay) {
			c.out.delay, c.out.hasDelay = v, true
		}
	}
	for _, l := range g.rules {
		c.addRule(l, l.value)
		if !l.allow {
			continue
		}
		// An allowed index page allows its folder's URL too, as Google does.
		if i := strings.LastIndexByte(l.value, '/'); i >= 0 && strings.HasPrefix(l.value[i:], "/index.htm") {
			c.addRule(l, l.value[:i+1]+"$")
		}
	}
}

// addRule compiles one rule whose value is pattern. An empty value is no rule,
// and one that begins with neither "/" nor "*" matches no path.
func (c *compiler) addRule(l line, pattern string) {
	if pattern == "" || pattern[0] != '/' && pattern[0] != '*' {
		return
	}
	weight := escapedLen(pattern)
	body, anchored := strings.CutSuffix(pattern, "$")
	n := int32(len(c.out.rules))
	c.buf = appendForm(c.buf[:0], body, formLiteral, true)
	added := c.addPattern(l.allow, string(c.buf), anchored, n)
	if !l.allow && !isPlain(body) {
		c.buf = appendForm(c.buf[:0], body, formFolded, true)
		added = c.addPattern(l.allow, string(c.buf), anchored, n) || added
	}
	if added {
		c.out.rules = append(c.out.rules, rule{raw: c.put(l.value), line: l.num, weight: uint16(weight), allow: l.allow})
	}
}

// addPattern notes a pattern unless an earlier rule of the same kind has it.
func (c *compiler) addPattern(allow bool, p string, anchored bool, rule int32) bool {
	for strings.Contains(p, "**") {
		p = strings.ReplaceAll(p, "**", "*")
	}
	if anchored && strings.HasSuffix(p, "*") {
		anchored = false // "*$" ends anywhere
	}
	if !anchored {
		p = strings.TrimSuffix(p, "*")
	}
	it := item{pattern: p, allow: allow, anchored: anchored}
	if c.seen[it] {
		return false
	}
	if c.seen == nil {
		c.seen = make(map[item]bool)
	}
	c.seen[it] = true
	it.rule = rule
	c.items = append(c.items, it)
	return true
}

// put appends s to the text.
func (c *compiler) put(s string) span {
	at := span{off: uint32(c.text.Len()), len: uint16(len(s))}
	c.text.WriteString(s)
	return at
}

func (c *compiler) rules(group string) *Rules {
	r := &c.out
	r.group = strings.Clone(group)
	// The order of items with one pattern does not matter: they share a node.
	slices.SortStableFunc(c.items, func(a, b item) int { return cmp.Compare(a.pattern, b.pattern) })
	for _, it := range c.items {
		switch {
		case strings.IndexByte(it.pattern, '*') >= 0:
			r.wild = append(r.wild, wild{pattern: c.put(it.pattern), rule: it.rule, anchored: it.anchored})
		case it.anchored:
			r.exacts = c.addNode(r.exacts, it)
		default:
			r.prefixes = c.addNode(r.prefixes, it)
		}
	}
	r.text = strings.Clone(c.text.String())
	r.linkParents()
	slices.SortStableFunc(r.wild, func(a, b wild) int {
		x, y := r.rules[a.rule], r.rules[b.rule]
		switch {
		case x.weight != y.weight:
			return cmp.Compare(y.weight, x.weight)
		case x.allow != y.allow && x.allow:
			return -1
		case x.allow != y.allow:
			return 1
		}
		return cmp.Compare(x.line, y.line)
	})
	r.rules = slices.Clip(r.rules)
	r.prefixes = slices.Clip(r.prefixes)
	r.exacts = slices.Clip(r.exacts)
	r.wild = slices.Clip(r.wild)
	return r
}

// addNode appends an item to sorted nodes, or joins it to the last one.
func (c *compiler) addNode(nodes []node, it item) []node {
	if n := len(nodes); n > 0 && c.string(nodes[n-1].pattern) == it.pattern {
		nodes[n-1].set(it)
		return nodes
	}
	nd := node{pattern: c.put(it.pattern), allow: -1, deny: -1, parent: -1}
	nd.set(it)
	return append(nodes, nd)
}

func (n *node) set(it item) {
	if it.allow {
		n.allow = it.rule
	} else {
		n.deny = it.rule
	}
}

func (c *compiler) string(s span) string {
	return c.text.String()[s.off : s.off+uint32(s.len)]
}

// linkParents finds each prefix's parent with the stack of the open ones.
func (r *Rules) linkParents() {
	var open []int32
	for i := range r.prefixes {
		p := r.string(r.prefixes[i].pattern)
		for len(open) > 0 && !strings.HasPrefix(p, r.string(r.prefixes[open[len(open)-1]].pattern)) {
			open = open[:len(open)-1]
		}
		if len(open) > 0 {
			r.prefixes[i].parent = open[len(open)-1]
		}
		open = append(open, int32(i))
	}
}

func (r *Rules) string(s span) string { return r.text[s.off : s.off+uint32(s.len)] }

// maxDelay bounds a Crawl-delay, so that sums of times cannot overflow.
const maxDelay = 366 * 24 * time.Hour

// parseDelay reads seconds, with a fraction or an "s" after them.
func parseDelay(s string) (time.Duration, bool) {
	i := 0
	for i < len(s) && (isDigit(s[i]) || s[i] == '.') {
		i++
	}
	rest := trim(s[i:])
	if i == 0 || (rest != "" && !strings.EqualFold(rest, "s")) {
		return 0, false
	}
	v, err := strconv.ParseFloat(s[:i], 64)
	if err != nil && v == 0 { // out of range gives infinity, which is cut below
		return 0, false
	}
	if v >= maxDelay.Seconds() {
		return maxDelay, true
	}
	return time.Duration(v * float64(time.Second)), true
}
