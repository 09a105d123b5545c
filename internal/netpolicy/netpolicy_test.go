package netpolicy_test

import (
	"errors"
	"flag"
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"

	"lycosa.dev/internal/netpolicy"
)

func TestClassify(t *testing.T) {
	for in, want := range map[string]string{
		"8.8.8.8": "", "1.1.1.1": "", "93.184.215.14": "", "100.63.255.255": "", "100.128.0.1": "",
		"172.15.255.255": "", "172.32.0.0": "", "192.167.255.255": "", "192.169.0.0": "", "198.17.255.255": "",
		"198.20.0.0": "", "223.255.255.255": "", "169.253.255.255": "", "192.0.1.1": "",
		"2606:4700:4700::1111": "", "2a00:1450:4001:80b::200e": "", "2001:4860:4860::8888": "", "2001:200::1": "",
		"::ffff:8.8.8.8": "",

		"0.0.0.0": "unspecified", "0.1.2.3": "this network", "10.0.0.1": "private", "100.64.0.1": "carrier-grade NAT",
		"100.127.255.255": "carrier-grade NAT", "100.100.100.200": "metadata", "127.0.0.1": "loopback",
		"127.255.255.254": "loopback", "169.254.169.254": "metadata", "169.254.1.1": "link-local",
		"168.63.129.16": "metadata", "172.16.0.1": "private", "172.31.255.255": "private",
		"192.168.1.1": "private", "192.0.0.1": "IETF protocol assignment", "192.0.0.192": "metadata",
		"192.0.2.7": "documentation", "192.88.99.1": "6to4 relay", "198.18.0.1": "benchmarking",
		"198.19.255.255": "benchmarking", "198.51.100.1": "documentation", "203.0.113.9": "documentation",
		"224.0.0.1": "multicast", "239.255.255.255": "multicast", "240.0.0.1": "reserved", "255.255.255.255": "broadcast",

		"::": "unspecified", "::1": "loopback", "::127.0.0.1": "IPv4-compatible", "::8.8.8.8": "IPv4-compatible",
		"::ffff:127.0.0.1": "loopback", "::ffff:10.1.2.3": "private", "::ffff:169.254.169.254": "metadata",
		"::ffff:0:10.0.0.1": "IPv4-translated",
		"64:ff9b::8.8.8.8":  "NAT64", "64:ff9b::10.0.0.1": "NAT64", "64:ff9b:1::1": "local NAT64",
		"fe80::1": "link-local", "fe80::1%eth0": "scoped address", "fec0::1": "site-local", "fc00::1": "private",
		"fd12:3456::1": "private", "fd00:ec2::254": "metadata", "ff02::1": "multicast",
		"2002:7f00:1::": "6to4", "2001:0:1::1": "Teredo", "2001:db8::1": "documentation", "3fff::1": "documentation",
		"3fff:fff::1": "documentation", "3fff:1000::1": "", "2001:2::1": "benchmarking", "2001:10::1": "IETF protocol assignment",
		"2001:1ff::1": "IETF protocol assignment", "100::1": "not global unicast", "5f00::1": "not global unicast",
		"4000::1":                   "not global unicast",
		"2a00:1:2:3:0:5efe:a00:1":   "ISATAP of private",
		"2a00:1:2:3:200:5efe:808:8": "", "2a00:1:2:3:200:5efe:7f00:1": "ISATAP of loopback",
	} {
		if got := netpolicy.Classify(netip.MustParseAddr(in)); got != want {
			t.Errorf("Classify(%s) = %q, want %q", in, got, want)
		}
	}
	if netpolicy.Classify(netip.Addr{}) == "" {
		t.Error("the zero address is public")
	}
}

// Whatever the library says is private, local or multicast must never pass.
func TestClassifyCoversStandardLibrary(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 300000 {
		var b [16]byte
		for i := range b {
			b[i] = byte(r.UintN(256))
		}
		if r.UintN(2) == 0 { // bias to the odd corners
			b[0] = []byte{0, 0x20, 0xfc, 0xfd, 0xfe, 0xff}[r.UintN(6)]
		}
		for _, a := range []netip.Addr{netip.AddrFrom16(b), netip.AddrFrom4([4]byte(b[:4]))} {
			bad := a.IsPrivate() || a.IsLoopback() || a.IsMulticast() || a.IsLinkLocalUnicast() || a.IsUnspecified() || !a.IsGlobalUnicast()
			if bad && netpolicy.Classify(a) == "" {
				t.Fatalf("%s passes", a)
			}
		}
	}
}

func TestPolicyAllowNets(t *testing.T) {
	nets, err := netpolicy.ParseNets([]string{"127.0.0.0/8, 10.1.2.3", "fd00::/8", ""})
	if err != nil {
		t.Fatal(err)
	}
	p := netpolicy.Policy{AllowNets: nets}
	for in, want := range map[string]bool{
		"127.0.0.1": true, "::ffff:127.0.0.1": true, "10.1.2.3": true, "10.1.2.4": false, "fd00::1": true,
		"fd00:ec2::254": true, "8.8.8.8": true, "169.254.169.254": false, "::1": false, "fe80::1%lo": false,
	} {
		err := p.Check(netip.MustParseAddr(in))
		if (err == nil) != want {
			t.Errorf("Check(%s) = %v, want allowed %v", in, err, want)
		}
		var r *netpolicy.Refusal
		if err != nil && (!errors.As(err, &r) || r.Reason == "") {
			t.Errorf("Check(%s) error %v is no Refusal with a reason", in, err)
		}
	}
	if p.Allowed(netip.MustParseAddr("8.8.8.8")) {
		t.Error("a public address counts as opened by the operator")
	}
	if err := p.Check(netip.Addr{}); err == nil {
		t.Error("the zero address is allowed")
	}
	all := netpolicy.Policy{AllowNets: []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0")}}
	if err := all.Check(netip.Addr{}); err == nil {
		t.Error("the zero address is allowed by an open policy")
	}
}

func TestParseNetErrors(t *testing.T) {
	for _, in := range []string{"localhost", "10.0.0.0/33", "10.0.0", "fe80::1%eth0", "/8"} {
		if _, err := netpolicy.ParseNet(in); err == nil {
			t.Errorf("ParseNet(%q) passes", in)
		}
	}
	if p, _ := netpolicy.ParseNet("10.1.2.3/8"); p.String() != "10.0.0.0/8" {
		t.Errorf("host bits kept: %s", p)
	}
}

func TestNetsValueAsFlag(t *testing.T) {
	var v netpolicy.NetsValue
	fs := flag.NewFlagSet("x", flag.ContinueOnError)
	fs.SetOutput(testWriter{})
	fs.Var(&v, "allow-net", "")
	if err := fs.Parse([]string{"--allow-net", "127.0.0.1", "--allow-net", "10.0.0.0/8,::1"}); err != nil {
		t.Fatal(err)
	}
	if got := v.String(); got != "127.0.0.1/32,10.0.0.0/8,::1/128" {
		t.Errorf("got %s", got)
	}
	if err := fs.Parse([]string{"--allow-net", "nonsense"}); err == nil {
		t.Error("nonsense passes")
	}
}

func TestCheckPort(t *testing.T) {
	for _, p := range []uint16{80, 443, 8080, 8443, 3000, 7070, 65535} {
		if err := netpolicy.CheckPort(p); err != nil {
			t.Errorf("%d: %v", p, err)
		}
	}
	for _, p := range []uint16{0, 22, 25, 53, 6667, 10080} {
		if netpolicy.CheckPort(p) == nil {
			t.Errorf("port %d passes", p)
		}
	}
}

type testWriter struct{}

func (testWriter) Write(p []byte) (int, error) { return len(p), nil }

func BenchmarkCheck(b *testing.B) {
	var p netpolicy.Policy
	a := netip.MustParseAddr("93.184.215.14")
	for b.Loop() {
		if p.Check(a) != nil {
			b.Fatal()
		}
	}
}

func TestRefusalSaysWhatWouldBeRight(t *testing.T) {
	for addr, want := range map[string]string{
		"127.0.0.1":        "--allow-net 127.0.0.0/8,",
		"::ffff:127.0.0.1": "--allow-net 127.0.0.0/8,",
		"::1":              "--allow-net ::1/128,",
		"10.1.2.3":         "--allow-net 10.0.0.0/8,",
		"192.168.3.4":      "--allow-net 192.168.0.0/16,",
		"169.254.169.254":  "",
		"0.0.0.0":          "",
	} {
		err := netpolicy.Policy{}.Check(netip.MustParseAddr(addr))
		if err == nil || !strings.Contains(err.Error(), want) || want == "" && strings.Contains(err.Error(), "allow-net") {
			t.Errorf("%s: %v, want %q in it", addr, err, want)
		}
	}
}
