package httpwire

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"sync"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// coding is a content coding (RFC 9110 section 8.4.1, RFC 7932, RFC 8878).
type coding uint8

const (
	codingUnknown coding = iota
	codingGzip
	codingDeflate
	codingBrotli
	codingZstd
	// What a layer turns out to be when it is not what it claims.
	codingIdentity
	codingRawDeflate
)

func parseCoding(e []byte) (c coding, identity bool) {
	switch {
	case equalFold(e, "gzip"), equalFold(e, "x-gzip"):
		return codingGzip, false
	case equalFold(e, "deflate"), equalFold(e, "x-deflate"):
		return codingDeflate, false
	case equalFold(e, "br"):
		return codingBrotli, false
	case equalFold(e, "zstd"):
		return codingZstd, false
	case equalFold(e, "identity"), equalFold(e, "none"):
		return codingIdentity, true
	}
	return codingUnknown, false
}

// zstdMaxWindow is the window a sender may use (RFC 9659).
const zstdMaxWindow = 8 << 20

// peekBytes is how much of a layer's input is looked at to see what it is, and
// the size of the read-ahead of every layer.
const peekBytes = 8 << 10

type pooledBuf struct{ bufio.Reader }

// The pools keep decoders between bodies; each is some 40 KB to 1 MB and made
// for one stream at a time. None of them runs a goroutine.
var (
	bufPool = sync.Pool{New: func() any {
		b := new(pooledBuf)
		b.Reader = *bufio.NewReaderSize(nil, peekBytes)
		return b
	}}
	gzipPool   = sync.Pool{New: func() any { return new(gzip.Reader) }}
	flatePool  = sync.Pool{New: func() any { return flate.NewReader(bytes.NewReader(nil)) }}
	brotliPool = sync.Pool{New: func() any { return brotli.NewReader(nil) }}
	zstdPool   = sync.Pool{New: func() any {
		d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
			zstd.WithDecoderMaxWindow(zstdMaxWindow))
		if err != nil { // the options are constants
			panic(err)
		}
		return d
	}}
)

// eofReader is what pooled decoders hold on to between uses.
var eofReader = bytes.NewReader(nil)

// decoder is one pooled decoder and the way back to its pool.
type decoder struct {
	io.Reader
	pool *sync.Pool
}

func newDecoder(c coding, src *bufio.Reader) (decoder, error) {
	switch c {
	case codingGzip:
		z := gzipPool.Get().(*gzip.Reader)
		if err := z.Reset(src); err != nil {
			gzipPool.Put(z)
			return decoder{}, err
		}
		z.Multistream(false) // the layer decides what the bytes after a member are
		return decoder{z, &gzipPool}, nil
	case codingDeflate, codingRawDeflate:
		if c == codingDeflate {
			if _, err := src.Discard(2); err != nil {
				return decoder{}, err
			}
		}
		z := flatePool.Get().(io.ReadCloser)
		if err := z.(flate.Resetter).Reset(src, nil); err != nil {
			return decoder{}, err
		}
		return decoder{z, &flatePool}, nil
	case codingBrotli:
		z := brotliPool.Get().(*brotli.Reader)
		if err := z.Reset(src); err != nil {
			return decoder{}, err
		}
		return decoder{z, &brotliPool}, nil
	case codingZstd:
		z := zstdPool.Get().(*zstd.Decoder)
		if err := z.Reset(src); err != nil {
			return decoder{}, err
		}
		return decoder{z, &zstdPool}, nil
	}
	return decoder{Reader: src}, nil
}

func (d decoder) release() {
	if d.pool == nil {
		return
	}
	switch z := d.Reader.(type) {
	case *gzip.Reader:
		// Its source is replaced at the next use; it holds a pooled buffer until then.
		_ = z.Close()
	case *brotli.Reader:
		_ = z.Reset(eofReader)
	case *zstd.Decoder:
		_ = z.Reset(nil)
	case flate.Resetter:
		_ = z.Reset(eofReader, nil)
	}
	d.pool.Put(d.Reader)
}

// recognise decides what a layer is from its claim and its first bytes; whole
// says that these are all there are.
func recognise(claim coding, peek []byte, whole bool) (coding, Note) {
	if actual, ok := byMagic(peek); ok {
		if actual == claim {
			return claim, 0
		}
		if claim != codingUnknown {
			return actual, NoteOtherCoding
		}
	}
	switch claim {
	case codingGzip, codingZstd:
		if isZlib(peek) && !looksText(peek) {
			return codingDeflate, NoteOtherCoding
		}
		return codingIdentity, NoteMislabelled
	case codingDeflate:
		// With a right header an early end is a cut, not another format.
		if isZlib(peek) && !failsTrial(codingDeflate, peek, false) {
			return codingDeflate, 0
		}
		if failsTrial(codingRawDeflate, peek, whole) {
			return codingIdentity, NoteMislabelled
		}
		return codingRawDeflate, NoteRawDeflate
	case codingBrotli:
		if failsTrial(codingBrotli, peek, whole) {
			return codingIdentity, NoteMislabelled
		}
		return codingBrotli, 0
	}
	return codingIdentity, NoteUnknownCoding
}

func byMagic(b []byte) (coding, bool) {
	switch {
	case len(b) >= 3 && b[0] == 0x1f && b[1] == 0x8b && b[2] == 8:
		return codingGzip, true
	case len(b) >= 4 && b[0] == 0x28 && b[1] == 0xb5 && b[2] == 0x2f && b[3] == 0xfd:
		return codingZstd, true
	case len(b) >= 4 && b[0]&0xf0 == 0x50 && b[1] == 0x2a && b[2] == 0x4d && b[3] == 0x18:
		return codingZstd, true // a skippable frame
	}
	return codingUnknown, false
}

// isZlib checks the header of RFC 1950 section 2.2.
func isZlib(b []byte) bool {
	return len(b) >= 2 && b[0]&0x0f == 8 && b[0]>>4 <= 7 && (int(b[0])<<8|int(b[1]))%31 == 0 && b[1]&0x20 == 0
}

// looksText reports whether b has no control byte that text does not have.
func looksText(b []byte) bool {
	for _, c := range b[:min(len(b), 128)] {
		if c < 0x20 && c != '\t' && c != '\n' && c != '\r' && c != '\f' {
			return false
		}
	}
	return true
}

// failsTrial tells plain text from compressed data of a coding without a magic
// number: what looks like text must decode cleanly to be taken for compressed.
func failsTrial(c coding, peek []byte, whole bool) bool {
	if !looksText(peek) {
		return false
	}
	src := bufio.NewReaderSize(bytes.NewReader(peek), 16)
	d, err := newDecoder(c, src)
	if err != nil {
		return true
	}
	defer d.release()
	_, err = io.CopyN(io.Discard, d, 64<<10)
	if err == nil || err == io.EOF {
		return false
	}
	return whole || !errors.Is(err, io.ErrUnexpectedEOF)
}
