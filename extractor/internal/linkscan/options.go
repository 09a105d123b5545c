package linkscan

import "lycosa.dev/internal/charset"

// Kinds is the set of places where links are looked for.
type Kinds uint32

// The places. Zero in [Options] means [Default].
const (
	Anchors       Kinds = 1 << iota // a and area; a of SVG
	Frames                          // frame, iframe
	LinkPages                       // link elements that lead to documents (canonical, alternate, next ...)
	LinkResources                   // link elements that load something (stylesheet, icon, preload, manifest)
	Images                          // img, srcset, picture's source, input type=image, background, SVG image, use and feImage
	Scripts                         // script
	Media                           // audio, video with poster, track, source with src
	Objects                         // embed, object
	Refresh                         // meta http-equiv=refresh
	CSS                             // url() and @import of style elements and style attributes
	Forms                           // action of forms with method GET, formaction
	Data                            // data-* attributes whose names end like a link's (src, srcset, url, href ...)
	Cites                           // cite of blockquote, q, ins and del; longdesc
	Conditional                     // the inside of conditional comments: <!--[if IE]> ... <![endif]-->
	NoLinks                         // nothing but what Doc holds

	// Navigation is what leads from page to page.
	Navigation = Anchors | Frames | LinkPages | Refresh
	// Resources is what a page loads to be shown.
	Resources = LinkResources | Images | Scripts | Media | Objects | CSS
	// Default is both.
	Default = Navigation | Resources
)

// Defaults of Options.
const (
	DefaultMaxURLBytes   = 16 << 10
	DefaultMaxTokenBytes = 1 << 20
)

// Options say what to look for. The zero value looks for [Default] in UTF-8.
type Options struct {
	// Kinds is the set of places. Zero means Default.
	Kinds Kinds
	// Charset is the document's encoding where it is not UTF-8 and keeps ASCII
	// bytes as they are ([charset.Encoding].ASCIICompatible); values are then
	// reported in UTF-8. Other documents are converted before.
	Charset *charset.Encoding
	// Scripting makes noscript raw text, as in a browser that runs scripts.
	Scripting bool
	// RobotsNames are the names of meta elements, beside "robots", whose
	// content [Doc].Robots holds; lower case.
	RobotsNames []string
	// MaxURLBytes bounds a reported URL; longer ones are counted in
	// [Doc].TooLong. Zero means DefaultMaxURLBytes.
	MaxURLBytes int
	// MaxTokenBytes bounds what Feed keeps of an unfinished tag or style
	// element. Zero means DefaultMaxTokenBytes.
	MaxTokenBytes int
}

func (o Options) withDefaults() Options {
	if o.Kinds == 0 {
		o.Kinds = Default
	}
	if o.MaxURLBytes <= 0 {
		o.MaxURLBytes = DefaultMaxURLBytes
	}
	if o.MaxTokenBytes <= 0 {
		o.MaxTokenBytes = DefaultMaxTokenBytes
	}
	// Below this a kept look-ahead could fill the bound.
	o.MaxTokenBytes = max(o.MaxTokenBytes, 64)
	return o
}
