package weburl

import "testing"

// The bytes of a Location are those that are asked for.
func TestFromHeader(t *testing.T) {
	base, err := Parse("http://h.test/dir/")
	if err != nil {
		t.Fatal(err)
	}
	for in, want := range map[string]string{
		"/caf\xe9.html?\xe9":   "http://h.test/caf%E9.html?%E9",
		"/caf\u00e9.html":      "http://h.test/caf%C3%A9.html",
		"/\u65e5\xe9":          "http://h.test/%E6%97%A5%E9",
		"//h\u00e9.test/":      "http://xn--h-bga.test/",
		"plain":                "http://h.test/dir/plain",
		"/\xb2\xe2?q=\xb2\xe2": "http://h.test/%B2%E2?q=%B2%E2",
	} {
		u, err := base.Resolve(string(FromHeader([]byte(in))))
		if err != nil || u.Canonical().String() != want {
			t.Errorf("%q: %v, %v, want %s", in, u, err, want)
		}
	}
	if u, err := base.Resolve(string(FromHeader([]byte("//h\xe9.test/")))); err == nil {
		t.Errorf("a host of no encoding is %v", u)
	}
	same := []byte("/x")
	if &FromHeader(same)[0] != &same[0] {
		t.Error("copied for nothing")
	}
}
