package dnser

import (
	"context"
	"fmt"
	"net/netip"
	"regexp"
	"strings"
	"sync/atomic"

	"lycosa.dev/dnser/internal/resolver"
	"lycosa.dev/internal/warc"
)

// archive writes what the servers answered as WARC records: type resource,
// target dns:HOST (RFC 4501), content text/dns (RFC 4027), address of the server
// that answered. The block is a line with the time, as the crawlers that began
// this write it, and the reply's answer section in the form of zone files.
//
// A name's askers wait until its record is durable; many are written with one
// fsync. A record that cannot be written is lost, logged and counted: the crawl
// needs the address more.
type archive struct {
	dnser  *Dnser
	writer *warc.Writer
	broken atomic.Bool // the last record was lost, and that was logged
}

var notOfNames = regexp.MustCompile(`[^A-Za-z0-9._-]+`)

// openArchive opens the folder of the settings.
func (d *Dnser) openArchive() (*archive, error) {
	w, recovered, err := warc.Open(warc.Config{
		Dir: d.cfg.WARCDir, Job: "dns-" + notOfNames.ReplaceAllString(d.cfg.ID, "_"), Log: d.log,
	})
	if err != nil {
		return nil, fmt.Errorf("warc_dir: %w", err)
	}
	if len(recovered) > 0 {
		d.log.Info("DNS records of an earlier run are closed", "dir", d.cfg.WARCDir, "files", len(recovered))
	}
	return &archive{dnser: d, writer: w}, nil
}

// record writes the replies for host, one record for each server that sent any.
func (a *archive) record(ctx context.Context, host string, seen []resolver.Seen) {
	records := dnsRecords(host, seen)
	if len(records) == 0 {
		return
	}
	_, err := a.writer.Write(ctx, records)
	if err == nil {
		a.dnser.metrics.archived.Add(float64(len(records)))
		a.broken.Store(false)
		return
	}
	a.dnser.metrics.lost.Add(float64(len(records)))
	if !a.broken.Swap(true) {
		a.dnser.log.Error("DNS records are not archived", "dir", a.dnser.cfg.WARCDir, "err", err)
	}
}

// dnsRecords puts the replies into records. What a second reply of the same
// server repeats, such as the aliases before the other family's addresses, is
// written once.
func dnsRecords(host string, seen []resolver.Seen) []warc.Record {
	type block struct {
		server netip.AddrPort
		text   strings.Builder
		lines  map[string]struct{}
	}
	var blocks []*block
	var records []warc.Record
	for _, s := range seen {
		if len(s.Records) == 0 {
			continue
		}
		var b *block
		for _, have := range blocks {
			if have.server == s.Server {
				b = have
			}
		}
		if b == nil {
			b = &block{server: s.Server, lines: make(map[string]struct{})}
			b.text.WriteString(s.At.UTC().Format("20060102150405") + "\n")
			blocks = append(blocks, b)
			records = append(records, warc.Record{
				Type: warc.Resource, Date: s.At, TargetURI: "dns:" + host, IP: s.Server.Addr().Unmap(), ContentType: "text/dns",
			})
		}
		for _, rr := range s.Records {
			line := rr.String()
			if _, ok := b.lines[line]; ok {
				continue
			}
			b.lines[line] = struct{}{}
			b.text.WriteString(line + "\n")
		}
	}
	for i, b := range blocks {
		records[i].Body = []byte(b.text.String())
	}
	return records
}

func (a *archive) close() {
	if err := a.writer.Close(); err != nil {
		a.dnser.log.Error("close the WARC of DNS records", "dir", a.dnser.cfg.WARCDir, "err", err)
	}
}
