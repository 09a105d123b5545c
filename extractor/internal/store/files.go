package store

import (
	"context"
	"crypto/md5"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"lycosa.dev/extractor/internal/page"
	"lycosa.dev/internal/weburl"
	crawlv1 "lycosa.dev/proto/gen/lycosa/crawl/v1"
)

// maxName is the longest file name made of a path segment; longer ones are cut
// and told apart by their digest.
const maxName = 200

// maxPath is the longest path of a file below the store's folder: what systems
// take for a whole path (4096 bytes), and room for the folder itself.
const maxPath = 3000

// Files keeps the decoded body of each page as a file, host by host. Only
// responses with status 200 are kept: a file has no place for another.
// A page that is stored again takes the place of the one before.
type Files struct {
	dir    string
	folder string // in dir; "": dir itself
}

// OpenFiles opens a folder in dir, or dir itself where folder is "". Two jobs
// in one folder replace each other's files of the same URL.
func OpenFiles(dir, folder string) (*Files, error) {
	if err := os.MkdirAll(filepath.Join(dir, folder), 0o755); err != nil {
		return nil, classify(err)
	}
	return &Files{dir, folder}, nil
}

// Name implements Store.
func (*Files) Name() string { return "files" }

// Close implements Store.
func (*Files) Close() error { return nil }

// Put implements Store. The file appears whole, or not at all.
func (s *Files) Put(_ context.Context, p *page.Page) (*crawlv1.StoredRecord, error) {
	if p.Result.GetStatus() != 200 || p.Lease.GetPurpose() != crawlv1.Purpose_PURPOSE_PAGE {
		return nil, nil
	}
	rel := filepath.Join(s.folder, FileName(p.URL))
	path := filepath.Join(s.dir, rel)
	size, err := s.write(path, p)
	if err != nil {
		return nil, classify(err)
	}
	return &crawlv1.StoredRecord{Store: "files", File: filepath.ToSlash(rel), Length: size}, nil
}

func (s *Files) write(path string, p *page.Page) (size int64, err error) {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return 0, err
	}
	tmp, err := os.CreateTemp(dir, ".lycosa-*")
	if err != nil {
		return 0, err
	}
	defer func() {
		if err != nil {
			_ = tmp.Close()
			_ = os.Remove(tmp.Name())
		}
	}()
	body := p.Open()
	defer body.Close()
	if size, err = io.Copy(tmp, body); err != nil {
		return 0, err
	}
	if err = tmp.Chmod(0o644); err != nil {
		return 0, err
	}
	if err = tmp.Sync(); err != nil {
		return 0, err
	}
	if err = tmp.Close(); err != nil {
		return 0, err
	}
	if err = os.Rename(tmp.Name(), path); err != nil {
		return 0, err
	}
	d, err := os.Open(dir)
	if err != nil {
		return 0, err
	}
	defer d.Close()
	return size, d.Sync()
}

// FileName is the path of a URL's file below the store's folder:
// "host/dir/name". A URL that ends in a slash is index.html there; a query
// follows behind an "@" and port and odd bytes are escaped with "%", so that a
// name says nothing to a shell or to another system and never leaves the
// folder. A segment that others are below of gets its own name by a trailing
// "%": files "a%" are pages whose URL is also a folder's. What a path has beyond
// maxPath becomes one name by its digest.
func FileName(u weburl.URL) string {
	parts := []string{escape(u.HostKey())}
	segments := strings.Split(strings.TrimPrefix(u.Path(), "/"), "/")
	for i, seg := range segments {
		last := i == len(segments)-1
		name := escape(seg)
		if last {
			if seg == "" {
				name = "index.html"
			}
			if u.HasQuery() {
				name += "@"
				if q := u.Query(); q != "" {
					name += escape(q)
				}
			}
			// A page without an extension may share its name with a folder.
			if !strings.Contains(name, ".") {
				name += "%"
			}
		} else if strings.Contains(name, ".") {
			// A folder with a dot may share its name with a page.
			name += "%d"
		}
		parts = append(parts, shorten(name))
	}
	return filepath.Join(shortenPath(parts)...)
}

// shortenPath puts one name for all parts that make a path too long.
func shortenPath(parts []string) []string {
	length := 0
	for i, part := range parts {
		if length += len(part) + 1; length > maxPath {
			return append(parts[:i:i], "%~"+digest(strings.Join(parts[i:], "/")))
		}
	}
	return parts
}

func escape(s string) string {
	var b strings.Builder
	for i := range len(s) {
		c := s[i]
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '-', c == '_', c == '=', c == '&', c == '+', c == ',':
			b.WriteByte(c)
		case c == '.' && i > 0 && i < len(s)-1:
			// A leading dot would hide the file or climb, a trailing one is lost on
			// other systems.
			b.WriteByte(c)
		default:
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	if b.Len() == 0 {
		return "%"
	}
	return b.String()
}

func shorten(name string) string {
	if len(name) <= maxName {
		return name
	}
	return name[:maxName-34] + "%~" + digest(name)
}

func digest(s string) string {
	sum := md5.Sum([]byte(s))
	return hex.EncodeToString(sum[:])
}
