package warc

import (
	"crypto/md5"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base32"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"hash"
	"strings"

	"lycosa.dev/internal/httpwire"
)

// Digest is a SHA-1 digest. The zero value means none.
type Digest [sha1.Size]byte

// SumDigest returns the digest of b.
func SumDigest(b []byte) Digest { return sha1.Sum(b) }

// IsZero reports whether d is no digest.
func (d Digest) IsZero() bool { return d == Digest{} }

// String returns the form that WARC headers use: "sha1:" and base 32.
func (d Digest) String() string { return string(d.append(nil)) }

func (d Digest) append(b []byte) []byte {
	b = append(b, "sha1:"...)
	return base32.StdEncoding.AppendEncode(b, d[:])
}

// ParseDigest reads a SHA-1 digest as String writes it; base 16 is taken as well.
func ParseDigest(s string) (Digest, error) {
	var d Digest
	alg, sum, err := parseDigest(s)
	if err != nil {
		return d, err
	}
	if alg != "sha1" {
		return d, fmt.Errorf("warc: digest %q is not a SHA-1", s)
	}
	copy(d[:], sum)
	return d, nil
}

// EntityDigest returns the payload digest of a response with that head and
// stored body, as Write would compute it: a caller that needs it before (to
// write a revisit instead) puts it into the record, so that it is made once.
// It is false where the chunk framing is broken and no payload is defined.
func EntityDigest(head *httpwire.Head, body ...[]byte) (Digest, bool) {
	if !head.Chunked() && len(body) == 1 {
		return sha1.Sum(body[0]), true
	}
	h := sha1.New()
	emit := func(b []byte) { h.Write(b) }
	var e httpwire.Entity
	e.Reset(head)
	for _, b := range body {
		e.Feed(b, emit)
	}
	if e.Finish(emit).Has(httpwire.NoteChunkMalformed) {
		return Digest{}, false
	}
	return Digest(h.Sum(nil)), true
}

// newHash returns the hash of an algorithm's normalised name.
func newHash(alg string) hash.Hash {
	switch alg {
	case "sha1":
		return sha1.New()
	case "sha256":
		return sha256.New()
	case "sha512":
		return sha512.New()
	case "md5":
		return md5.New()
	}
	return nil
}

// parseDigest splits a labelled digest and decodes its value, which tools write
// in base 32, base 16 or base 64, with or without padding.
func parseDigest(s string) (alg string, sum []byte, err error) {
	alg, value, ok := strings.Cut(s, ":")
	if !ok {
		return "", nil, fmt.Errorf("warc: digest %q has no algorithm in front, as in sha1:…", s)
	}
	alg = strings.ReplaceAll(strings.ToLower(alg), "-", "")
	h := newHash(alg)
	if h == nil {
		return alg, nil, fmt.Errorf("warc: digest algorithm %q is not known (sha1, sha256, sha512, md5)", alg)
	}
	v := strings.TrimRight(value, "=")
	for _, try := range []func() ([]byte, error){
		func() ([]byte, error) { return hex.DecodeString(v) },
		func() ([]byte, error) {
			return base32.StdEncoding.WithPadding(base32.NoPadding).DecodeString(strings.ToUpper(v))
		},
		func() ([]byte, error) { return base64.RawStdEncoding.DecodeString(v) },
		func() ([]byte, error) { return base64.RawURLEncoding.DecodeString(v) },
	} {
		if b, err := try(); err == nil && len(b) == h.Size() {
			return alg, b, nil
		}
	}
	return alg, nil, fmt.Errorf("warc: %q is not the value of a %s digest", value, alg)
}
