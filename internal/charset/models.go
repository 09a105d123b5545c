package charset

import (
	_ "embed"
	"strconv"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

//go:embed models.txt
var modelsText string

// Costs of a pair of neighbours of which at least one is above 0x7F, in half
// bits: what is usual costs little. Pairs of letters have theirs in the models.
const (
	costUnseen  = 30 // letters of the language that are not seen side by side
	costMark    = 12 // quotes and the like beside what is no letter
	costQuote   = 14 // the same beside a letter
	costSymbol  = 16 // other signs beside what is no letter
	costInWord  = 26 // the same beside a letter
	costForeign = 36 // a letter of another language
	costControl = 64 // a control, or no character at all
	costCase    = 14 // added: a capital after a small letter
)

// Classes of characters. Letters follow.
const (
	classOther = iota // ASCII that is no letter
	classMark
	classSymbol
	classForeign
	classControl
	numFixed
)

// model is how frequent the pairs of a language's letters are.
type model struct {
	lang  string
	class map[rune]uint8
	n     int
	cost  []uint8 // n × n
}

// candidate is a language in an encoding.
type candidate struct {
	e     *Encoding
	m     *model
	class [256]uint8
	// capital and small letters, for the order of case.
	capital, small [256]bool
	// prior is what the language costs before the text is looked at: where a
	// few characters tell nothing, the most usual wins.
	prior int
}

// candidatesOf are the encodings that a language was written in, the more
// usual one first, and its prior.
var candidatesOf = []struct {
	encodings string
	prior     int
	langs     string
}{
	{"windows-1252", 0, "en de fr es it pt nl sv da no fi is ca"},
	{"windows-1250 iso-8859-2", 24, "pl cs sk hu sl hr ro"},
	{"windows-1254", 24, "tr"},
	{"windows-1257", 30, "lt lv et"},
	{"windows-1251 koi8-r iso-8859-5 ibm866 x-mac-cyrillic ibm855", 20, "ru"},
	{"windows-1251 iso-8859-5", 28, "bg mk sr be"},
	{"windows-1251 koi8-u iso-8859-5", 26, "uk"},
	{"iso-8859-7 windows-1253", 20, "el"},
	{"windows-1255", 20, "he"},
	{"windows-1256 iso-8859-6", 20, "ar"},
	{"windows-1256", 30, "fa"},
	{"windows-874", 24, "th"},
}

// singles are the candidates, built when a text first needs them.
var singles = sync.OnceValue(func() []*candidate {
	models := parseModels(modelsText)
	var out []*candidate
	for _, c := range candidatesOf {
		for _, lang := range strings.Fields(c.langs) {
			for i, name := range strings.Fields(c.encodings) {
				out = append(out, newCandidate(Lookup(name), models[lang], c.prior+4*i))
			}
		}
	}
	return out
})

// parseModels reads what train writes. A mistake in it is one in this package.
func parseModels(text string) map[string]*model {
	models := map[string]*model{}
	var m *model
	for line := range strings.Lines(text) {
		head, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		cost, err := strconv.Atoi(head)
		if err != nil {
			m = newModel(head, rest)
			models[head] = m
			continue
		}
		for len(rest) > 0 {
			a, size := utf8.DecodeRuneInString(rest)
			rest = rest[size:]
			b, size := utf8.DecodeRuneInString(rest)
			rest = rest[size:]
			m.cost[int(m.class[a])*m.n+int(m.class[b])] = uint8(cost)
		}
	}
	return models
}

func newModel(lang, letters string) *model {
	m := &model{lang: lang, class: map[rune]uint8{'_': classOther}}
	for _, r := range "abcdefghijklmnopqrstuvwxyz" + letters {
		m.class[r] = uint8(numFixed + len(m.class) - 1)
	}
	m.n = numFixed + len(m.class) - 1
	m.cost = make([]uint8, m.n*m.n)
	for a := range m.n {
		for b := range m.n {
			m.cost[a*m.n+b] = fixedCost(a, b)
		}
	}
	return m
}

// fixedCost is what a pair costs that no model has.
func fixedCost(a, b int) uint8 {
	if a > b {
		a, b = b, a
	}
	letter := b >= numFixed
	low := a
	if !letter {
		low = b // both are fixed: the odder one counts
	}
	switch {
	case a == classControl || b == classControl:
		return costControl
	case a == classForeign || b == classForeign:
		return costForeign
	case letter && a >= numFixed:
		return costUnseen
	case low == classSymbol && letter:
		return costInWord
	case low == classSymbol:
		return costSymbol
	case low == classMark && letter:
		return costQuote
	case low == classMark:
		return costMark
	}
	return costUnseen // a letter that never begins or ends a word
}

func newCandidate(e *Encoding, m *model, prior int) *candidate {
	c := &candidate{e: e, m: m, prior: prior}
	decode := e.enc.(*byteEncoding)
	for i := range 256 {
		r := decode.rune(byte(i))
		c.capital[i], c.small[i] = unicode.IsUpper(r), unicode.IsLower(r)
		c.class[i] = m.classOf(r)
	}
	return c
}

func (m *model) classOf(r rune) uint8 {
	lower := r
	if r != 'İ' {
		lower = unicode.ToLower(r)
	}
	if n, ok := m.class[lower]; ok && r != '_' {
		return n
	}
	switch {
	case r < utf8.RuneSelf:
		return classOther
	case r == utf8.RuneError, unicode.IsControl(r):
		return classControl
	case strings.ContainsRune("\u00a0“”‘’„‚–—…«»©·", r):
		return classMark
	case strings.ContainsRune("‹›®™§°€£•¿¡×½¼²³±´º\u00adªº†№˝", r):
		return classSymbol
	}
	return classForeign
}

// text is the cost of a sample, and the number of its pairs with a byte above 0x7F.
func (c *candidate) text(b []byte) (cost, pairs int) {
	cost = c.prior
	prev := byte(' ')
	n := c.m.n
	for _, x := range b {
		if prev|x >= 0x80 {
			cost += int(c.m.cost[int(c.class[prev])*n+int(c.class[x])])
			if c.small[prev] && c.capital[x] {
				cost += costCase
			}
			pairs++
		}
		prev = x
	}
	return cost, pairs
}
