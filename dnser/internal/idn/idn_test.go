package idn

import (
	"testing"
)

func TestASCII(t *testing.T) {
	for host, want := range map[string]string{
		"example.org":          "example.org",
		"EXAMPLE.org":          "EXAMPLE.org", // no need to look at it
		"bücher.example":       "xn--bcher-kva.example",
		"BÜCHER.example":       "xn--bcher-kva.example",
		"bu\u0308cher.example": "xn--bcher-kva.example", // decomposed
		"faß.example":          "xn--fa-hia.example",    // not transitional
		"例え。テスト":               "xn--r8jz45g.xn--zckzah",
		"ｅｘａｍｐｌｅ.org":          "example.org", // full width
		"１２７.0.0.1":            "127.0.0.1",
		"a\u200db.example":     "a\u200db.example", // a joiner where none may be
		"bü/cher.example":      "bü/cher.example",
		"ü@example.org":        "ü@example.org",
		"\xff.example":         "\xff.example",
		"":                     "",
	} {
		if got := ASCII(host); got != want {
			t.Errorf("%q: %q, want %q", host, got, want)
		}
	}
}
