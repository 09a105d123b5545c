package linkscan

import (
	"io"

	"golang.org/x/text/transform"
)

// Reader converts a document that comes in pieces to UTF-8.
func (c *Charset) Reader(r io.Reader) io.Reader {
	if c.isUTF8() {
		return r
	}
	return transform.NewReader(r, c.enc.NewDecoder())
}
