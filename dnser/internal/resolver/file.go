package resolver

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/cespare/xxhash/v2"
)

// The file that keeps the cache, in order:
//
//	8 bytes     magic, its last byte the version
//	string      servers that the answers came from
//	uvarint     number of entries
//	entries     used longest ago first
//	8 bytes     xxhash64 of all that, big-endian
//
// An entry is host, status and confirmed in one byte, expiry by the DNS in Unix
// seconds (varint), server, addresses (count, then length and bytes each), aliases
// (count, then strings). Counts and lengths are uvarints.
const (
	fileMagic     = "LYCDNSC\x01"
	sumBytes      = 8
	confirmedFlag = 0x80
	// maxFileBytes bounds what is read at start.
	maxFileBytes = 64 << 20
)

// keeps says which answers outlive the process.
func keeps(s Status) bool { return s == Resolved || s.Negative() }

// serversID names the servers in the file: answers of one set of servers are
// not shown to a crawl that asks another.
func serversID(servers []netip.AddrPort) string {
	names := make([]string, 0, len(servers))
	for _, s := range servers {
		names = append(names, s.String())
	}
	slices.Sort(names)
	return strings.Join(names, ",")
}

// encode is the file's content: every kept answer that is fresh at now, or may
// be told stale.
func (r *Resolver) encode(now time.Time) []byte {
	var entries []byte
	count := 0
	r.cache.Each(func(name string, a *Answer, expires time.Time) {
		_, stale := r.stale(a, now)
		if keeps(a.Status) && (now.Before(expires) || stale) {
			entries = appendEntry(entries, name, a)
			count++
		}
	})
	out := append(make([]byte, 0, len(entries)+256), fileMagic...)
	out = appendString(out, serversID(r.cfg.Servers))
	out = binary.AppendUvarint(out, uint64(count))
	out = append(out, entries...)
	return binary.BigEndian.AppendUint64(out, xxhash.Sum64(out))
}

func appendString(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

func appendEntry(b []byte, name string, a *Answer) []byte {
	b = appendString(b, name)
	status := byte(a.Status)
	if a.Confirmed {
		status |= confirmedFlag
	}
	b = append(b, status)
	b = binary.AppendVarint(b, a.fresh().Unix())
	b = appendString(b, a.Server)
	b = binary.AppendUvarint(b, uint64(len(a.Addrs)))
	for _, ip := range a.Addrs {
		b = appendString(b, string(ip.AsSlice()))
	}
	b = binary.AppendUvarint(b, uint64(len(a.CNAMEs)))
	for _, c := range a.CNAMEs {
		b = appendString(b, c)
	}
	return b
}

var errCorrupt = errors.New("the content does not make sense")

// decode reads a file's content and calls each for every entry; servers is
// where they came from. Nothing is called for a file that is bad as a whole; a
// file whose sum is right and whose entries are not was written by a fault of
// ours, and what was read before it is good.
func decode(data []byte, each func(Answer)) (servers string, err error) {
	if len(data) < len(fileMagic)+sumBytes || string(data[:len(fileMagic)-1]) != fileMagic[:len(fileMagic)-1] {
		return "", errors.New("not a file of the dnser's cache")
	}
	if v := data[len(fileMagic)-1]; v != fileMagic[len(fileMagic)-1] {
		return "", fmt.Errorf("version %d of the format, want %d", v, fileMagic[len(fileMagic)-1])
	}
	body, sum := data[:len(data)-sumBytes], data[len(data)-sumBytes:]
	if xxhash.Sum64(body) != binary.BigEndian.Uint64(sum) {
		return "", errors.New("the checksum is wrong: the file was cut or changed")
	}
	d := decoder{rest: body[len(fileMagic):]}
	servers = d.string()
	for n := d.uvarint(); n > 0 && !d.bad; n-- {
		a := d.entry()
		if d.bad {
			break
		}
		each(a)
	}
	if d.bad || len(d.rest) > 0 {
		return servers, errCorrupt
	}
	return servers, nil
}

// decoder takes values off the front of rest; bad stays set once it is.
type decoder struct {
	rest []byte
	bad  bool
}

func (d *decoder) uvarint() uint64 {
	v, n := binary.Uvarint(d.rest)
	if n <= 0 {
		d.bad = true
		return 0
	}
	d.rest = d.rest[n:]
	return v
}

func (d *decoder) varint() int64 {
	v, n := binary.Varint(d.rest)
	if n <= 0 {
		d.bad = true
		return 0
	}
	d.rest = d.rest[n:]
	return v
}

func (d *decoder) bytes(n uint64) []byte {
	if d.bad || n > uint64(len(d.rest)) {
		d.bad = true
		return nil
	}
	b := d.rest[:n]
	d.rest = d.rest[n:]
	return b
}

func (d *decoder) string() string { return string(d.bytes(d.uvarint())) }

func (d *decoder) entry() Answer {
	a := Answer{Host: d.string()}
	if b := d.bytes(1); len(b) == 1 {
		a.Status, a.Confirmed = Status(b[0]&^confirmedFlag), b[0]&confirmedFlag != 0
	}
	a.Expires = time.Unix(d.varint(), 0)
	a.Server = d.string()
	for n := d.uvarint(); n > 0 && !d.bad; n-- {
		ip, ok := netip.AddrFromSlice(d.bytes(d.uvarint()))
		d.bad = d.bad || !ok || len(a.Addrs) >= 2*maxAddrs
		a.Addrs = append(a.Addrs, ip)
	}
	for n := d.uvarint(); n > 0 && !d.bad; n-- {
		a.CNAMEs = append(a.CNAMEs, d.string())
		d.bad = d.bad || len(a.CNAMEs) > maxChain
	}
	if !keeps(a.Status) || (a.Status == Resolved) != (len(a.Addrs) > 0) || checkName(a.Host) != "" {
		d.bad = true
	}
	switch a.Status {
	case NotExist:
		a.Detail = "no such name (NXDOMAIN)"
	case NoAddress:
		a.Detail = "the name has no address (NODATA)"
	}
	return a
}

// restore reads the file into the cache. A bad file is a warning: the cache
// only saves questions.
func (r *Resolver) restore() {
	data, err := readFile(r.cfg.File)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	if err != nil {
		r.log.Warn("the DNS cache is not restored", "file", r.cfg.File, "err", err)
		return
	}
	var kept []Answer
	servers, err := decode(data, func(a Answer) { kept = append(kept, a) })
	if err != nil {
		r.log.Warn("the DNS cache is not restored", "file", r.cfg.File, "err", err)
		return
	}
	if want := serversID(r.cfg.Servers); servers != want {
		r.log.Info("the DNS cache is not restored: it is of other servers", "file", r.cfg.File, "have", servers, "want", want)
		return
	}
	now := r.now()
	restored := 0
	for i := range kept {
		a := &kept[i]
		// A clock that was set back must not make an answer live longer than
		// the settings allow.
		limit := now.Add(r.clampTTL(a.Status, a.Expires.Sub(now)))
		if a.Expires.After(limit) {
			a.Expires = limit
		}
		a.ttl = max(a.Expires.Sub(now), 0)
		_, stale := r.stale(a, now)
		if (now.Before(a.Expires) || stale) && r.cache.Add(a.Host, a, a.Expires) {
			restored++
		}
	}
	r.log.Info("DNS cache restored", "file", r.cfg.File, "answers", restored)
}

func readFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // read only
	data, err := io.ReadAll(io.LimitReader(f, maxFileBytes+1))
	if err == nil && len(data) > maxFileBytes {
		err = fmt.Errorf("the file is larger than %d bytes", maxFileBytes)
	}
	return data, err
}

// save writes the file if something has changed since it was written last.
func (r *Resolver) save() {
	r.mu.Lock()
	changed := r.changed
	r.changed = false
	r.mu.Unlock()
	if !changed {
		return
	}
	if err := writeFile(r.cfg.File, r.encode(r.now())); err != nil {
		r.mu.Lock()
		r.changed = true // the next try is for this too
		r.mu.Unlock()
		r.log.Warn("the DNS cache is not saved", "file", r.cfg.File, "err", err)
	}
}

// writeFile puts data in path's place in one step: whoever reads it, after
// whatever crash, finds the old content or the new.
func writeFile(path string, data []byte) (err error) {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	tmp := path + ".tmp"
	f, err := os.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = os.Rename(tmp, path)
	}
	if err != nil {
		_ = os.Remove(tmp) // the first error is the one to tell
		return err
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	err = d.Sync()
	if cerr := d.Close(); err == nil {
		err = cerr
	}
	return err
}
