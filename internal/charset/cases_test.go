package charset

import (
	"bytes"
	"encoding/base64"
	"os"
	"testing"

	"lycosa.dev/internal/casefiles"
)

func TestStandardCases(t *testing.T) {
	type standardCase struct {
		HTML      string `json:"html_b64"`
		Transport string `json:"transport"`
		Default   string `json:"default"`
		Encoding  string `json:"encoding"` // html5lib
		Expected  string `json:"expected"` // sniffer
		Looks     bool   `json:"chardet"`  // a text that declares nothing
	}
	for _, name := range []string{"charset/html5lib.jsonl", "charset/sniffer.jsonl"} {
		lines := casefiles.Lines[standardCase](t, name)
		for i, c := range lines {
			doc, err := base64.StdEncoding.DecodeString(c.HTML)
			if err != nil {
				t.Fatal(err)
			}
			if c.Looks {
				// What is written there for it is a default of its test suite; the
				// standard leaves it to us (HTML 13.2.3.2, step 8).
				if text, d := Decode(doc, Hints{}); d.Ground != GroundDetected || bytes.Contains(text, []byte("\uFFFD")) {
					t.Errorf("%s:%d: decoded as %s: %.60s", name, i+1, d, text)
				}
				continue
			}
			h := Hints{Default: Lookup(c.Default), NoDetection: true}
			if c.Transport != "" {
				h.ContentType = "text/html; charset=" + c.Transport
			}
			want := Lookup(c.Encoding + c.Expected)
			if got := Decide(doc, h); got.Encoding != want {
				t.Errorf("%s:%d: got %s, want %s", name, i+1, got, want)
			}
		}
		t.Logf("%s: %d lines", name, len(lines))
	}
}

type pageCase struct {
	File        string   `json:"file"`
	Encoding    string   `json:"whatwg"`
	Declared    *string  `json:"declared"`
	MustContain []string `json:"must_contain"`
}

func (c pageCase) in(text []byte) bool {
	for _, s := range c.MustContain {
		if !bytes.Contains(text, []byte(s)) {
			return false
		}
	}
	return len(c.MustContain) > 0
}

// undecodable are encodings that are not of the web: no detection finds them.
var undecodable = map[string]bool{
	"utf-32": true, "utf-32be": true, "utf-32le": true, "euc-tw": true, "johab": true, "iso-2022-kr": true,
}

// undeclared is the share, in percent, of real pages that declare nothing
// and must be read right all the same.
const undeclared = 90

func TestPages(t *testing.T) {
	var declaredPages, silent, right, odd, all, allRight int
	for _, c := range casefiles.Lines[pageCase](t, "charset/pages.jsonl") {
		doc, err := os.ReadFile(casefiles.Path(t, "charset/"+c.File))
		if err != nil {
			t.Fatal(err)
		}
		text, d := Decode(doc, Hints{})
		if c.Declared != nil {
			declaredPages++
			if !c.in(text) && len(c.MustContain) > 0 {
				t.Errorf("%s: declared %s, decoded as %s", c.File, *c.Declared, d)
			}
			if !d.Ground.Declared() || d.Encoding != Lookup(*c.Declared) {
				t.Errorf("%s: declared %s, found %s", c.File, *c.Declared, d)
			}
			if d.Mislabelled && len(c.MustContain) > 0 {
				t.Errorf("%s: %s", c.File, d)
			}
		} else if undecodable[c.Encoding] || len(c.MustContain) == 0 {
			odd++
		} else {
			silent++
			if c.in(text) {
				right++
			} else {
				t.Logf("%s (%s): decoded as %s", c.File, c.Encoding, d)
			}
		}
		// The looks alone, declared or not.
		if high := firstHigh(doc); high < len(doc) && !undecodable[c.Encoding] && len(c.MustContain) > 0 {
			all++
			e, confidence := detect(doc, high, false, nil)
			if e != nil && c.in(e.Decode(doc)) {
				allRight++
			} else {
				t.Logf("looks of %s (%s): %s %d %%", c.File, c.Encoding, e, confidence)
			}
		}
	}
	t.Logf("%d declared; %d of %d undeclared right, %d more not of the web; by looks alone %d of %d", declaredPages, right, silent, odd, allRight, all)
	if right*100 < undeclared*silent || allRight*100 < undeclared*all {
		t.Errorf("too few by their looks: want %d %%", undeclared)
	}
}
