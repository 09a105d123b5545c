package static

import (
	"fmt"
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	for text, want := range map[string]string{
		"example.org:192.0.2.1":             "{example.org [192.0.2.1]}",
		"Example.ORG.:192.0.2.1":            "{example.org [192.0.2.1]}",
		"example.org:8080:192.0.2.1":        "{example.org [192.0.2.1]}",
		"*:127.0.0.1":                       "{* [127.0.0.1]}",
		"*:443:127.0.0.1":                   "{* [127.0.0.1]}",
		"example.org:::1":                   "{example.org [::1]}",
		"example.org:[2001:db8::1]":         "{example.org [2001:db8::1]}",
		"example.org:80:[2001:db8::1]":      "{example.org [2001:db8::1]}",
		"example.org:192.0.2.1,[::1]":       "{example.org [192.0.2.1 ::1]}",
		"example.org:::ffff:192.0.2.1":      "{example.org [192.0.2.1]}",
		"example.org:80:192.0.2.1,10.0.0.1": "{example.org [192.0.2.1 10.0.0.1]}",
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

func TestOwnRuleWins(t *testing.T) {
	table, err := ParseAll([]string{"*:10.0.0.4", "a.test:10.0.0.2", "A.test:8080:10.0.0.1", "a.test:10.0.0.1"})
	if err != nil {
		t.Fatal(err)
	}
	for host, want := range map[string]string{
		"a.test":    "[10.0.0.2 10.0.0.1]",
		"b.test":    "[10.0.0.4]",
		"192.0.2.1": "[10.0.0.4]",
	} {
		if got := fmt.Sprint(table.Match(host)); got != want {
			t.Errorf("Match(%s) = %s, want %s", host, got, want)
		}
	}
	if _, err := ParseAll([]string{"a.test:10.0.0.1", "nonsense"}); err == nil {
		t.Error("a bad rule among good ones is no error")
	}
	var none *Table
	if none.Match("a.test") != nil || (&Table{}).Match("a.test") != nil || none.Len() != 0 {
		t.Error("an empty table matches")
	}
}
