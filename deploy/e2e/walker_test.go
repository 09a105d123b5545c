package e2e

import (
	"bytes"
	"io"
	"mime"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/net/html"
	"golang.org/x/net/html/charset"
)

// walker is the independent method of the completeness test: a plain search
// from page to page with net/http, the tree that x/net/html builds, and
// net/url. It shares no code with the crawler.
type walker struct {
	t      testing.TB
	client *http.Client
	host   string
	seen   map[string]bool
	todo   []*url.URL
	// status is the answer to each URL that was fetched.
	status map[string]int
}

// walk fetches everything that can be reached on the seeds' host.
func walk(t testing.TB, seeds ...string) *walker {
	t.Helper()
	w := &walker{
		t: t, seen: map[string]bool{}, status: map[string]int{},
		client: &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }},
	}
	for _, s := range seeds {
		u, err := url.Parse(s)
		if err != nil {
			t.Fatal(err)
		}
		w.host = u.Host
		w.add(u)
	}
	for len(w.todo) > 0 {
		u := w.todo[len(w.todo)-1]
		w.todo = w.todo[:len(w.todo)-1]
		w.fetch(u)
	}
	return w
}

func (w *walker) add(u *url.URL) {
	if u.Scheme != "http" || u.Host != w.host {
		return
	}
	c := *u
	c.Fragment, c.RawFragment = "", ""
	if c.Path == "" {
		c.Path = "/"
	}
	if key := uriKey(c.RequestURI()); !w.seen[key] {
		w.seen[key] = true
		w.todo = append(w.todo, &c)
	}
}

// uriKey makes two spellings of one request target equal: percent-encoding
// undone in the path.
func uriKey(uri string) string {
	path, query, has := strings.Cut(uri, "?")
	if p, err := url.PathUnescape(path); err == nil {
		path = p
	}
	if has {
		return path + "?" + query
	}
	return path
}

func (w *walker) fetch(u *url.URL) {
	req, err := http.NewRequestWithContext(w.t.Context(), http.MethodGet, u.String(), nil)
	if err != nil {
		w.t.Fatal(err)
	}
	req.Header.Set("User-Agent", "independent-walker")
	resp, err := w.client.Do(req)
	if err != nil {
		w.t.Fatalf("%s: %v", u, err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		w.t.Fatalf("%s: %v", u, err)
	}
	w.status[uriKey(u.RequestURI())] = resp.StatusCode
	if loc := resp.Header.Get("Location"); loc != "" {
		if to, err := u.Parse(loc); err == nil {
			w.add(to)
		}
	}
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	switch kind {
	case "text/html", "application/xhtml+xml", "image/svg+xml":
		w.html(u, body, resp.Header.Get("Content-Type"))
	case "text/css":
		w.css(u, string(body))
	}
}

func (w *walker) html(u *url.URL, body []byte, contentType string) {
	r, err := charset.NewReader(bytes.NewReader(body), contentType)
	if err != nil {
		w.t.Fatalf("%s: %v", u, err)
	}
	doc, err := html.ParseWithOptions(r, html.ParseOptionEnableScripting(false))
	if err != nil {
		w.t.Fatalf("%s: %v", u, err)
	}
	base := u
	for n := range doc.Descendants() {
		if n.Type == html.ElementNode && n.Data == "base" && attr(n, "href") != "" {
			if b, err := u.Parse(strings.TrimSpace(attr(n, "href"))); err == nil {
				base = b
			}
			break
		}
	}
	for n := range doc.Descendants() {
		if n.Type == html.ElementNode {
			w.element(base, n)
		}
	}
}

func attr(n *html.Node, name string) string {
	for _, a := range n.Attr {
		if a.Key == name || a.Namespace+":"+a.Key == name {
			return a.Val
		}
	}
	return ""
}

func (w *walker) ref(base *url.URL, ref string) {
	ref = strings.TrimSpace(ref)
	if ref == "" || ref[0] == '#' {
		return
	}
	if to, err := base.Parse(strings.NewReplacer("\n", "", "\r", "", "\t", "", " ", "%20").Replace(ref)); err == nil {
		w.add(to)
	}
}

var refresh = regexp.MustCompile(`(?i)^\s*[\d.]+\s*[;,]\s*(?:url\s*=\s*)?['"]?([^'"]+)`)

// element takes an element's links, by HTML's list of the attributes that hold
// URLs.
func (w *walker) element(base *url.URL, n *html.Node) {
	if style := attr(n, "style"); style != "" {
		w.css(base, style)
	}
	switch n.Data {
	case "a", "area":
		w.ref(base, attr(n, "href"))
	case "link":
		for _, rel := range strings.Fields(strings.ToLower(attr(n, "rel"))) {
			// Not a resource of the site: what only opens connections, and
			// what names the page itself in other ways.
			switch rel {
			case "preconnect", "dns-prefetch":
				return
			}
		}
		if attr(n, "rel") != "" {
			w.ref(base, attr(n, "href"))
		}
	case "frame", "iframe", "script", "embed", "audio", "video", "track", "source":
		w.ref(base, attr(n, "src"))
	case "img", "image":
		w.ref(base, attr(n, "src"))
	case "input":
		if strings.EqualFold(attr(n, "type"), "image") {
			w.ref(base, attr(n, "src"))
		}
	case "object":
		w.ref(base, attr(n, "data"))
	case "blockquote", "q", "ins", "del":
		w.ref(base, attr(n, "cite"))
	case "meta":
		if strings.EqualFold(attr(n, "http-equiv"), "refresh") {
			if m := refresh.FindStringSubmatch(attr(n, "content")); m != nil {
				w.ref(base, m[1])
			}
		}
	case "style":
		if n.FirstChild != nil {
			w.css(base, n.FirstChild.Data)
		}
	}
	w.ref(base, attr(n, "background"))
	w.ref(base, attr(n, "poster"))
	w.ref(base, attr(n, "longdesc"))
	if n.Namespace == "svg" && (n.Data == "a" || n.Data == "use" || n.Data == "image" || n.Data == "script") {
		w.ref(base, attr(n, "href"))
		w.ref(base, attr(n, "xlink:href"))
	}
	for _, set := range []string{attr(n, "srcset"), attr(n, "imagesrcset")} {
		for candidate := range strings.SplitSeq(set, ",") {
			if f := strings.Fields(candidate); len(f) > 0 {
				w.ref(base, f[0])
			}
		}
	}
}

var (
	cssComment = regexp.MustCompile(`(?s)/\*.*?\*/`)
	cssURL     = regexp.MustCompile(`(?i)url\(\s*(?:"([^"]*)"|'([^']*)'|([^'")\s]+))\s*\)`)
	cssImport  = regexp.MustCompile(`(?i)@import\s+(?:"([^"]*)"|'([^']*)')`)
)

func (w *walker) css(base *url.URL, text string) {
	text = cssComment.ReplaceAllString(text, " ")
	for _, m := range append(cssURL.FindAllStringSubmatch(text, -1), cssImport.FindAllStringSubmatch(text, -1)...) {
		for _, ref := range m[1:] {
			w.ref(base, ref)
		}
	}
}
