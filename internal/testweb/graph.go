package testweb

import (
	"fmt"
	"math/rand/v2"
	"time"
)

// Graph describes a site whose pages are all reachable from "/" and link to
// each other at random, the same for the same seed.
type Graph struct {
	// Pages is how many there are, "/" among them.
	Pages int
	// Links is how many links each has, many of them to the same pages.
	Links int
	// Seed makes the choice.
	Seed uint64
	// Delay is how long each page takes.
	Delay time.Duration
	// BodyBytes pads each page to about this size.
	BodyBytes int
}

// Path is the path of a page by its number.
func (g Graph) Path(i int) string {
	if i == 0 {
		return "/"
	}
	return fmt.Sprintf("/%d/page-%d.html", i%10, i)
}

// Fill puts the graph's pages on a host and returns their paths in order.
// Some are chunked, some coded, some close the connection.
func (g Graph) Fill(h *Host) []string {
	rng := rand.New(rand.NewPCG(g.Seed, 1))
	codings := []string{"", "", "", "gzip", "br", "deflate"}
	paths := make([]string, g.Pages)
	for i := range g.Pages {
		paths[i] = g.Path(i)
		links := []string{"/", g.Path(1 % g.Pages), g.Path(2 % g.Pages)}
		// Page i links to 2i+1 and 2i+2, which makes all reachable; the rest
		// is by chance.
		for _, c := range []int{2*i + 1, 2*i + 2} {
			if c < g.Pages {
				links = append(links, g.Path(c))
			}
		}
		for len(links) < g.Links {
			links = append(links, g.Path(rng.IntN(g.Pages))+[]string{"", "#part"}[rng.IntN(2)])
		}
		p := HTML(links...)
		for len(p.Body) < g.BodyBytes {
			p.Body = fmt.Appendf(p.Body, "<p>paragraph %d of page %d, %x</p>\n", len(p.Body), i, rng.Uint64())
		}
		p.Delay = g.Delay
		p.Coding = codings[rng.IntN(len(codings))]
		p.Chunked = rng.IntN(3) == 0
		p.Close = rng.IntN(10) == 0
		h.Page(paths[i], p)
	}
	return paths
}
