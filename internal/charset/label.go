package charset

import (
	"bytes"
	"strings"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/japanese"
	"golang.org/x/text/encoding/korean"
	"golang.org/x/text/encoding/simplifiedchinese"
	"golang.org/x/text/encoding/traditionalchinese"
	"golang.org/x/text/encoding/unicode"
)

// UTF8 is what nil stands for.
var UTF8 = &Encoding{name: "utf-8", ascii: true}

// Windows1252 is the default of the web.
var Windows1252 = single("windows-1252", charmap.Windows1252)

// Encodings that are found by more than their label.
var (
	utf16BE     = &Encoding{name: "utf-16be", enc: unicode.UTF16(unicode.BigEndian, unicode.IgnoreBOM)}
	utf16LE     = &Encoding{name: "utf-16le", enc: unicode.UTF16(unicode.LittleEndian, unicode.IgnoreBOM)}
	iso2022JP   = &Encoding{name: "iso-2022-jp", enc: japanese.ISO2022JP}
	gbk         = &Encoding{name: "gbk", enc: simplifiedchinese.GB18030, ascii: true}
	gb18030     = &Encoding{name: "gb18030", enc: simplifiedchinese.GB18030, ascii: true}
	big5        = &Encoding{name: "big5", enc: traditionalchinese.Big5, ascii: true}
	eucJP       = &Encoding{name: "euc-jp", enc: japanese.EUCJP, ascii: true}
	shiftJIS    = &Encoding{name: "shift_jis", enc: japanese.ShiftJIS, ascii: true}
	eucKR       = &Encoding{name: "euc-kr", enc: korean.EUCKR, ascii: true}
	userDefined = single("x-user-defined", charmap.XUserDefined)
)

func single(name string, c *charmap.Charmap) *Encoding {
	return &Encoding{name: name, enc: newByteEncoding(c), ascii: true}
}

// table is the encodings with their labels (WHATWG Encoding, 4.2), and, after
// a "+", names beyond the standard that are met in the wild.
var table = []struct {
	e      *Encoding
	labels string
}{
	{UTF8, "unicode-1-1-utf-8 unicode11utf8 unicode20utf8 utf-8 utf8 x-unicode20utf8 + utf8mb4 utf8mb3 utf-8n utf-8-bom utf-8-sig cp65001 65001 ansi-utf-8 uft-8 uft8 utf-08"},
	{single("ibm866", charmap.CodePage866), "866 cp866 csibm866 ibm866 + ibm-866 dos-866"},
	{single("iso-8859-2", charmap.ISO8859_2), "csisolatin2 iso-8859-2 iso-ir-101 iso8859-2 iso88592 iso_8859-2 iso_8859-2:1987 l2 latin2"},
	{single("iso-8859-3", charmap.ISO8859_3), "csisolatin3 iso-8859-3 iso-ir-109 iso8859-3 iso88593 iso_8859-3 iso_8859-3:1988 l3 latin3"},
	{single("iso-8859-4", charmap.ISO8859_4), "csisolatin4 iso-8859-4 iso-ir-110 iso8859-4 iso88594 iso_8859-4 iso_8859-4:1988 l4 latin4"},
	{single("iso-8859-5", charmap.ISO8859_5), "csisolatincyrillic cyrillic iso-8859-5 iso-ir-144 iso8859-5 iso88595 iso_8859-5 iso_8859-5:1988"},
	{single("iso-8859-6", charmap.ISO8859_6), "arabic asmo-708 csiso88596e csiso88596i csisolatinarabic ecma-114 iso-8859-6 iso-8859-6-e iso-8859-6-i iso-ir-127 iso8859-6 iso88596 iso_8859-6 iso_8859-6:1987"},
	{single("iso-8859-7", charmap.ISO8859_7), "csisolatingreek ecma-118 elot_928 greek greek8 iso-8859-7 iso-ir-126 iso8859-7 iso88597 iso_8859-7 iso_8859-7:1987 sun_eu_greek"},
	{&Encoding{name: "iso-8859-8", enc: charmap.ISO8859_8, ascii: true}, "csiso88598e csisolatinhebrew hebrew iso-8859-8 iso-8859-8-e iso-ir-138 iso8859-8 iso88598 iso_8859-8 iso_8859-8:1988 visual"},
	{&Encoding{name: "iso-8859-8-i", enc: charmap.ISO8859_8I, ascii: true}, "csiso88598i iso-8859-8-i logical"},
	{single("iso-8859-10", charmap.ISO8859_10), "csisolatin6 iso-8859-10 iso-ir-157 iso8859-10 iso885910 l6 latin6"},
	{single("iso-8859-13", charmap.ISO8859_13), "iso-8859-13 iso8859-13 iso885913"},
	{single("iso-8859-14", charmap.ISO8859_14), "iso-8859-14 iso8859-14 iso885914"},
	{single("iso-8859-15", charmap.ISO8859_15), "csisolatin9 iso-8859-15 iso8859-15 iso885915 iso_8859-15 l9 + latin9 latin0"},
	{single("iso-8859-16", charmap.ISO8859_16), "iso-8859-16 + iso8859-16 latin10"},
	{single("koi8-r", charmap.KOI8R), "cskoi8r koi koi8 koi8-r koi8_r + koi-8 koi-8-r cp20866 cp878"},
	{single("koi8-u", charmap.KOI8U), "koi8-ru koi8-u + koi-8-u cp21866"},
	{single("macintosh", charmap.Macintosh), "csmacintosh mac macintosh x-mac-roman + macroman mac-roman"},
	{single("windows-874", charmap.Windows874), "dos-874 iso-8859-11 iso8859-11 iso885911 tis-620 windows-874 + cp874 ibm874 tis620.2533"},
	{single("windows-1250", charmap.Windows1250), "cp1250 windows-1250 x-cp1250"},
	{single("windows-1251", charmap.Windows1251), "cp1251 windows-1251 x-cp1251"},
	{Windows1252, "ansi_x3.4-1968 ascii cp1252 cp819 csisolatin1 ibm819 iso-8859-1 iso-ir-100 iso8859-1 iso88591 iso_8859-1 iso_8859-1:1987 l1 latin1 us-ascii windows-1252 x-cp1252"},
	{single("windows-1253", charmap.Windows1253), "cp1253 windows-1253 x-cp1253"},
	{single("windows-1254", charmap.Windows1254), "cp1254 csisolatin5 iso-8859-9 iso-ir-148 iso8859-9 iso88599 iso_8859-9 iso_8859-9:1989 l5 latin5 windows-1254 x-cp1254"},
	{single("windows-1255", charmap.Windows1255), "cp1255 windows-1255 x-cp1255"},
	{single("windows-1256", charmap.Windows1256), "cp1256 windows-1256 x-cp1256"},
	{single("windows-1257", charmap.Windows1257), "cp1257 windows-1257 x-cp1257"},
	{single("windows-1258", charmap.Windows1258), "cp1258 windows-1258 x-cp1258"},
	{single("x-mac-cyrillic", charmap.MacintoshCyrillic), "x-mac-cyrillic x-mac-ukrainian + maccyrillic mac-cyrillic"},
	{gbk, "chinese csgb2312 csiso58gb231280 gb2312 gb_2312 gb_2312-80 gbk iso-ir-58 x-gbk + cp936 ms936 windows-936 euc-cn x-euc-cn gb2312-80 gb-2312-80 gb2132 gb231"},
	{gb18030, "gb18030 + gb18030-2000 gb18030-2005 gb18030-2022 gb-18030-2000"},
	{big5, "big5 big5-hkscs cn-big5 csbig5 x-x-big5 + cp950 ms950 windows-950 x-big5 big5-eten big5hk"},
	{eucJP, "cseucpkdfmtjapanese euc-jp x-euc-jp + x-euc eucjp-win eucjp-ms cp51932 ujis"},
	{iso2022JP, "csiso2022jp iso-2022-jp + iso-2022-jp-1 iso-2022-jp-2 iso-2022-jp-ms cp50220 cp50221"},
	{shiftJIS, "csshiftjis ms932 ms_kanji shift-jis shift_jis sjis windows-31j x-sjis + cp932 sjis-win s-jis windows-932 shift-jis-2004 ibm943 shift-jisx0213 x-ms-cp932 shif-jis"},
	{eucKR, "cseuckr csksc56011987 euc-kr iso-ir-149 korean ks_c_5601-1987 ks_c_5601-1989 ksc5601 ksc_5601 windows-949 + cp949 ms949 uhc x-euc-kr x-windows-949 cp51949 ks-c-5601 ksc5601-1987"},
	{&Encoding{name: "replacement", enc: encoding.Replacement}, "csiso2022kr hz-gb-2312 iso-2022-cn iso-2022-cn-ext iso-2022-kr replacement"},
	{utf16BE, "unicodefffe utf-16be"},
	{utf16LE, "csunicode iso-10646-ucs-2 ucs-2 unicode unicodefeff utf-16 utf-16le"},
	{userDefined, "x-user-defined"},
	{single("ibm855", charmap.CodePage855), "+ ibm855 cp855 csibm855 855"},
}

// maxLabel bounds a label that is looked at; the longest known has 19 bytes.
const maxLabel = 64

var (
	// byLabel has the labels of the standard, squeezed all labels without what
	// is no letter and no digit.
	byLabel  = map[string]*Encoding{}
	squeezed = map[string]*Encoding{}
)

func init() {
	for _, t := range table {
		standard, extra, _ := strings.Cut(t.labels, "+")
		for _, l := range strings.Fields(standard) {
			byLabel[l] = t.e
		}
		for _, l := range append(strings.Fields(standard), strings.Fields(extra)...) {
			var buf [maxLabel]byte
			squeezed[string(squeeze(buf[:0], []byte(l)))] = t.e
		}
		for g := range numGrounds {
			t.e.annotations[g] = "charset=" + t.e.name + ";" + g.String()
		}
	}
}

// Lookup returns the encoding that a label names, nil if none. A label of the
// standard has its meaning there (WHATWG Encoding, 4.2, get an encoding). Of any
// other, typos are passed over: quotes and other punctuation around and inside,
// "charset=" once more, what follows a semicolon, comma or blank, "cp", "win" and
// "windows" for one another; and a few names beyond the standard are known.
func Lookup(label string) *Encoding { return lookup(label) }

// lookupInMarkup is Lookup for an attribute's value. Quotes and angle brackets in
// it show that the markup is broken, and the label is none, as in a browser.
func lookupInMarkup(label []byte) *Encoding {
	if bytes.ContainsAny(label, "\"'<>") {
		return nil
	}
	return lookup(label)
}

// lookup allocates nothing.
func lookup[T chars](label T) *Encoding {
	label = trimSpace(label)
	if len(label) == 0 || len(label) > maxLabel {
		return nil
	}
	var buf, tight [maxLabel]byte
	lower := buf[:len(label)]
	for i := range len(label) {
		lower[i] = toLower(label[i])
	}
	if e := byLabel[string(lower)]; e != nil {
		return e
	}
	for {
		rest, again := cutPrefix(trimPunct(lower), "charset")
		lower = rest
		if !again {
			break
		}
	}
	if e := byTypo(tight[:0], lower); e != nil {
		return e
	}
	for i, c := range lower {
		if c == ';' || c == ',' || c == '"' || c == '\'' || isSpace(c) {
			return byTypo(tight[:0], lower[:i])
		}
	}
	return nil
}

// byTypo finds what differs from a label by punctuation or by its prefix.
func byTypo(tight, label []byte) *Encoding {
	tight = squeeze(tight, label)
	if e := squeezed[string(tight)]; e != nil {
		return e
	}
	// "windows1251", "win-1251", "cp-1251", "x-cp-1251" and a bare "1251".
	for _, prefix := range []string{"x", "microsoft", "ms", "windows", "window", "win", "cp"} {
		tight, _ = cutPrefix(tight, prefix)
	}
	if len(tight) == 4 && tight[0] == '1' && tight[1] == '2' && tight[2] == '5' {
		var key [len("windows1250")]byte
		return squeezed[string(append(append(key[:0], "windows"...), tight...))]
	}
	// "iso-88591" and "8859-1".
	if rest, ok := cutPrefix(tight, "8859"); ok {
		var key [maxLabel]byte
		return squeezed[string(append(append(key[:0], "iso8859"...), rest...))]
	}
	return nil
}

func squeeze(dst, label []byte) []byte {
	for _, c := range label {
		if isAlnum(c) {
			dst = append(dst, c)
		}
	}
	return dst
}

func cutPrefix(b []byte, prefix string) ([]byte, bool) {
	if len(b) >= len(prefix) && string(b[:len(prefix)]) == prefix {
		return b[len(prefix):], true
	}
	return b, false
}

func trimSpace[T chars](b T) T {
	for len(b) > 0 && isSpace(b[0]) {
		b = b[1:]
	}
	for len(b) > 0 && isSpace(b[len(b)-1]) {
		b = b[:len(b)-1]
	}
	return b
}

// trimPunct takes off what is no letter and no digit at both ends.
func trimPunct(b []byte) []byte {
	for len(b) > 0 && !isAlnum(b[0]) {
		b = b[1:]
	}
	for len(b) > 0 && !isAlnum(b[len(b)-1]) {
		b = b[:len(b)-1]
	}
	return b
}
