// Package web is the synthetic web that Lycosa is measured on: hosts × pages of
// one size, each with the links that a real page has (a menu that every page of
// the host repeats, some pages of the host, a few other hosts), the same for the
// same seed. Bodies lie ready in memory and the server writes HTTP/1.1 over bare
// sockets, so that serving costs little beside crawling.
package web

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
)

// Config describes the web. The zero value of a field is its default.
type Config struct {
	// Hosts is the number of hosts (100), Pages of pages on each (200).
	Hosts, Pages int
	// PageBytes is the size of a body (20 KB), Links its number of links (40).
	PageBytes, Links int
	// Seed chooses links and text.
	Seed uint64
}

// Defaults of Config, the page of design section 9.
const (
	DefaultHosts     = 100
	DefaultPages     = 200
	DefaultPageBytes = 20_000
	DefaultLinks     = 40
)

func (c Config) withDefaults() Config {
	for _, f := range []struct {
		field *int
		value int
	}{{&c.Hosts, DefaultHosts}, {&c.Pages, DefaultPages}, {&c.PageBytes, DefaultPageBytes}, {&c.Links, DefaultLinks}} {
		if *f.field <= 0 {
			*f.field = f.value
		}
	}
	return c
}

// Host is the name of a host by its number from 0.
func Host(h int) string { return fmt.Sprintf("h%04d.bench.test", h+1) }

// Path is the path of a page by its number from 0.
func Path(p int) string {
	if p == 0 {
		return "/"
	}
	return fmt.Sprintf("/s%d/page-%d.html", p%8, p)
}

// URL is the URL of a page, on a port of loopback.
func URL(h, p int, port string) string { return "http://" + net.JoinHostPort(Host(h), port) + Path(p) }

// page is one response in the parts that it is written in; most parts are
// shared between pages.
type page struct {
	head, own, menu, text []byte
	id                    int
}

// site is all of the web.
type site struct {
	cfg   Config
	hosts map[string]map[string]*page
}

// words of the text; their shares are uneven as in real text.
var words = []string{
	"the", "of", "and", "to", "in", "a", "is", "that", "for", "it", "spider", "web", "thread", "silk", "queue", "host",
	"page", "archive", "record", "link", "address", "server", "document", "section", "figure", "table", "between",
	"however", "because", "without", "different", "several", "important", "information", "available", "following",
	"number", "system", "example", "language", "function", "returns", "argument", "default", "character", "encoding",
	"Würde", "naïve", "façade", "größer", "straße", "élan",
}

// text makes prose with markup that compresses about as real pages do.
func text(rng *rand.Rand, size int) []byte {
	var b bytes.Buffer
	for b.Len() < size {
		fmt.Fprintf(&b, "<div class=\"c%d\" id=\"i%x\"><h3>%s %s</h3>\n<p>", rng.IntN(9), rng.Uint32(), words[rng.IntN(len(words))], words[rng.IntN(len(words))])
		for range 30 + rng.IntN(60) {
			w := words[min(rng.IntN(len(words)), rng.IntN(len(words)))]
			b.WriteString(w)
			switch rng.IntN(20) {
			case 0:
				b.WriteString(", ")
			case 1:
				b.WriteString(". ")
			case 2:
				fmt.Fprintf(&b, " <em>%d</em> ", rng.IntN(100000))
			default:
				b.WriteByte(' ')
			}
		}
		b.WriteString("</p></div>\n")
	}
	return b.Bytes()
}

func build(cfg Config, port string) *site {
	cfg = cfg.withDefaults()
	rng := rand.New(rand.NewPCG(cfg.Seed, 42))
	s := &site{cfg: cfg, hosts: make(map[string]map[string]*page, cfg.Hosts)}
	texts := make([][]byte, 32)
	for i := range texts {
		texts[i] = text(rng, cfg.PageBytes)
	}
	menuLinks := cfg.Links * 7 / 10
	for h := range cfg.Hosts {
		var menu bytes.Buffer
		menu.WriteString("<nav>\n<ul>\n")
		for i := range menuLinks {
			fmt.Fprintf(&menu, "<li><a class=\"m\" href=\"%s\">Section %d</a></li>\n", Path(i*cfg.Pages/menuLinks), i)
		}
		menu.WriteString("</ul>\n</nav>\n")
		pages := make(map[string]*page, cfg.Pages)
		for p := range cfg.Pages {
			pages[Path(p)] = s.page(rng, h, p, port, menuLinks, menu.Bytes(), texts)
		}
		s.hosts[Host(h)] = pages
	}
	return s
}

// page makes one page. The links of its own are the two that make every page
// reachable, pages by chance and other hosts.
func (s *site) page(rng *rand.Rand, h, p int, port string, menuLinks int, menu []byte, texts [][]byte) *page {
	cfg := s.cfg
	var own bytes.Buffer
	fmt.Fprintf(&own, "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>Page %d of host %d</title></head>\n<body>\n<div class=\"related\">\n", p, h)
	left := cfg.Links - menuLinks
	link := func(href string) {
		if left > 0 {
			fmt.Fprintf(&own, "<a href=\"%s\">see %x</a>\n", href, rng.Uint32())
			left--
		}
	}
	for _, c := range []int{2*p + 1, 2*p + 2} {
		if c < cfg.Pages {
			link(Path(c))
		}
	}
	link(URL((h+1)%cfg.Hosts, 0, port))
	for range 2 {
		link(URL(rng.IntN(cfg.Hosts), rng.IntN(cfg.Pages), port))
	}
	for left > 0 {
		link(Path(rng.IntN(cfg.Pages)))
	}
	own.WriteString("</div>\n")
	room := max(cfg.PageBytes-own.Len()-len(menu), 0)
	t := texts[rng.IntN(len(texts))]
	pg := &page{own: own.Bytes(), menu: menu, text: t[:min(room, len(t))], id: h*cfg.Pages + p}
	length := len(pg.own) + len(pg.menu) + len(pg.text)
	pg.head = []byte("HTTP/1.1 200 OK\r\nServer: bench\r\nDate: Mon, 30 Nov 2026 12:00:00 GMT\r\nContent-Type: text/html; charset=utf-8\r\nLast-Modified: Sun, 01 Nov 2026 08:00:00 GMT\r\nContent-Length: " + strconv.Itoa(length) + "\r\n\r\n")
	return pg
}
