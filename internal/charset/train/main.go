// Train makes models.txt of package charset: for each language of a folder of
// UTF-8 texts, how frequent the pairs of its letters are.
//
//	go run ./charset/train FOLDER > charset/models.txt
//
// FOLDER holds a file a language, named after it ("pl.txt"). The models in the
// repository are made from the words of the Unicode CLDR project (annotations,
// locale names, units and dates; Unicode License v3), NFC, a string a line.
package main

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	// minPair is how often a pair must be seen to be in a model.
	minPair = 3
	// minShare is how much of all letters beyond ASCII one must have to be of
	// the language.
	minShare = 0.0004
	// maxCost leaves out what is as good as never seen.
	maxCost = 26
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: train FOLDER > models.txt")
		os.Exit(2)
	}
	files, err := filepath.Glob(filepath.Join(os.Args[1], "*.txt"))
	if err != nil || len(files) == 0 {
		fmt.Fprintf(os.Stderr, "train: %s holds no .txt file (%v)\n", os.Args[1], err)
		os.Exit(1)
	}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			fmt.Fprintf(os.Stderr, "train: %v\n", err)
			os.Exit(1)
		}
		fmt.Print(model(strings.TrimSuffix(filepath.Base(f), ".txt"), string(text)))
	}
}

// legacy is what has no place in the old encodings and was written otherwise.
var legacy = strings.NewReplacer("ș", "ş", "ț", "ţ", "Ș", "Ş", "Ț", "Ţ", "ʼ", "'", "’", "'", "ـ", "")

// model is a line with the language and its letters beyond ASCII, and a line
// for each cost (half bits) with the pairs that have it. "_" is what is no letter.
func model(lang, text string) string {
	letters := map[rune]int{}
	total := 0
	text = legacy.Replace(text)
	for _, r := range text {
		if r >= utf8.RuneSelf && (unicode.IsLetter(r) || unicode.Is(unicode.Mn, r)) {
			letters[fold(r)]++
			total++
		}
	}
	var kept []rune
	script := mainScript(letters)
	for r, n := range letters {
		if float64(n) >= minShare*float64(total) && unicode.In(r, script, unicode.Inherited) {
			kept = append(kept, r)
		}
	}
	slices.Sort(kept)
	class := func(r rune) rune {
		r = fold(r)
		if r >= 'a' && r <= 'z' || slices.Contains(kept, r) {
			return r
		}
		return '_'
	}
	pairs, all := map[[2]rune]int{}, 0
	prev := '_'
	for _, r := range text {
		c := class(r)
		if prev >= utf8.RuneSelf || c >= utf8.RuneSelf {
			pairs[[2]rune{prev, c}]++
			all++
		}
		prev = c
	}
	byCost := map[int][]string{}
	for p, n := range pairs {
		if cost := int(math.Round(-2 * math.Log2(float64(n)/float64(all)))); n >= minPair && cost <= maxCost {
			byCost[cost] = append(byCost[cost], string(p[:]))
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s\n", lang, string(kept))
	for cost := range maxCost + 1 {
		if p := byCost[cost]; len(p) > 0 {
			slices.Sort(p)
			fmt.Fprintf(&b, "%d %s\n", cost, strings.Join(p, ""))
		}
	}
	return b.String()
}

// mainScript is the script of most letters; units bring in Greek ones.
func mainScript(letters map[rune]int) *unicode.RangeTable {
	var best *unicode.RangeTable
	most := 0
	for _, s := range []*unicode.RangeTable{unicode.Latin, unicode.Cyrillic, unicode.Greek, unicode.Hebrew, unicode.Arabic, unicode.Thai} {
		n := 0
		for r, count := range letters {
			if unicode.Is(s, r) {
				n += count
			}
		}
		if n > most {
			best, most = s, n
		}
	}
	return best
}

// fold is lower case; the dotted capital I of Turkish stays itself.
func fold(r rune) rune {
	if r == 'İ' {
		return r
	}
	return unicode.ToLower(r)
}
