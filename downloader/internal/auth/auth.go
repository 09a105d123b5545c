// Package auth answers servers that ask who we are: basic (RFC 7617), digest
// (RFC 7616) and bearer (RFC 6750). Credentials are for named hosts only, and
// nothing of them is ever part of an error or a log line.
package auth

import (
	"crypto/md5"
	"crypto/rand"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"hash"
	"strings"
	"sync"

	"lycosa.dev/internal/job"
)

// Credential says who we are to the hosts that a pattern covers.
type Credential struct {
	// Host is a pattern as job.MatchHost takes it.
	Host string
	// Kind is "basic", "digest" or "bearer".
	Kind string
	// User is the user name of basic and digest.
	User string
	// Secret is the password or the token.
	Secret string
}

// Bounds of what is remembered of digest challenges.
const (
	maxSpaces = 1024
	// maxTries is how many challenges in a row are answered without a success.
	maxTries = 3
)

// Auth answers challenges. Its methods are safe for concurrent use; a nil Auth
// knows nobody.
type Auth struct {
	list []Credential

	mu     sync.Mutex
	spaces map[string]*space // by host key
}

// space is what a host's digest challenge said.
type space struct {
	realm, nonce, opaque, algorithm string
	qop                             bool
	count                           uint32
	tries                           int
}

// New returns an Auth with these credentials; the first that matches counts.
func New(list []Credential) *Auth {
	return &Auth{list: list, spaces: map[string]*space{}}
}

func (a *Auth) find(hostKey string) *Credential {
	if a == nil {
		return nil
	}
	for i := range a.list {
		if job.MatchHost(a.list[i].Host, hostKey) {
			return &a.list[i]
		}
	}
	return nil
}

// Append appends the value of Authorization for a GET of a target of the host;
// nothing where we have nothing to say yet.
func (a *Auth) Append(b []byte, hostKey, target string) []byte {
	c := a.find(hostKey)
	if c == nil {
		return b
	}
	switch c.Kind {
	case "basic":
		b = append(b, "Basic "...)
		return base64.StdEncoding.AppendEncode(b, []byte(c.User+":"+c.Secret))
	case "bearer":
		return append(append(b, "Bearer "...), c.Secret...)
	}
	a.mu.Lock()
	s := a.spaces[hostKey]
	if s == nil || s.tries > maxTries {
		a.mu.Unlock()
		return b
	}
	s.count++
	now := *s
	a.mu.Unlock()
	var cnonce [12]byte
	_, _ = rand.Read(cnonce[:])
	return append(b, now.answer(c, target, hex.EncodeToString(cnonce[:]))...)
}

// Answered takes a response: its status, its WWW-Authenticate values, and
// whether the request had an Authorization. again tells that the same request
// would now be answered otherwise.
func (a *Auth) Answered(hostKey string, status int, challenges []string, sent bool) (again bool) {
	c := a.find(hostKey)
	if c == nil || c.Kind != "digest" {
		return false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	s := a.spaces[hostKey]
	if status != 401 {
		if s != nil && sent {
			s.tries = 0
		}
		return false
	}
	next := choose(challenges)
	if next == nil {
		return false
	}
	tries := 0
	if s != nil {
		tries = s.tries
		if sent && !next.stale {
			s.tries = maxTries + 1 // the password is wrong: it is not sent again
			return false
		}
	}
	if s == nil && len(a.spaces) >= maxSpaces {
		for k := range a.spaces {
			delete(a.spaces, k)
			break
		}
	}
	if tries >= maxTries {
		return false
	}
	next.space.tries = tries + 1
	a.spaces[hostKey] = &next.space
	return true
}

func newHash(algorithm string) func() hash.Hash {
	switch strings.TrimSuffix(strings.ToLower(algorithm), "-sess") {
	case "", "md5":
		return md5.New
	case "sha-256":
		return sha256.New
	case "sha-512-256":
		return sha512.New512_256
	}
	return nil
}

// answer is RFC 7616 section 3.4.
func (s *space) answer(c *Credential, uri, cnonce string) string {
	sum := func(parts ...string) string {
		h := newHash(s.algorithm)()
		h.Write([]byte(strings.Join(parts, ":")))
		return hex.EncodeToString(h.Sum(nil))
	}
	a1 := sum(c.User, s.realm, c.Secret)
	if strings.HasSuffix(strings.ToLower(s.algorithm), "-sess") {
		a1 = sum(a1, s.nonce, cnonce)
	}
	a2 := sum("GET", uri)
	nc := fmt.Sprintf("%08x", s.count)
	response := sum(a1, s.nonce, a2)
	if s.qop {
		response = sum(a1, s.nonce, nc, cnonce, "auth", a2)
	}
	var b strings.Builder
	fmt.Fprintf(&b, `Digest username=%s, realm=%s, nonce=%s, uri=%s, response="%s"`, quote(c.User), quote(s.realm), quote(s.nonce), quote(uri), response)
	if s.algorithm != "" {
		b.WriteString(", algorithm=" + s.algorithm)
	}
	if s.opaque != "" {
		b.WriteString(", opaque=" + quote(s.opaque))
	}
	if s.qop {
		fmt.Fprintf(&b, `, qop=auth, nc=%s, cnonce="%s"`, nc, cnonce)
	}
	return b.String()
}

func quote(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"`
}
