package store_test

import (
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"lycosa.dev/extractor/internal/store"
	"lycosa.dev/internal/weburl"
)

func TestFileName(t *testing.T) {
	for in, want := range map[string]string{
		"http://a.test/":                     "a.test/index.html",
		"http://a.test:8080/x/y.html":        "a.test%3A8080/x/y.html",
		"http://a.test/docs":                 "a.test/docs%",
		"http://a.test/docs/":                "a.test/docs/index.html",
		"http://a.test/v1.2/x":               "a.test/v1.2%d/x%",
		"http://a.test/v1.2":                 "a.test/v1.2",
		"http://a.test/a?b=c/d":              "a.test/a@b=c%2Fd%",
		"http://a.test/%2e%2e/%2e%2e/passwd": "a.test/passwd%",
		"http://a.test/...":                  "a.test/%2E.%2E",
		"http://[::1]/":                      "%5B%3A%3A1%5D/index.html",
	} {
		u, err := weburl.ParseCanonical(in)
		if err != nil {
			t.Fatal(err)
		}
		if got := filepath.ToSlash(store.FileName(u)); got != want {
			t.Errorf("%s: got %s, want %s", in, got, want)
		}
	}
}

func TestFileNameOfALongPath(t *testing.T) {
	long := func(path string) string {
		u, err := weburl.ParseCanonical("http://a.test/" + path)
		if err != nil {
			t.Fatal(err)
		}
		return store.FileName(u)
	}
	deep := strings.Repeat("d/", 3900)
	a, b := long(deep+"a"), long(deep+"b")
	if len(a) > 3100 || a == b || !strings.HasPrefix(a, filepath.Join("a.test", "d", "d")) {
		t.Errorf("%d and %d bytes, equal: %v", len(a), len(b), a == b)
	}
}

// Two pages never share a file, no file is another's folder, and none leaves
// the folder of the store.
func TestFileNamesAreApart(t *testing.T) {
	segment := rapid.StringOfN(rapid.SampledFrom([]rune("ab.%~@? /dxindex.html")), 0, 12, -1)
	rapid.Check(t, func(t *rapid.T) {
		names := map[string]string{}
		for range 8 {
			path := strings.Join(rapid.SliceOfN(segment, 1, 4).Draw(t, "path"), "/")
			u, err := weburl.ParseCanonical("http://a.test/" + path)
			if err != nil {
				continue
			}
			name := store.FileName(u)
			if !filepath.IsLocal(name) || !strings.HasPrefix(name, "a.test"+string(filepath.Separator)) {
				t.Fatalf("%s: %s leaves the folder", u, name)
			}
			if other, taken := names[name]; taken && other != u.String() {
				t.Fatalf("%s and %s share %s", other, u, name)
			}
			names[name] = u.String()
		}
		for name := range names {
			for other := range names {
				if strings.HasPrefix(other, name+string(filepath.Separator)) {
					t.Fatalf("%s: %s is a folder of %s", names[name], name, other)
				}
			}
		}
	})
}
