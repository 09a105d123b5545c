package cookie

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
)

// ReadNetscape adds the cookies of a cookies.txt as browsers, curl and wget
// write it: seven fields a line, separated by tabs (domain, whether hosts below
// it count, path, whether secure only, expiry in seconds since 1970 or 0, name,
// value). Lines that begin with "#" are comments, but for "#HttpOnly_". The
// error names the line and shows none of it.
func (j *Jar) ReadNetscape(r io.Reader, now time.Time) (n int, err error) {
	sc := bufio.NewScanner(r)
	sc.Buffer(nil, 64<<10)
	j.mu.Lock()
	defer j.mu.Unlock()
	for line := 1; sc.Scan(); line++ {
		text := strings.TrimSuffix(sc.Text(), "\r")
		rest, httpOnly := strings.CutPrefix(text, "#HttpOnly_")
		if strings.TrimSpace(text) == "" || !httpOnly && strings.HasPrefix(text, "#") {
			continue
		}
		f := strings.Split(rest, "\t")
		if len(f) == 6 {
			f = append(f, "") // an empty value may lack its tab
		}
		if len(f) != 7 {
			return n, fmt.Errorf("cookies.txt, line %d: %d fields separated by tabs, want 7", line, len(f))
		}
		expires, err := strconv.ParseInt(f[4], 10, 64)
		if err != nil {
			return n, fmt.Errorf("cookies.txt, line %d: the fifth field must be seconds since 1970, or 0", line)
		}
		c := &cookie{
			domain: strings.ToLower(strings.TrimPrefix(f[0], ".")), hostOnly: !strings.EqualFold(f[1], "TRUE"),
			path: f[2], secure: strings.EqualFold(f[3], "TRUE"), name: f[5], value: f[6], httpOnly: httpOnly,
		}
		if c.domain == "" || !strings.HasPrefix(c.path, "/") || len(c.name)+len(c.value) > maxPair || strings.ContainsAny(c.name+c.value, "\x00\r\n;") {
			return n, fmt.Errorf("cookies.txt, line %d: needs a domain, a path that begins with \"/\", and a name and value of at most %d characters without \";\"", line, maxPair)
		}
		if expires > 0 {
			c.expires = time.Unix(expires, 0)
		}
		if !c.expires.IsZero() && !now.Before(c.expires) {
			continue
		}
		j.put(c, now)
		n++
	}
	return n, sc.Err()
}

// WriteNetscape writes the cookies as a cookies.txt that ReadNetscape and curl
// read, sorted.
func (j *Jar) WriteNetscape(w io.Writer, now time.Time) error {
	j.mu.Lock()
	lines := make([]string, 0, j.lru.Len())
	for e := j.lru.Front(); e != nil; e = e.Next() {
		c := e.Value.(*cookie)
		if !c.expires.IsZero() && !now.Before(c.expires) || strings.ContainsAny(c.name+c.value+c.path, "\t") {
			continue
		}
		domain, below, prefix, expires := c.domain, "FALSE", "", int64(0)
		if !c.hostOnly {
			domain, below = "."+domain, "TRUE"
		}
		if c.httpOnly {
			prefix = "#HttpOnly_"
		}
		if !c.expires.IsZero() {
			expires = c.expires.Unix()
		}
		lines = append(lines, fmt.Sprintf("%s%s\t%s\t%s\t%s\t%d\t%s\t%s\n", prefix, domain, below, c.path, strings.ToUpper(strconv.FormatBool(c.secure)), expires, c.name, c.value))
	}
	j.dirty = false
	j.mu.Unlock()
	slices.Sort(lines)
	if _, err := io.WriteString(w, "# Netscape HTTP Cookie File\n"); err != nil {
		return err
	}
	for _, l := range lines {
		if _, err := io.WriteString(w, l); err != nil {
			return err
		}
	}
	return nil
}

// Dirty tells whether cookies have changed since they were last written.
func (j *Jar) Dirty() bool { j.mu.Lock(); defer j.mu.Unlock(); return j.dirty }
