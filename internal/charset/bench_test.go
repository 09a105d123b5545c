package charset

import (
	"os"
	"strings"
	"testing"

	"lycosa.dev/internal/casefiles"
)

func BenchmarkDecide(b *testing.B) {
	head := "<!DOCTYPE html><html lang=\"en\"><head><meta charset=\"utf-8\"><title>A page</title></head>"
	bare := strings.Replace(head, "<meta charset=\"utf-8\">", "", 1)
	line := "<li><a href=\"/section/page-1.html\">A line of the menu of a site</a></li>\n"
	ascii := strings.Repeat(line, 20<<10/len(line))
	french := strings.Repeat("<p>d\xe9j\xe0 vu, \xe0 c\xf4t\xe9, "+line, 200)
	utf8Text := strings.Repeat("<p>déjà vu, à côté, "+line, 200)
	russian := strings.Repeat("<p>\xcf\xf0\xe8\xe2\xe5\xf2, \xec\xe8\xf0 "+line, 200)
	for _, c := range []struct{ name, doc, contentType string }{
		{"http-ascii", head + ascii, "text/html; charset=utf-8"},
		{"http-utf8", head + utf8Text, "text/html; charset=utf-8"},
		{"meta-ascii", head + ascii, "text/html"},
		{"meta-utf8", head + utf8Text, "text/html"},
		{"silent-ascii", bare + ascii, "text/html"},
		{"silent-utf8", bare + utf8Text, "text/html"},
		{"silent-french", bare + french, "text/html"},
		{"silent-russian", bare + russian, "text/html"},
	} {
		doc := []byte(c.doc)
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				Decide(doc, Hints{ContentType: c.contentType})
			}
		})
	}
	b.Run("silent-japanese", func(b *testing.B) {
		doc, err := os.ReadFile(casefiles.Path(b, "charset/pages/SHIFT_JIS/_ude_1.txt"))
		if err != nil {
			b.Fatal(err)
		}
		b.ReportAllocs()
		for b.Loop() {
			Decide(doc, Hints{})
		}
	})
}

func BenchmarkDecode(b *testing.B) {
	for _, label := range []string{"utf-8", "windows-1251", "gbk", "shift_jis", "euc-kr", "big5"} {
		doc := []byte(strings.Repeat("<p>\xb0\xa1\xb0\xa2 text text text ", 700))
		if label == "utf-8" {
			doc = []byte(strings.Repeat("<p>déjà text text text ", 800))
		}
		e := Lookup(label)
		b.Run(label, func(b *testing.B) {
			b.SetBytes(int64(len(doc)))
			b.ReportAllocs()
			for b.Loop() {
				e.Decode(doc)
			}
		})
	}
}
