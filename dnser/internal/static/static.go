// Package static holds the addresses that people give by hand in place of DNS:
// the `--resolve HOST:ADDR` of the command line and of job specs.
//
// A rule names a host, or `*` for every host (IP literals included: with `*`
// nothing leaves for an address that was not given). A host's own rule wins
// over `*`. Ports are read, as curl's rules have one, and dropped: the ring
// keeps addresses by host name, so a rule holds for all ports of its host.
package static

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"lycosa.dev/dnser/internal/idn"
)

// Wildcard is the host that stands for all hosts.
const Wildcard = "*"

// Rule gives one host its addresses.
type Rule struct {
	// Host is lower case, without a trailing dot, or Wildcard.
	Host string
	// Addrs are the addresses, at least one.
	Addrs []netip.Addr
}

// Parse reads HOST:ADDR, HOST:PORT:ADDR (as curl writes it) or either with
// several addresses separated by commas. An IPv6 address may stand in
// brackets, and must after a port.
func Parse(text string) (Rule, error) {
	host, rest, ok := strings.Cut(text, ":")
	if !ok || host == "" || rest == "" {
		return Rule{}, fmt.Errorf("resolve rule %q: want HOST:ADDR, for example example.org:192.0.2.7", text)
	}
	if strings.ContainsAny(host, "[]/ \t") {
		return Rule{}, fmt.Errorf("resolve rule %q: %q is not a host name; want HOST:ADDR", text, host)
	}
	rule := Rule{Host: normal(idn.ASCII(host))}
	addrs, err := parseAddrs(rest)
	if err != nil {
		portText, list, ok := strings.Cut(rest, ":")
		port, perr := strconv.ParseUint(portText, 10, 16)
		if !ok || perr != nil || port == 0 {
			return Rule{}, fmt.Errorf("resolve rule %q: %w; want HOST:ADDR or HOST:PORT:ADDR", text, err)
		}
		if addrs, err = parseAddrs(list); err != nil {
			return Rule{}, fmt.Errorf("resolve rule %q: %w; want HOST:PORT:ADDR", text, err)
		}
	}
	rule.Addrs = addrs
	return rule, nil
}

func parseAddrs(list string) ([]netip.Addr, error) {
	var addrs []netip.Addr
	for part := range strings.SplitSeq(list, ",") {
		part = strings.TrimSpace(part)
		bare := part
		if strings.HasPrefix(bare, "[") && strings.HasSuffix(bare, "]") {
			bare = bare[1 : len(bare)-1]
		}
		a, err := netip.ParseAddr(bare)
		if err != nil || a.Zone() != "" {
			return nil, fmt.Errorf("%q is not an IP address", part)
		}
		addrs = append(addrs, a.Unmap())
	}
	return addrs, nil
}

// Table is a set of rules. The zero value and nil have none. It is immutable
// once made and safe for concurrent use.
type Table struct {
	rules map[string][]netip.Addr
}

// ParseAll parses every text and makes a table; the first bad one is the error.
func ParseAll(texts []string) (*Table, error) {
	rules := make([]Rule, 0, len(texts))
	for _, t := range texts {
		r, err := Parse(t)
		if err != nil {
			return nil, err
		}
		rules = append(rules, r)
	}
	return New(rules...), nil
}

// New makes a table; the addresses of rules for the same host add up.
func New(rules ...Rule) *Table {
	t := &Table{rules: make(map[string][]netip.Addr, len(rules))}
	for _, r := range rules {
		host := normal(r.Host)
		for _, a := range r.Addrs {
			if !slices.Contains(t.rules[host], a) {
				t.rules[host] = append(t.rules[host], a)
			}
		}
	}
	return t
}

// Match returns the addresses of the rule for host, or nil. The host is lower
// case, without port and trailing dot. The result is shared: read it only.
func (t *Table) Match(host string) []netip.Addr {
	if t == nil || len(t.rules) == 0 {
		return nil
	}
	if addrs := t.rules[host]; addrs != nil {
		return addrs
	}
	return t.rules[Wildcard]
}

// Len is the number of different hosts that have a rule.
func (t *Table) Len() int {
	if t == nil {
		return 0
	}
	return len(t.rules)
}

func normal(host string) string {
	return strings.TrimSuffix(strings.ToLower(host), ".")
}
