package downloader

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"lycosa.dev/internal/warc"
)

// WriteText writes the report for a person: each step's status, timings,
// address, TLS facts and header lines. Request headers are shown too where all
// is true. Control characters of the server's are shown as "?".
func (r *Report) WriteText(w io.Writer, all bool) error {
	var b strings.Builder
	for i := range r.Steps {
		if i > 0 {
			b.WriteString("\n")
		}
		r.Steps[i].text(&b, all)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (s *Step) text(b *strings.Builder, all bool) {
	line := func(name, format string, args ...any) {
		fmt.Fprintf(b, "%-12s %s\n", name, printable(fmt.Sprintf(format, args...)))
	}
	b.WriteString(printable(s.URL) + "\n")
	switch {
	case s.Status != 0:
		status, _, _ := strings.Cut(string(s.Head), "\n")
		line("status", "%d  %s  (%s)", s.Status, strings.TrimSpace(status), s.Protocol)
	default:
		line("failed", "%s: %s: %s", s.Class, s.Code, s.Detail)
	}
	if s.Status != 0 && s.Code != "" {
		line("cut", "%s: %s", s.Code, s.Detail)
	}
	if s.Redirect != "" {
		line("redirect", "%s", s.Redirect)
	}
	if s.Address.IsValid() {
		kept := ""
		if s.Reused {
			kept = ", connection kept from before"
		}
		line("address", "%s  of %d%s", s.Address, len(s.Addresses), kept)
	}
	var phases []string
	for _, p := range []struct {
		name string
		d    time.Duration
	}{{"dns", s.DNS}, {"connect", s.Connect}, {"tls", s.Handshake}, {"first byte", s.FirstByte}, {"content", s.Content}, {"total", s.Total}} {
		if p.d > 0 {
			phases = append(phases, p.name+" "+round(p.d).String())
		}
	}
	line("time", "%s", strings.Join(phases, ", "))
	if s.ReceivedBytes > 0 {
		line("bytes", "sent %d, received %d, body %d, decoded %d", s.SentBytes, s.ReceivedBytes, len(s.Body), len(s.Decoded))
	}
	if t := s.TLS; t != nil {
		facts := []string{t.Version, t.CipherSuite}
		if t.Group != "" {
			facts = append(facts, t.Group)
		}
		if t.Protocol != "" {
			facts = append(facts, "alpn "+t.Protocol)
		}
		if t.Resumed {
			facts = append(facts, "resumed")
		}
		if t.Legacy {
			facts = append(facts, "fallback for old servers")
		}
		line("tls", "%s", strings.Join(facts, ", "))
		line("certificate", "%s", t.Subject)
		line("  issuer", "%s", t.Issuer)
		line("  names", "%s", strings.Join(t.Names, ", "))
		line("  valid", "%s to %s, %s", t.NotBefore.UTC().Format(time.DateOnly), t.NotAfter.UTC().Format(time.DateOnly), t.SignatureAlgorithm)
		if t.Problem != "" {
			line("  problem", "%s", t.Problem)
		}
	}
	if s.ContentType != "" {
		line("type", "%s", s.ContentType)
	}
	if s.Charset != "" {
		line("charset", "%s  (by %s)", s.Charset, s.CharsetGround)
	}
	if s.Truncated != "" {
		line("truncated", "%s", s.Truncated)
	}
	if len(s.Annotations) > 0 {
		line("notes", "%s", strings.Join(s.Annotations, ", "))
	}
	if all {
		headers(b, "> ", s.Request)
	}
	headers(b, "< ", s.Head)
}

func headers(b *strings.Builder, mark string, head []byte) {
	for l := range strings.SplitSeq(strings.TrimRight(string(head), "\r\n"), "\n") {
		if l != "" {
			b.WriteString(mark + printable(strings.TrimSuffix(l, "\r")) + "\n")
		}
	}
}

// printable keeps a server from writing to the terminal what it likes.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' && r != '\t' || r >= 0x7f && r < 0xa0 || r == 0xfffd {
			return '?'
		}
		return r
	}, s)
}

// round shortens a duration to three digits or so.
func round(d time.Duration) time.Duration {
	for unit := time.Second; unit >= time.Microsecond; unit /= 10 {
		if d >= unit {
			return d.Round(unit / 100)
		}
	}
	return d
}

// WriteWARC writes the steps that have a response to a WARC file of its own in
// a folder, response and request of each, and returns the file's name. A
// response by HTTP/2 is in the form of HTTP/1.1, and the record's WARC-Protocol
// fields say how it came.
func (r *Report) WriteWARC(ctx context.Context, dir string) (string, error) {
	w, _, err := warc.Open(warc.Config{Dir: dir, Job: "fetch"})
	if err != nil {
		return "", err
	}
	file := ""
	for i := range r.Steps {
		s := &r.Steps[i]
		if s.Status == 0 {
			continue
		}
		at, err := w.Write(ctx, []warc.Record{
			{
				Type: warc.Response, Date: s.Started, TargetURI: s.URL, IP: s.Address.Addr().Unmap(), Truncated: warc.Truncation(s.Truncated),
				Head: s.Head, Body: s.Body, Fields: s.Protocols(),
			},
			{Type: warc.Request, Date: s.Started, TargetURI: s.URL, IP: s.Address.Addr().Unmap(), Head: s.Request},
		})
		if err != nil {
			_ = w.Close()
			return "", err
		}
		file = at.File
	}
	return file, w.Close()
}

// Protocols are the WARC-Protocol and WARC-Cipher-Suite fields that say how the
// response came (the proposals that crawlers and readers have agreed on: one
// protocol a field, ALPN names, "tls/1.3").
func (s *Step) Protocols() []warc.Field {
	var out []warc.Field
	if s.Protocol != "" {
		out = append(out, warc.Field{Name: "WARC-Protocol", Value: s.Protocol})
	}
	if s.TLS != nil {
		out = append(out, warc.Field{Name: "WARC-Protocol", Value: "tls/" + strings.TrimPrefix(s.TLS.Version, "TLS")},
			warc.Field{Name: "WARC-Cipher-Suite", Value: s.TLS.CipherSuite})
	}
	return out
}
