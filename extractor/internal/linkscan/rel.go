package linkscan

// Rel is a set of link types.
type Rel uint32

// The link types that are told apart; RelOther stands for any other, so that
// Rel is zero only where there is none. noopener, noreferrer and external say
// nothing to a crawler and are left out.
const (
	RelNofollow Rel = 1 << iota // nofollow
	RelUGC
	RelSponsored
	RelCanonical
	RelAlternate
	RelFeed // alternate (or feed) with the type of RSS, Atom or JSON Feed
	RelNext
	RelPrev
	RelStylesheet
	RelPreload // preload, modulepreload
	RelPrefetch
	RelIcon // icon, apple-touch-icon, mask-icon
	RelManifest
	RelHint // dns-prefetch, preconnect, pingback: an address, no document
	RelAuthor
	RelLicense
	RelSearch
	RelAMP
	RelShortlink
	RelSitemap
	RelOther

	relResource = RelStylesheet | RelPreload | RelIcon | RelManifest
)

var relTable = newNameTable(7, map[string]Rel{
	"nofollow": RelNofollow, "ugc": RelUGC, "sponsored": RelSponsored, "canonical": RelCanonical, "alternate": RelAlternate,
	"feed": RelFeed, "next": RelNext, "prev": RelPrev, "previous": RelPrev, "stylesheet": RelStylesheet, "preload": RelPreload,
	"modulepreload": RelPreload, "prefetch": RelPrefetch, "prerender": RelPrefetch, "icon": RelIcon,
	"apple-touch-icon": RelIcon, "apple-touch-icon-precomposed": RelIcon, "mask-icon": RelIcon, "manifest": RelManifest,
	"dns-prefetch": RelHint, "preconnect": RelHint, "pingback": RelHint, "author": RelAuthor, "license": RelLicense,
	"search": RelSearch, "amphtml": RelAMP, "shortlink": RelShortlink, "sitemap": RelSitemap,
	"noopener": 0, "noreferrer": 0, "external": 0,
})

// parseRel reads the space-separated link types of a rel attribute.
func parseRel(v []byte) Rel {
	var r Rel
	for i := 0; i < len(v); {
		if class[v[i]]&clsSpace != 0 {
			i++
			continue
		}
		start, key := i, uint64(0)
		for i < len(v) && class[v[i]]&clsSpace == 0 {
			key = key<<8 | uint64(lower[v[i]])
			i++
		}
		if f := relTable.find(key, v[start:i]); f != nil {
			r |= *f
		} else {
			r |= RelOther
		}
	}
	return r
}

// withType adds RelFeed to an alternate whose type is that of a feed.
func (r Rel) withType(t []byte) Rel {
	if r&RelAlternate != 0 && r&RelStylesheet == 0 {
		t = trimSpace(t)
		for _, f := range [...]string{"application/rss+xml", "application/atom+xml", "application/feed+json", "application/json+feed"} {
			if hasPrefixFold(t, f) && (len(t) == len(f) || t[len(f)] == ';' || class[t[len(f)]]&clsSpace != 0) {
				return r | RelFeed
			}
		}
	}
	return r
}

// linkKind says what a link element or Link header with these types is: nothing
// to fetch (ok is false), a resource, or a document. Without a link type there
// is no link (HTML 4.2.4, RFC 8288 3.3).
func (r Rel) linkKind() (k Kind, ok bool) {
	switch {
	case r&^RelHint == 0:
		return 0, false
	case r&relResource != 0:
		return Embed, true
	}
	return Navigate, true
}

func trimSpace(b []byte) []byte {
	for len(b) > 0 && class[b[0]]&clsSpace != 0 {
		b = b[1:]
	}
	for len(b) > 0 && class[b[len(b)-1]]&clsSpace != 0 {
		b = b[:len(b)-1]
	}
	return b
}
