package static

import (
	"fmt"
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	for text, want := range map[string]string{
		"example.org:192.0.2.1":             "{example.org 0 [192.0.2.1]}",
		"Example.ORG.:192.0.2.1":            "{example.org 0 [192.0.2.1]}",
		"example.org:8080:192.0.2.1":        "{example.org 8080 [192.0.2.1]}",
		"*:127.0.0.1":                       "{* 0 [127.0.0.1]}",
		"*:443:127.0.0.1":                   "{* 443 [127.0.0.1]}",
		"example.org:::1":                   "{example.org 0 [::1]}",
		"example.org:[2001:db8::1]":         "{example.org 0 [2001:db8::1]}",
		"example.org:80:[2001:db8::1]":      "{example.org 80 [2001:db8::1]}",
		"example.org:192.0.2.1,[::1]":       "{example.org 0 [192.0.2.1 ::1]}",
		"example.org:::ffff:192.0.2.1":      "{example.org 0 [192.0.2.1]}",
		"example.org:80:192.0.2.1,10.0.0.1": "{example.org 80 [192.0.2.1 10.0.0.1]}",
	} {
		r, err := Parse(text)
		if got := fmt.Sprint(r); err != nil || got != want {
			t.Errorf("Parse(%q) = %s, %v; want %s", text, got, err, want)
		}
	}
	for _, text := range []string{
		"", ":", "example.org", "example.org:", ":192.0.2.1", "example.org:nonsense", "example.org:0:192.0.2.1",
		"example.org:70000:192.0.2.1", "example.org:192.0.2.1:80", "[::1]:192.0.2.1", "example.org:192.0.2.1,", "example.org:fe80::1%eth0",
		"http://example.org:192.0.2.1",
	} {
		if r, err := Parse(text); err == nil {
			t.Errorf("Parse(%q) = %v, want an error", text, r)
		} else if !strings.Contains(err.Error(), "HOST:") {
			t.Errorf("Parse(%q): %q does not say what would be right", text, err)
		}
	}
}

func TestMostExactRuleWins(t *testing.T) {
	table, err := ParseAll([]string{
		"*:10.0.0.4", "*:8080:10.0.0.3", "a.test:10.0.0.2", "a.test:8080:10.0.0.1", "a.test:8080:10.0.0.1", "a.test:8080:10.0.0.9",
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		host string
		port uint16
		want string
	}{
		{"a.test", 8080, "[10.0.0.1 10.0.0.9]"},
		{"a.test", 80, "[10.0.0.2]"},
		{"a.test", 0, "[10.0.0.2]"},
		{"b.test", 8080, "[10.0.0.3]"},
		{"b.test", 0, "[10.0.0.4]"},
		{"192.0.2.1", 0, "[10.0.0.4]"},
	} {
		if got := fmt.Sprint(table.Match(c.host, c.port)); got != c.want {
			t.Errorf("Match(%s, %d) = %s, want %s", c.host, c.port, got, c.want)
		}
	}
	var none *Table
	if none.Match("a.test", 0) != nil || (&Table{}).Match("a.test", 0) != nil {
		t.Error("an empty table matches")
	}
}
