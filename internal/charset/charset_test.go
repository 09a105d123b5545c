package charset

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

func TestLookup(t *testing.T) {
	for label, want := range map[string]string{
		// Of the standard.
		" UTF8\t": "utf-8", "latin1": "windows-1252", "us-ascii": "windows-1252", "gb2312": "gbk", "GBK": "gbk", "gb18030": "gb18030",
		"Big5-HKSCS": "big5", "x-sjis": "shift_jis", "ks_c_5601-1987": "euc-kr", "tis-620": "windows-874", "iso-8859-9": "windows-1254",
		"hz-gb-2312": "replacement", "iso-2022-kr": "replacement", "unicode": "utf-16le", "utf-16": "utf-16le", "UTF-16BE": "utf-16be", "x-user-defined": "x-user-defined",
		"koi8-ru": "koi8-u", "visual": "iso-8859-8", "logical": "iso-8859-8-i",
		// Typos.
		"utf-8;": "utf-8", `"utf-8"`: "utf-8", "'utf-8'": "utf-8", `utf-8"`: "utf-8", "utf_8": "utf-8", "utf 8": "utf-8", "utf-8,utf-8": "utf-8", "charset=utf-8": "utf-8",
		"utf-8; charset=gbk": "utf-8", "utf‑8": "utf-8", "iso8859-1": "windows-1252", "iso-88591": "windows-1252", "8859-1": "windows-1252", "iso_8859_1": "windows-1252",
		"ISO-8859-15;": "iso-8859-15", "windows1251": "windows-1251", "win-1251": "windows-1251", "cp-1251": "windows-1251", "window-1251": "windows-1251",
		"1251": "windows-1251", "x_sjis": "shift_jis", "shift-jis": "shift_jis", "ShiftJIS": "shift_jis", "cp932": "shift_jis", "euc_jp": "euc-jp", "euckr": "euc-kr", "cp949": "euc-kr",
		"gb-2312": "gbk", "gb_18030": "gb18030", "cp936": "gbk", "big-5": "big5", "koi8r": "koi8-r", "MacCyrillic": "x-mac-cyrillic", "IBM855": "ibm855",
		// None.
		"": "", " ": "", "utf": "", "utf-7": "", "none": "", "iso-8859-99": "", "windows-1299": "", "-": "", strings.Repeat("utf-8 ", 50): "", "\x00": "",
	} {
		e := Lookup(label)
		if want == "" && e != nil || want != "" && (e == nil || e.Name() != want) {
			t.Errorf("%q: got %v, want %q", label, e, want)
		}
	}
}

func TestEveryLabelFindsItsEncoding(t *testing.T) {
	for _, x := range table {
		for _, l := range strings.Fields(x.labels) {
			if l != "+" && (Lookup(l) != x.e || Lookup(" "+strings.ToUpper(l)+"\n") != x.e) {
				t.Errorf("%q: got %s, want %s", l, Lookup(l), x.e)
			}
		}
		if Lookup(x.e.Name()) != x.e {
			t.Errorf("the name %s finds %s", x.e, Lookup(x.e.Name()))
		}
	}
}

func TestDecide(t *testing.T) {
	pad := strings.Repeat("<p>text</p>\n", 100)
	for _, c := range []struct {
		name, contentType, doc, want string
	}{
		{"a mark beats all", "text/html; charset=latin1", "\xEF\xBB\xBF<meta charset=gbk>é", "utf-8;bom"},
		{"UTF-16 with mark", "", "\xFE\xFF\x00a", "utf-16be;bom"},
		{"UTF-16 with mark, little", "text/html; charset=utf-8", "\xFF\xFEa\x00", "utf-16le;bom"},
		{"header before meta", "text/html; charset=ISO-8859-1", "<meta charset=utf-8>\xe9", "windows-1252;http"},
		{"header with typos", `text/html; charset="utf_8`, "é", "utf-8;http"},
		{"header without semicolon", "text/html charset=koi8-r", "\xc1", "koi8-r;http"},
		{"parameter of another name", "text/html; xcharset=koi8-r; charset=gbk", "", "gbk;http"},
		{"unknown label in the header", "text/html; charset=nonsense", "<meta charset=gbk>", "gbk;meta"},
		{"UTF-16 by the header", "text/html; charset=utf-16", "<\x00", "utf-16le;http"},
		{"meta", "text/html", "<meta charset=gb2312>\xd6\xd0", "gbk;meta"},
		{"UTF-16 cannot be said in ASCII", "", "<meta charset=utf-16>", "utf-8;meta"},
		{"x-user-defined in a meta", "", "<meta charset=x-user-defined>", "windows-1252;meta"},
		{"pragma", "", `<meta content="a; charset=euc-jp" http-equiv=Content-Type>`, "euc-jp;meta"},
		{"content without pragma", "", `<meta content="a; charset=euc-jp">`, "windows-1252;default"},
		{"typo in a meta", "", "<meta charset=utf-8;>", "utf-8;meta"},
		{"broken quote in a meta", "", "<meta charset=iso-8859-2\">", "windows-1252;default"},
		{"meta in a comment", "", "<!-- <meta charset=gbk> -->", "windows-1252;default"},
		{"second meta counts where the first names nothing", "", "<meta charset=x><meta charset=big5>", "big5;meta"},
		{"XML declaration in HTML", "text/html", "<?xml version='1.0' encoding='koi8-r'?><html>", "koi8-r;xml"},
		{"meta beats it in HTML", "text/html", "<?xml version='1.0' encoding='koi8-r'?><html><meta charset=big5>", "big5;meta"},
		{"it beats meta in XML", "application/xhtml+xml", "<?xml version='1.0' encoding='koi8-r'?><html><meta charset=big5>", "koi8-r;xml"},
		{"blanks in it", "", "<?xml version='1.0' encoding \n=\t\"windows-1251\" ?>", "windows-1251;xml"},
		{"blank in its label", "", "<?xml encoding='utf 7'?>", "utf-8;default"},
		{"not in the declaration", "", "<?xml version='1.0'?> encoding='koi8-r'", "utf-8;default"},
		{"UTF-16 XML without mark", "", "<\x00?\x00x\x00m\x00", "utf-16le;xml"},
		{"UTF-16 XML without mark, big", "text/xml", "\x00<\x00?\x00x\x00m", "utf-16be;xml"},
		{"XML without declaration", "application/rss+xml; charset", "<rss>", "utf-8;default"},
		{"style sheet", "text/css", `@charset "koi8-r"; a{}`, "koi8-r;meta"},
		{"style sheet with another spelling", "text/css", `@charset 'koi8-r'; a{}`, "utf-8;default"},
		{"JSON", "application/json", `{"a":"<meta charset=gbk>"}`, "utf-8;default"},
		{"meta after 1024 bytes", "", pad + "<meta charset=koi8-r>", "koi8-r;meta"},
		{"not in a script there", "", pad + "<script>'<meta charset=koi8-r>'</script>", "windows-1252;default"},
		{"after a script there", "", pad + "<SCRIPT/x>'<meta charset=koi8-r>'</p></script ><meta charset=big5>", "big5;meta"},
		{"script without end there", "", pad + "<script>'<meta charset=koi8-r>'", "windows-1252;default"},
		{"UTF-8 that says nothing", "", "<p>é", "utf-8;detected"},
		{"ISO-2022-JP", "", "<p>\x1b$B%F\x1b(B", "iso-2022-jp;detected"},
		{"an escape that is none", "", "<p>\x1b[1m \x1b$B", "windows-1252;default"},
		{"UTF-16 that says nothing", "", "<\x00p\x00>\x00\x2d\x4e\x87\x65", "utf-16le;detected"},
		{"binary", "", "\x00\x00\x00\x00\x01\x02\x00\x00", "windows-1252;default"},
		{"Chinese", "", "<title>\xd6\xd0\xb9\xfa\xb5\xc4\xd0\xc2\xce\xc5</title>", "gbk;detected"},
		{"Chinese in Taiwan", "", "<title>\xa4\xa4\xb0\xea\xaa\xba\xb7s\xbbD</title>", "big5;detected"},
		{"Japanese", "", "\x93\xfa\x96{\x8c\xea\x82\xcc\x83y\x81[\x83W", "shift_jis;detected"},
		{"Korean", "", "\xc7\xd1\xb1\xb9\xbe\xee \xc6\xe4\xc0\xcc\xc1\xf6", "euc-kr;detected"},
		{"Russian", "", "\xcf\xf0\xe8\xe2\xe5\xf2, \xec\xe8\xf0", "windows-1251;detected"},
		{"Russian in KOI8", "", "\xf0\xd2\xc9\xd7\xc5\xd4, \xcd\xc9\xd2", "koi8-r;detected"},
		{"one sign", "", "<p>\xa9 2026", "windows-1252;detected"},
		{"French", "", "<p>d\xe9j\xe0 vu, \xe0 c\xf4t\xe9", "windows-1252;detected"},
		{"Polish", "", "<p>wszystkie prawa zastrze\xbfone, \xbfycie si\xea zmieni\xb3o", "windows-1250;detected"},
		{"Polish in ISO", "", "<p>zdj\xeacia, pi\xb1tek, \xb6roda, ksi\xb1\xbfka", "iso-8859-2;detected"},
		{"Turkish", "", "<p>T\xfcrk\xe7e \xddngilizce ba\xfel\xfd\xf0\xfd", "windows-1254;detected"},
		{"nothing", "", "", "windows-1252;default"},
	} {
		d := Decide([]byte(c.doc), Hints{ContentType: c.contentType})
		if got := d.Annotation(); got != "charset="+c.want {
			t.Errorf("%s: %q (%s): got %s (%s), want %s", c.name, c.doc, c.contentType, got, d, c.want)
		}
		r, err := DecideReader(iotest.OneByteReader(strings.NewReader(c.doc)), Hints{ContentType: c.contentType})
		if err != nil || r != d {
			t.Errorf("%s: read in pieces: got %s, %v, want %s", c.name, r, err, d)
		}
	}
}

func TestHints(t *testing.T) {
	koi := Lookup("koi8-r")
	for _, c := range []struct {
		doc  string
		h    Hints
		want string
	}{
		{"abc", Hints{Default: koi}, "koi8-r;default"},
		{"\xa9", Hints{Default: koi}, "koi8-r;default"}, // one sign tells little
		{"d\xe9j\xe0 vu \xe0 c\xf4t\xe9, \xe9t\xe9, no\xebl, tr\xe8s, apr\xe8s, \xeatre", Hints{Default: koi}, "windows-1252;detected"},
		{"\xc3\xa9", Hints{NoDetection: true}, "windows-1252;default"},
		{"\x1b$B%F\x1b(B", Hints{NoDetection: true}, "windows-1252;default"},
		{"<html lang=ru><p>\xc4\xc0", Hints{}, "windows-1251;detected"},
	} {
		if d := Decide([]byte(c.doc), c.h); d.Annotation() != "charset="+c.want {
			t.Errorf("%q: got %s, want %s", c.doc, d, c.want)
		}
	}
}

// A prefix that cuts a character decides as the whole does.
func TestPartial(t *testing.T) {
	long := strings.Repeat("x", 1024) + "中😀"
	for cut := 1024; cut <= len(long); cut++ {
		d := Decide([]byte(long[:cut]), Hints{Partial: true})
		if d.Mislabelled || d.Encoding != UTF8 && cut > 1024+2 {
			t.Errorf("cut at %d: got %s", cut, d)
		}
		if d := Decide([]byte(long[:cut]), Hints{ContentType: "a/b; charset=utf-8", Partial: true}); d.Mislabelled {
			t.Errorf("cut at %d: got %s", cut, d)
		}
	}
}

func TestMislabelled(t *testing.T) {
	utf8Text := strings.Repeat("déjà ", 10)
	for _, c := range []struct {
		label, doc string
		want       bool
	}{
		{"utf-8", utf8Text, false},
		{"utf-8", "plain", false},
		{"utf-8", "d\xe9j\xe0", true},
		{"utf-8", utf8Text + "\xe9 ", true},
		{"latin1", utf8Text, true},
		{"latin1", "d\xe9j\xe0", false},
		{"latin1", "é", false}, // two signs can be meant
		{"gbk", "\xd6\xd0\xce\xc4", false},
		{"gbk", strings.Repeat("\x90\x30\x81\x30", 3), false},
		{"gbk", "a\xe9 b\xe9 c\xe9 d\xe9 ", true},
		{"gbk", utf8Text, true},
		{"euc-jp", "\xa4\xa2\x8e\xb1\x8f\xb0\xa1", false},
		{"euc-kr", "\x93\xfa\x96{", true},
		{"shift_jis", "\x93\xfa\x96{\xb1", false},
		{"big5", "\xa4\xa4\xa4@", false},
		{"iso-2022-jp", "\x93\xfa", true},
		{"utf-16", "<!DOCTYPE html><html>", true},
		{"utf-16", "<\x00!\x00D\x00O\x00C\x00T\x00Y\x00P\x00E\x00", false},
		{"replacement", "\x93\xfa", false},
	} {
		d := Decide([]byte(c.doc), Hints{ContentType: "text/html; charset=" + c.label})
		if d.Mislabelled != c.want || d.Ground != GroundHTTP || d.Encoding != Lookup(c.label) {
			t.Errorf("%q as %s: got %s", c.doc, c.label, d)
		}
	}
}

// A large document that is ASCII at first is judged by what comes later.
func TestDecideReaderGoesOn(t *testing.T) {
	russian := "\xcf\xf0\xe8\xe2\xe5\xf2, \xec\xe8\xf0"
	for _, pad := range []int{windowBytes - 1, windowBytes, windowBytes + 5, 3*windowBytes - 1, 3*windowBytes - 3, 5 * windowBytes} {
		in := strings.Repeat("a", pad-1) + " "
		for tail, want := range map[string]string{russian: "windows-1251;detected", "é": "utf-8;detected", "": "windows-1252;default", "😀" + strings.Repeat("b", 2*windowBytes): "utf-8;detected"} {
			d, err := DecideReader(strings.NewReader(in+tail), Hints{})
			if err != nil || d.Annotation() != "charset="+want || d.ASCII != (tail == "") {
				t.Errorf("%d bytes before %.20q: got %s, %v, want %s", pad, tail, d, err, want)
			}
		}
	}
	broken := errors.New("broken")
	if d, err := DecideReader(io.MultiReader(strings.NewReader("é"), iotest.ErrReader(broken)), Hints{}); err != broken || d.Encoding != UTF8 {
		t.Errorf("got %s, %v", d, err)
	}
}

func TestDecode(t *testing.T) {
	for _, c := range []struct{ label, doc, want string }{
		{"utf-8", "\xEF\xBB\xBFé", "é"},
		{"utf-8", "\ufeff\ufeffé", "\ufeffé"}, // one mark, not two
		{"utf-8", "\ufeff\ufeff\xff", "\ufeff\ufffd"},
		{"utf-8", "\xff\xe2\x82", "\ufffd\ufffd"},
		{"utf-16le", "\xff\xfe\x2d\x4e", "中"},
		{"utf-16be", "\x4e\x2d\xd8", "中\ufffd"},
		{"gb2312", "\xd6\xd0\x90\x30\x81\x30\x80", "中\U00010000€"},
		{"gbk", "\x81\x30<a>", "\ufffd0<a>"},
		{"big5", "\xa4\xa4\x88\x62", "中\u00ca\u0304"}, // HKSCS
		{"shift_jis", "\x83\x5c\xb1<", "ソｱ<"},
		{"euc-jp", "\xa4\xa2\x8e\xb1\x8f\xb0\xa1", "あｱ丂"},
		{"iso-2022-jp", "\x1b$BCf\x1b(B<", "中<"},
		{"euc-kr", "\x81A", "갂"},
		{"latin1", "\x80\x81\xe9", "€\u0081é"},
		{"koi8-r", "\xc1", "а"},
		{"koi8-u", "\xa4", "є"},
		{"tis-620", "\xa1", "ก"},
		{"ibm855", "\xa0", "а"},
		{"hz-gb-2312", "abc", "\ufffd"},
	} {
		e := Lookup(c.label)
		if got := e.Decode([]byte(c.doc)); string(got) != c.want {
			t.Errorf("%s: %q: got %q, want %q", c.label, c.doc, got, c.want)
		}
		for _, r := range []io.Reader{strings.NewReader(c.doc), iotest.OneByteReader(strings.NewReader(c.doc)), iotest.DataErrReader(strings.NewReader(c.doc))} {
			if got, err := io.ReadAll(iotest.OneByteReader(e.NewReader(r))); err != nil || string(got) != c.want {
				t.Errorf("%s: %q in pieces: got %q, %v, want %q", c.label, c.doc, got, err, c.want)
			}
		}
	}
	if got, err := io.ReadAll((*Encoding)(nil).NewReader(strings.NewReader("中"))); err != nil || string(got) != "中" {
		t.Errorf("nil: %q, %v", got, err)
	}
	broken := errors.New("broken")
	if got, err := io.ReadAll(Windows1252.NewReader(io.MultiReader(strings.NewReader("\xe9"), iotest.ErrReader(broken)))); err != broken || string(got) != "é" {
		t.Errorf("a reader that fails: %q, %v", got, err)
	}
	if Lookup("utf-16").ASCIICompatible() || Lookup("iso-2022-jp").ASCIICompatible() || !Lookup("gb18030").ASCIICompatible() || !(*Encoding)(nil).ASCIICompatible() {
		t.Error("ASCIICompatible is wrong")
	}
}

// Where a byte is no character, the ASCII after it is still there: no encoding
// in which markup is read as it is swallows markup.
func TestDecodeKeepsMarkup(t *testing.T) {
	for _, x := range table {
		if !x.e.isMultiByte() {
			continue
		}
		decoder := x.e.NewDecoder()
		for lead := 0x80; lead < 256; lead++ {
			for second := range 256 {
				for _, markup := range "<\" " {
					in := []byte{byte(lead), byte(second), byte(markup)}
					out, err := decoder.Bytes(in)
					if err != nil || !strings.HasSuffix(string(out), string(markup)) || second < '0' && !strings.Contains(string(out), string(rune(second))) {
						t.Fatalf("%s: %q became %q, %v", x.e, in, out, err)
					}
				}
			}
		}
	}
}
