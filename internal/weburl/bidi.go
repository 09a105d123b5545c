package weburl

import (
	"strings"

	"golang.org/x/text/unicode/bidi"
)

// bidiSet is a set of bidi classes.
type bidiSet uint32

func bidiClasses(classes ...bidi.Class) (s bidiSet) {
	for _, c := range classes {
		s |= 1 << c
	}
	return s
}

var (
	bidiRTL      = bidiClasses(bidi.R, bidi.AL, bidi.AN)
	bidiNeutral  = bidiClasses(bidi.ES, bidi.CS, bidi.ET, bidi.ON, bidi.BN, bidi.NSM)
	bidiInRTL    = bidiNeutral | bidiClasses(bidi.R, bidi.AL, bidi.AN, bidi.EN)
	bidiInLTR    = bidiNeutral | bidiClasses(bidi.L, bidi.EN)
	bidiEndOfRTL = bidiClasses(bidi.R, bidi.AL, bidi.EN, bidi.AN)
	bidiEndOfLTR = bidiClasses(bidi.L, bidi.EN)
)

// validBidi applies the Bidi Rule (RFC 5893, section 2) to the labels of a
// domain in its Unicode form, if any of them holds a right-to-left code point.
func validBidi(domain string) bool {
	rtl := false
	for _, r := range domain {
		rtl = rtl || 1<<classOf(r)&bidiRTL != 0
	}
	if !rtl {
		return true
	}
	for label := range strings.SplitSeq(domain, ".") {
		if label != "" && !validBidiLabel(label) {
			return false
		}
	}
	return true
}

func classOf(r rune) bidi.Class {
	p, _ := bidi.LookupRune(r)
	return p.Class()
}

func validBidiLabel(label string) bool {
	var first, last bidi.Class
	var seen bidiSet
	begun := false
	for _, r := range label {
		c := classOf(r)
		if !begun {
			first, begun = c, true
		}
		if c != bidi.NSM {
			last = c
		}
		seen |= 1 << c
	}
	switch first {
	case bidi.R, bidi.AL:
		const both = 1<<bidi.EN | 1<<bidi.AN
		return seen&^bidiInRTL == 0 && 1<<last&bidiEndOfRTL != 0 && seen&both != both
	case bidi.L:
		return seen&^bidiInLTR == 0 && 1<<last&bidiEndOfLTR != 0
	}
	return false
}
