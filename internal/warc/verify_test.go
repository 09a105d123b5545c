package warc_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"lycosa.dev/internal/warc"
)

// raw makes a record out of header lines and a block; Content-Length is added.
func raw(block string, lines ...string) string {
	return "WARC/1.1\r\n" + strings.Join(lines, "\r\n") + fmt.Sprintf("\r\nContent-Length: %d\r\n\r\n%s\r\n\r\n", len(block), block)
}

func member(records ...string) string {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, _ = io.WriteString(z, strings.Join(records, ""))
	_ = z.Close()
	return b.String()
}

const (
	infoLines = "WARC-Type: warcinfo\r\nWARC-Record-ID: <urn:uuid:00000000-0000-4000-8000-000000000000>\r\nWARC-Date: 2026-11-30T20:15:07Z\r\nContent-Type: application/warc-fields"
	respLines = "WARC-Type: response\r\nWARC-Record-ID: <urn:uuid:%08d-0000-4000-8000-000000000000>\r\nWARC-Date: 2026-11-30T20:15:07.123Z\r\nWARC-Target-URI: http://example.org/\r\nContent-Type: application/http; msgtype=response"
)

func resp(n int, block string, more ...string) string {
	return raw(block, append([]string{fmt.Sprintf(respLines, n)}, more...)...)
}

const okBlock = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\nhello"

func TestVerifyFinds(t *testing.T) {
	info := raw("software: x\r\n", infoLines)
	sha := warc.SumDigest([]byte("hello")).String()
	chunked := "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"
	flip := func(s string, i int) string { b := []byte(s); b[i] ^= 0x20; return string(b) }
	good := member(resp(1, okBlock))
	for _, tc := range []struct {
		name    string
		data    string
		want    []string // "severity kind part of the text", in order
		records int
		plain   bool
	}{
		{name: "good", data: member(info) + good, records: 2},
		{name: "good, plain", data: info + resp(1, okBlock), records: 2, plain: true},
		{name: "digests", data: member(info) + member(resp(1, okBlock, "WARC-Payload-Digest: "+sha, "WARC-Block-Digest: "+warc.SumDigest([]byte(okBlock)).String())), records: 2},
		{name: "base 16 and SHA-256", data: member(info) + member(resp(1, okBlock, "WARC-Payload-Digest: sha256:2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824")), records: 2},
		{name: "chunked by the standard", data: member(info) + member(resp(1, chunked, "WARC-Payload-Digest: "+sha)), records: 2},
		{name: "chunked over the framing", data: member(info) + member(resp(1, chunked, "WARC-Payload-Digest: "+warc.SumDigest([]byte("5\r\nhello\r\n0\r\n\r\n")).String())),
			want: []string{"warning payload-digest chunk framing"}, records: 2},
		{name: "wrong payload digest", data: member(info) + member(resp(1, okBlock, "WARC-Payload-Digest: "+warc.SumDigest([]byte("hellO")).String())),
			want: []string{"error payload-digest the payload's is " + sha}, records: 2},
		{name: "wrong block digest", data: member(info) + member(resp(1, okBlock, "WARC-Block-Digest: "+sha)), want: []string{"error block-digest"}, records: 2},
		{name: "odd digest", data: member(info) + member(resp(1, okBlock, "WARC-Block-Digest: crc:1")), want: []string{"warning block-digest not known"}, records: 2},
		{name: "nothing", data: "", want: []string{"error junk holds no record"}},
		{name: "no warcinfo", data: good, want: []string{"warning warcinfo"}, records: 1},
		{name: "same id twice", data: member(info) + good + good, want: []string{"error duplicate-id"}, records: 3},
		{name: "two records in a member", data: member(info, resp(1, okBlock)), want: []string{"error member more than one record"}, records: 2},
		{name: "plain record in a .gz", data: member(info) + resp(1, okBlock), want: []string{"error member not compressed"}, records: 2},
		{name: "trailing garbage", data: member(info) + good + "garbage", want: []string{"error gzip no record follows"}, records: 2},
		{name: "trailing zeros", data: member(info) + good + strings.Repeat("\x00", 100000), want: []string{"error gzip no record follows"}, records: 2},
		{name: "torn", data: member(info) + good[:len(good)-3], want: []string{"error gzip"}, records: 1},
		{name: "torn at once", data: member(info) + good[:5], want: []string{"error gzip"}, records: 1},
		{name: "garbage between", data: member(info) + "xyz" + good, want: []string{"error gzip the next record begins at"}, records: 2},
		{name: "broken in the middle", data: member(info) + flip(good, len(good)/2) + member(resp(2, okBlock)), want: []string{"error field WARC-Date", "error gzip the next record begins at"}, records: 2},
		{name: "wrong CRC", data: member(info) + flip(good, len(good)-6) + member(resp(2, okBlock)), want: []string{"error gzip"}, records: 2},
		{name: "length too small", data: member(info) + member(strings.Replace(resp(1, okBlock), "Content-Length: 49", "Content-Length: 40", 1)), want: []string{"error block-end Content-Length 40"}, records: 2},
		{name: "length too large", data: member(info) + member(strings.Replace(resp(1, okBlock), "Content-Length: 49", "Content-Length: 99", 1)), want: []string{"error gzip the block has 53 bytes"}, records: 1},
		{name: "length not a number", data: member(info) + member(strings.Replace(resp(1, okBlock), "Content-Length: 49", "Content-Length: -1", 1)), want: []string{"error gzip not a number"}, records: 1},
		{name: "no length", data: member(info) + member(strings.Replace(resp(1, okBlock), "Content-Length: 49\r\n", "", 1)), want: []string{"error gzip Content-Length is missing"}, records: 1},
		{name: "no end", data: member(info) + member(strings.TrimSuffix(resp(1, okBlock), "\r\n")), want: []string{"error block-end"}, records: 2},
		{name: "LF only", data: member(info) + member(strings.Replace(resp(1, okBlock), "\r\nWARC-Date", "\nWARC-Date", 1)), want: []string{"warning line-end"}, records: 2},
		{name: "no version", data: member(info) + member("GET / HTTP/1.1\r\n\r\n"), want: []string{"error gzip not with WARC/"}, records: 1},
		{name: "version 0.9", data: member(info) + member(strings.Replace(resp(1, okBlock), "WARC/1.1", "WARC/0.9", 1)), want: []string{"error version"}, records: 2},
		{name: "missing fields", data: member(info) + member(raw("x", "WARC-Type: response")),
			want:    []string{"error field WARC-Record-ID is missing", "error field WARC-Date is missing", "error field WARC-Target-URI is missing", "warning field Content-Type"},
			records: 2},
		{name: "bad fields", data: member(info) + member(resp(1, okBlock, "WARC-IP-Address: nowhere", "WARC-Truncated: bored", "WARC-IP-Address: 192.0.2.1")),
			want: []string{"error field WARC-IP-Address is given more than once", "warning field WARC-Truncated", "error field WARC-IP-Address is"}, records: 2},
		{name: "no HTTP", data: member(info) + member(resp(1, "hello")), want: []string{"warning http"}, records: 2},
		{name: "revisit", data: member(info) + member(raw("", "WARC-Type: revisit\r\nWARC-Record-ID: <urn:uuid:00000001-0000-4000-8000-000000000000>\r\nWARC-Date: 2026\r\nWARC-Target-URI: http://example.org/")),
			want: []string{"error field WARC-Profile is missing"}, records: 2},
		{name: "no field", data: member(info) + member(resp(1, okBlock, "what is this")), want: []string{"error header no field"}, records: 2},
		{name: "torn, plain", data: info + resp(1, okBlock)[:280], want: []string{"error gzip no record follows"}, records: 1, plain: true},
		{name: "length too small, plain", data: info + strings.Replace(resp(1, okBlock), "Content-Length: 49", "Content-Length: 38", 1) + resp(2, okBlock),
			want: []string{"error block-end", "error gzip the next record begins at"}, records: 3, plain: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			name := "x.warc.gz"
			if tc.plain {
				name = "x.warc"
			}
			rep := verify(t, name, []byte(tc.data))
			if rep.Total() != tc.records {
				t.Errorf("%d records, want %d", rep.Total(), tc.records)
			}
			ok := len(rep.Problems) == len(tc.want)
			for i := range min(len(rep.Problems), len(tc.want)) {
				w := strings.SplitN(tc.want[i], " ", 3)
				p := rep.Problems[i]
				if p.Severity.String() != w[0] || p.Kind != w[1] || len(w) > 2 && !strings.Contains(p.Text, w[2]) {
					ok = false
				}
			}
			if !ok {
				t.Errorf("problems:\n%v\nwant\n%v", rep.Problems, strings.Join(tc.want, "\n"))
			}
			if rep.OK() != !slices.ContainsFunc(tc.want, func(s string) bool { return strings.HasPrefix(s, "error") }) {
				t.Errorf("OK is %v", rep.OK())
			}
			// As a stream it ends and finds at least the records before damage.
			r := warc.NewReader(strings.NewReader(tc.data))
			for {
				e, err := r.Next()
				if err == io.EOF {
					break
				}
				if err != nil {
					t.Fatal(err)
				}
				_ = e.Close()
			}
		})
	}
}

// TestVerifyEveryFlippedBit: no damage of a byte goes unnoticed.
func TestVerifyEveryFlippedBit(t *testing.T) {
	data := []byte(member(raw("software: x\r\n", infoLines)) + member(resp(1, okBlock)))
	unseen := 0
	for i := range data {
		b := slices.Clone(data)
		b[i] ^= 0x10
		if rep := verify(t, "x.warc.gz", b); len(rep.Problems) == 0 {
			unseen++ // gzip's time, flags and system bytes mean nothing to us
		}
	}
	if unseen > 2*7 {
		t.Errorf("%d flipped bytes were not noticed", unseen)
	}
}

func TestVerifyFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.warc.gz")
	if err := os.WriteFile(path, []byte(member(raw("a: b\r\n", infoLines))+"junk"), 0o600); err != nil {
		t.Fatal(err)
	}
	rep, err := warc.Verify(context.Background(), path)
	if err != nil || rep.OK() || rep.File != path {
		t.Errorf("%+v, %v", rep, err)
	}
	if _, err := warc.Verify(context.Background(), path+".absent"); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("absent: %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := warc.Verify(ctx, path); err != context.Canceled {
		t.Errorf("cancelled: %v", err)
	}
}

// FuzzReader: nothing makes the reader panic, hang, or claim more than there is.
func FuzzReader(f *testing.F) {
	f.Add([]byte(member(raw("a: b\r\n", infoLines)) + member(resp(1, okBlock))))
	f.Add([]byte(raw("a: b\r\n", infoLines) + resp(1, okBlock)))
	f.Add([]byte("WARC/1.1\r\nContent-Length: 9223372036854775807\r\n\r\nx"))
	f.Add([]byte("\x1f\x8b\x08WARC/1.1\n folded\nContent-Length: 0\n\n\n\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		rep, err := warc.VerifyReaderAt(context.Background(), "x.warc.gz", bytes.NewReader(b), int64(len(b)))
		if err != nil {
			t.Fatal(err)
		}
		if rep.Total() == 0 && rep.OK() {
			t.Fatal("no record and no problem")
		}
		last := int64(-1)
		r := warc.NewReader(bytes.NewReader(b))
		for {
			e, err := r.Next()
			if err != nil {
				break
			}
			if e.Offset < last {
				t.Fatalf("offset %d after %d", e.Offset, last)
			}
			last = e.Offset
			if e.Close() == nil && e.Offset+e.Length > int64(len(b)) {
				t.Fatalf("record at %d of %d bytes in %d", e.Offset, e.Length, len(b))
			}
		}
	})
}
