package upstream

import (
	"bufio"
	"fmt"
	"io"
	"net/netip"
	"os"
	"strings"
)

// DefaultPort is the port of DNS servers.
const DefaultPort = 53

// maxServers bounds the servers read from a resolv.conf; libc uses three.
const maxServers = 8

// ParseServer reads ADDR or ADDR:PORT; an IPv6 address with a port stands in
// brackets.
func ParseServer(text string) (netip.AddrPort, error) {
	text = strings.TrimSpace(text)
	if a, err := netip.ParseAddr(strings.Trim(text, "[]")); err == nil {
		return netip.AddrPortFrom(a, DefaultPort), nil
	}
	ap, err := netip.ParseAddrPort(text)
	if err != nil || ap.Port() == 0 {
		return netip.AddrPort{}, fmt.Errorf("DNS server %q: want ADDR or ADDR:PORT, for example 192.0.2.53:53 or [2001:db8::53]:53", text)
	}
	return ap, nil
}

// ReadResolvConf reads the servers of a file in the form of resolv.conf(5).
func ReadResolvConf(path string) ([]netip.AddrPort, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read DNS servers: %w", err)
	}
	defer func() { _ = f.Close() }() // read only
	servers, err := parseResolvConf(f)
	if err != nil {
		return nil, fmt.Errorf("read DNS servers: %s: %w", path, err)
	}
	if len(servers) == 0 {
		return nil, fmt.Errorf("read DNS servers: %s names no server; want a line such as `nameserver 192.0.2.53`", path)
	}
	return servers, nil
}

// parseResolvConf takes the nameserver lines. Search lists are ignored on
// purpose: a crawler's names are absolute. Lines that cannot be read are
// skipped, as libc does.
func parseResolvConf(r io.Reader) ([]netip.AddrPort, error) {
	var servers []netip.AddrPort
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) < 2 || fields[0] != "nameserver" || len(servers) == maxServers {
			continue
		}
		if a, err := netip.ParseAddr(fields[1]); err == nil {
			servers = append(servers, netip.AddrPortFrom(a, DefaultPort))
		}
	}
	return servers, lines.Err()
}
