package charset

import (
	"bytes"
	"io"
	"testing"
	"testing/iotest"
	"unicode/utf8"
)

func FuzzDecide(f *testing.F) {
	for _, doc := range []string{
		"<meta charset=utf-8>é", "<meta http-equiv=content-type content='text/html; charset=gb2312'>\xd6\xd0\xce\xc4", "<?xml version='1.0' encoding='koi8-r'?><a>\xc1\xc2",
		"\xEF\xBB\xBFx", "\xFE\xFF\x00<", "\xFF\xFE<\x00", "<\x00p\x00>\x00", "\x1b$B%F\x1b(B", "\xcf\xf0\xe8\xe2\xe5\xf2", "\xa4\xa2\xa4\xab<b>", "<!-- <meta charset=x> --><script></script>", "@charset \"big5\";\xa4\x40",
		"\x81\x30\x81\x30\x82", "<html lang=ja>\x93\xfa\x96{", "\x8f\xa1\xa1\xc3",
	} {
		f.Add([]byte(doc), "text/html; charset=", false)
		f.Add([]byte(doc), "text/css", true)
		f.Add([]byte(doc), "", true)
	}
	f.Add([]byte("<\xe9>"), `application/xml; charset="UTF_16`, false)
	f.Fuzz(func(t *testing.T, doc []byte, contentType string, partial bool) {
		h := Hints{ContentType: contentType, Partial: partial}
		d := Decide(doc, h)
		if d.Encoding == nil || d.Ground >= numGrounds || d.Confidence > 100 || d.Annotation() == "" {
			t.Fatalf("decision %+v", d)
		}
		if d.ASCII && firstHigh(doc) < len(doc) && !partial {
			t.Fatalf("%s calls %q ASCII", d, doc)
		}
		if Lookup(d.Encoding.Name()) != d.Encoding {
			t.Fatalf("the name %s finds another", d.Encoding)
		}
		text := d.Encoding.Decode(doc)
		if !utf8.Valid(text) {
			t.Fatalf("%s: %q became %q", d, doc, text)
		}
		streamed, err := io.ReadAll(d.Encoding.NewReader(iotest.HalfReader(bytes.NewReader(doc))))
		if err != nil || !bytes.Equal(streamed, text) {
			t.Fatalf("%s: %q: streamed %q, %v, whole %q", d, doc, streamed, err, text)
		}
		if d.Encoding.ASCIICompatible() && bytes.Count(text, []byte("<")) != bytes.Count(doc, []byte("<")) {
			t.Fatalf("%s lost markup: %q became %q", d, doc, text)
		}
		read, err := DecideReader(bytes.NewReader(doc), h)
		if err != nil || !partial && read != d {
			t.Fatalf("read: %s, %v; whole %s", read, err, d)
		}
	})
}

func FuzzLookup(f *testing.F) {
	for _, l := range []string{"utf8", " x-sjis;", `"gb_2312"`, "charset=charset=", "cp-1251", "8859-15", "x", ""} {
		f.Add(l)
	}
	f.Fuzz(func(t *testing.T, label string) {
		if e := Lookup(label); e != nil && Lookup(e.Name()) != e {
			t.Fatalf("%q: %s", label, e)
		}
	})
}
