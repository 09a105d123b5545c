package testweb

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"fmt"
	"html"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/zstd"
)

// Page is one answer. The zero value is an empty 200 of type text/html.
type Page struct {
	// Status is the status code; 0 is 200.
	Status int
	// Type is the Content-Type; "" is text/html; charset=utf-8, "-" sends none.
	Type string
	// Header holds further fields.
	Header http.Header
	// Body is the entity before any coding.
	Body []byte
	// Coding is the content coding: "", gzip, deflate, br or zstd.
	Coding string
	// Chunked sends the body in chunks of some hundred bytes.
	Chunked bool
	// Delay is waited before the head is sent.
	Delay time.Duration
	// BodyDelay is waited in the middle of the body.
	BodyDelay time.Duration
	// Close ends the connection after the response.
	Close bool
	// Cut, if above 0, closes the connection after so many bytes of the body,
	// although a longer body was announced.
	Cut int
	// Raw, if set, is sent as it is, byte for byte, and the connection closed;
	// of the other fields only Delay counts.
	Raw []byte
	// Then is what follows: the second request gets Then[0], the third Then[1]
	// and so on; the last one repeats.
	Then []Page
}

// HTML is a page of links.
func HTML(links ...string) Page {
	var b strings.Builder
	b.WriteString("<!doctype html>\n<title>page</title>\n<ul>\n")
	for _, l := range links {
		fmt.Fprintf(&b, "<li><a href=\"%s\">%s</a>\n", html.EscapeString(l), html.EscapeString(l))
	}
	b.WriteString("</ul>\n")
	return Page{Body: []byte(b.String())}
}

// Text is a plain text page.
func Text(body string) Page { return Page{Type: "text/plain; charset=utf-8", Body: []byte(body)} }

// Redirect answers status (301, 302, 303, 307, 308) with a Location.
func Redirect(status int, location string) Page {
	return Page{Status: status, Header: http.Header{"Location": {location}}}
}

// Status is an answer with a status and a short body.
func Status(code int) Page { return Page{Status: code, Body: []byte(http.StatusText(code) + "\n")} }

// Unavailable answers 503 or 429 with Retry-After as given ("2", a date).
func Unavailable(status int, retryAfter string) Page {
	p := Status(status)
	p.Header = http.Header{"Retry-After": {retryAfter}}
	return p
}

// With returns the page as changed by f, for building in one expression.
func (p Page) With(f func(*Page)) Page {
	p.Header = p.Header.Clone()
	f(&p)
	return p
}

// encoded is the body as it travels.
func (p Page) encoded() ([]byte, error) {
	var out bytes.Buffer
	var w io.WriteCloser
	switch p.Coding {
	case "":
		return p.Body, nil
	case "gzip":
		w = gzip.NewWriter(&out)
	case "deflate":
		w = zlib.NewWriter(&out)
	case "br":
		w = brotli.NewWriter(&out)
	case "zstd":
		z, err := zstd.NewWriter(&out)
		if err != nil {
			return nil, err
		}
		w = z
	default:
		return nil, fmt.Errorf("testweb: unknown coding %q", p.Coding)
	}
	if _, err := w.Write(p.Body); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}
