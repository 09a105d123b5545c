package fetch

import (
	"strings"

	"lycosa.dev/internal/weburl"
)

// learn takes what a response's header block says of who we are: cookies and
// challenges. Where the same request would now be another one, the exchange
// ends as not made: the caller asks again, with a permission of its own.
func (x *exchange) learn(head []byte) *failure {
	if x.absolute && x.head.Status == 407 {
		x.via.Failed(x.begun)
		return &failure{ClassNotStarted, "proxy-auth", "the proxy does not accept our user name and password"}
	}
	if x.set.Jar == nil && x.set.Auth == nil {
		return nil
	}
	t := &x.req.Target
	h := &x.conn.scratch
	if _, err := h.Parse(head); err != nil {
		return nil // HTTP/0.9
	}
	defer clear(h.Fields)
	var challenges []string
	changed := false
	for i := range h.Fields {
		f := &h.Fields[i]
		switch {
		case x.set.Jar != nil && len(f.Name) == 10 && strings.EqualFold(string(f.Name), "Set-Cookie"):
			changed = x.set.Jar.Set(f.Value, t.Host, t.Path, t.TLS, x.begun) || changed
		case x.set.Auth != nil && len(f.Name) == 16 && strings.EqualFold(string(f.Name), "WWW-Authenticate"):
			challenges = append(challenges, string(f.Value))
		}
	}
	if x.set.Auth != nil && x.set.Auth.Answered(t.Authority, x.head.Status, challenges, x.authorized) {
		return &failure{ClassNotStarted, "auth-challenge", "the server asks who we are; the next fetch says it"}
	}
	if changed && x.head.Status/100 == 3 {
		if loc := h.Get("Location"); loc != nil && t.same(string(weburl.FromHeader(loc))) && x.set.Jar.Again(t.url()) {
			return &failure{ClassNotStarted, "cookie-redirect", "the URL redirects to itself with a cookie; the next fetch carries it"}
		}
	}
	return nil
}

func (t *Target) url() string {
	if t.TLS {
		return "https://" + t.Authority + t.Path
	}
	return "http://" + t.Authority + t.Path
}

// same tells whether a Location leads to the target itself.
func (t *Target) same(location string) bool {
	base, err := weburl.Parse(t.url())
	if err != nil {
		return false
	}
	to, err := base.Resolve(location)
	if err != nil {
		return false
	}
	url, _, _ := strings.Cut(to.Canonical().String(), "#")
	return url == t.url()
}
