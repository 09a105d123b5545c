package linkscan

import (
	"bytes"
	"slices"
	"strings"

	"golang.org/x/net/html"
)

// refKinds is what the references below look for: everything that does not need
// a second parser (styles, conditional comments) or a guess (data-*).
const refKinds = Default&^CSS | Forms | Cites

// refAttrs are a start tag's attributes as x/net/html gives them.
type refAttrs []html.Attribute

func (a refAttrs) get(key string) (string, bool) {
	ns := ""
	if key == "xlink:href" {
		ns, key = "xlink", "href"
	}
	for _, x := range a {
		if x.Key == key && x.Namespace == ns {
			return x.Val, true
		}
	}
	return "", false
}

// refPage gathers the links of a page from x/net/html's view of it.
type refPage struct {
	links   []string
	base    *string
	refresh bool
}

func (p *refPage) add(e, attr, v string) { p.links = append(p.links, e+"."+attr+" "+v) }

func (p *refPage) embed(e, attr string, a refAttrs) {
	if v, ok := a.get(attr); ok && refLoads(v) {
		p.add(e, attr, v)
	}
}

func refLoads(v string) bool {
	v = strings.Trim(v, " \t\n\f\r")
	return v != "" && !strings.HasPrefix(v, "#")
}

func (p *refPage) nav(e, attr string, a refAttrs) {
	if v, ok := a.get(attr); ok {
		p.add(e, attr, v)
	}
}

func (p *refPage) set(e, attr string, a refAttrs) {
	v, _ := a.get(attr)
	for rest := []byte(v); ; {
		u, r, ok := nextCandidate(rest)
		if !ok {
			return
		}
		if rest = r; refLoads(string(u)) {
			p.add(e, attr, string(u))
		}
	}
}

func (p *refPage) svg(name string, a refAttrs) {
	e := map[string]string{"a": "a", "image": "img", "use": "use", "feImage": "use", "script": "script"}[name]
	if e == "" {
		return
	}
	attr := "href"
	if _, ok := a.get(attr); !ok {
		attr = "xlink:href"
	}
	if e == "a" {
		p.nav(e, attr, a)
	} else {
		p.embed(e, attr, a)
	}
}

func (p *refPage) html(name string, a refAttrs) {
	switch name {
	case "a", "area":
		p.nav(name, "href", a)
	case "base":
		if v, ok := a.get("href"); ok && p.base == nil {
			p.base = &v
		}
	case "frame", "iframe":
		p.embed(name, "src", a)
		p.nav(name, "longdesc", a)
	case "img", "image":
		p.embed("img", "src", a)
		p.set("img", "srcset", a)
		p.nav("img", "longdesc", a)
	case "video":
		p.embed(name, "src", a)
		p.embed(name, "poster", a)
	case "source":
		p.embed(name, "src", a)
		p.set(name, "srcset", a)
	case "audio", "track", "embed", "script":
		p.embed(name, "src", a)
	case "object":
		p.embed(name, "data", a)
	case "input":
		if t, _ := a.get("type"); strings.EqualFold(t, "image") {
			p.embed(name, "src", a)
		}
		p.nav(name, "formaction", a)
	case "button":
		p.nav(name, "formaction", a)
	case "form":
		if m, _ := a.get("method"); !strings.EqualFold(m, "post") && !strings.EqualFold(m, "dialog") {
			p.nav(name, "action", a)
		}
	case "blockquote", "q", "ins", "del":
		p.nav("quote", "cite", a)
	case "body":
		p.embed("body", "background", a)
	case "table", "thead", "tbody", "tfoot", "tr", "td", "th":
		p.embed("table", "background", a)
	case "link":
		rel, _ := a.get("rel")
		words := strings.FieldsFunc(strings.ToLower(rel), func(r rune) bool { return strings.ContainsRune(" \t\n\f\r", r) })
		words = slices.DeleteFunc(words, func(w string) bool {
			return slices.Contains([]string{"pingback", "preconnect", "dns-prefetch", "noopener", "noreferrer", "external"}, w)
		})
		if len(words) == 0 {
			return
		}
		embed := slices.ContainsFunc(words, func(w string) bool {
			return slices.Contains([]string{"stylesheet", "preload", "modulepreload", "icon", "apple-touch-icon",
				"apple-touch-icon-precomposed", "mask-icon", "manifest"}, w)
		})
		if v, ok := a.get("href"); ok && v != "" && (!embed || refLoads(v)) {
			p.add("link", "href", v)
		}
		p.set("link", "imagesrcset", a)
	case "meta":
		equiv, _ := a.get("http-equiv")
		content, ok := a.get("content")
		if !ok || !strings.EqualFold(equiv, "refresh") || p.refresh {
			return
		}
		d, ok := parseRefresh([]byte(content))
		p.refresh = ok
		if ok && len(d.URL) > 0 {
			p.add("meta", "content", string(d.URL))
		}
	}
}

// tokenizerPage is the page by x/net/html's tokenizer, which knows no SVG and
// takes noscript for raw text.
func tokenizerPage(doc []byte) *refPage {
	p := &refPage{}
	z := html.NewTokenizer(bytes.NewReader(doc))
	template := 0
	for {
		switch z.Next() {
		case html.ErrorToken:
			return p
		case html.EndTagToken:
			if n, _ := z.TagName(); string(n) == "template" && template > 0 {
				template--
			}
		case html.StartTagToken, html.SelfClosingTagToken:
			t := z.Token()
			switch {
			case template > 0 && (t.Data == "base" || t.Data == "meta"):
			case t.Data == "template":
				template++
			default:
				p.html(t.Data, t.Attr)
			}
		}
	}
}

// treePage is the page by x/net/html's parser, scripts off.
func treePage(doc []byte) (*refPage, error) {
	root, err := html.ParseWithOptions(bytes.NewReader(doc), html.ParseOptionEnableScripting(false))
	if err != nil {
		return nil, err
	}
	p := &refPage{}
	var walk func(n *html.Node, inert bool)
	walk = func(n *html.Node, inert bool) {
		if n.Type == html.ElementNode {
			switch {
			case n.Namespace == "svg":
				p.svg(n.Data, n.Attr)
			case n.Namespace != "":
			case inert && (n.Data == "base" || n.Data == "meta"):
			default:
				p.html(n.Data, n.Attr)
				inert = inert || n.Data == "template"
			}
		}
		for c := n.FirstChild; c != nil; c = c.NextSibling {
			walk(c, inert)
		}
	}
	walk(root, false)
	return p, nil
}

// scanPage is the page by the scanner.
func scanPage(doc []byte, opt Options) *refPage {
	p := &refPage{}
	var s Scanner
	d := s.Scan(doc, opt, func(l Link) { p.add(l.Element.String(), l.Attr.String(), string(l.URL)) })
	if d.HasBase {
		b := string(d.Base)
		p.base = &b
	}
	return p
}

func (p *refPage) sameBase(q *refPage) bool {
	return (p.base == nil) == (q.base == nil) && (p.base == nil || *p.base == *q.base)
}

// differences names what only one of two pages has.
func differences(got, want []string) (extra, missing []string) {
	a, b := map[string]bool{}, map[string]bool{}
	for _, l := range got {
		a[l] = true
	}
	for _, l := range want {
		b[l] = true
	}
	for l := range a {
		if !b[l] {
			extra = append(extra, l)
		}
	}
	for l := range b {
		if !a[l] {
			missing = append(missing, l)
		}
	}
	slices.Sort(extra)
	slices.Sort(missing)
	return extra, missing
}
