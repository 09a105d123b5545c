package linkscan

import "time"

// Kind says what following a link means.
type Kind uint8

// The kinds of links.
const (
	Navigate    Kind = iota // leads to another document
	Embed                   // is loaded as part of the page
	Form                    // is where a form goes
	Speculative             // looks like a link, by its attribute's name
)

func (k Kind) String() string {
	return [...]string{"navigate", "embed", "form", "speculative"}[k]
}

// Element is the element (or other place) that a link stands in.
type Element uint8

// The elements. ElementOther is an element that has no name of its own here.
const (
	ElementOther Element = iota
	ElementA
	ElementArea
	ElementAudio
	ElementBase
	ElementBody
	ElementButton
	ElementEmbed
	ElementForm
	ElementFrame
	ElementIFrame
	ElementImage // img, and image of SVG
	ElementInput
	ElementLink
	ElementMeta
	ElementObject
	ElementQuote // blockquote, q, ins, del
	ElementScript
	ElementSource
	ElementStyle
	ElementTable // table and its parts
	ElementTrack
	ElementUse     // use and feImage of SVG
	ElementVideo   //
	ElementHeader  // an HTTP header
	ElementCSSFile // a style sheet scanned by ScanCSS
	elementTemplate
	elementSVG
	elementMath
	elementFont
	elementAnnotationXML
	elementCount
)

var elementNames = [elementCount]string{
	"other", "a", "area", "audio", "base", "body", "button", "embed", "form", "frame", "iframe", "img", "input", "link",
	"meta", "object", "quote", "script", "source", "style", "table", "track", "use", "video", "header", "css",
	"template", "svg", "math", "font", "annotation-xml",
}

func (e Element) String() string { return elementNames[e] }

// Attr is the attribute (or header, or other place) that held the link.
type Attr uint8

// The attributes. The unexported ones are read and never reported.
const (
	AttrHref Attr = iota
	AttrSrc
	AttrSrcset
	AttrAction
	AttrFormAction
	AttrObjectData // data of object
	AttrPoster
	AttrBackground
	AttrCite
	AttrLongdesc
	AttrContent
	AttrXlinkHref
	AttrImageSrcset
	AttrStyle
	attrRel
	attrName
	attrHTTPEquiv
	attrType
	attrMethod
	attrEncoding
	attrFontOnly // color, face, size
	attrSlots    // the number of attributes a tag can hold

	AttrDataset               // a data-* attribute
	AttrText                  // the text of a style element or sheet
	AttrHeaderLocation        // Location
	AttrHeaderContentLocation // Content-Location
	AttrHeaderLink            // Link
	AttrHeaderRefresh         // Refresh
	attrCount
)

var attrNames = [attrCount]string{
	"href", "src", "srcset", "action", "formaction", "data", "poster", "background", "cite", "longdesc", "content",
	"xlink:href", "imagesrcset", "style", "rel", "name", "http-equiv", "type", "method", "encoding", "font", "",
	"data-*", "text", "location", "content-location", "link", "refresh",
}

func (a Attr) String() string { return attrNames[a] }

// Link is one link as it was found.
type Link struct {
	// URL is as written, in UTF-8, character references and CSS escapes
	// decoded; neither resolved nor trimmed. Who owns it is said by the
	// function that reports the link.
	URL     []byte
	Kind    Kind
	Element Element
	Attr    Attr
	// Inert marks a link inside a template element.
	Inert bool
	// Rel holds the link types of the rel attribute or parameter;
	// RelStylesheet also marks @import.
	Rel Rel
}

// Doc is what a document says about itself. Its slices belong to the scanner
// and are valid until the next Begin, Scan or Collect.
type Doc struct {
	// Base is the href of the first base element that has one; HasBase tells an
	// empty one from none.
	Base    []byte
	HasBase bool
	// Canonical is the href of the first link with rel=canonical.
	Canonical []byte
	// Robots are the meta elements named robots or one of Options.RobotsNames,
	// at most 16.
	Robots []MetaRobots
	// Refresh is the first meta refresh that is well formed.
	Refresh    DeclaredRefresh
	HasRefresh bool
	// NoCache is a meta http-equiv=pragma with no-cache.
	NoCache bool
	// TooLong counts URLs over Options.MaxURLBytes, TooLarge the tags and style
	// elements that Feed could not hold whole.
	TooLong, TooLarge int
}

// MetaRobots is the content of one robots meta element. Name is lower case.
type MetaRobots struct{ Name, Content []byte }

// DeclaredRefresh is a meta refresh or a Refresh header. No URL means the
// document itself.
type DeclaredRefresh struct {
	After time.Duration
	URL   []byte
}

// maxRefresh bounds a delay, so that no digits overflow it.
const maxRefresh = 365 * 24 * time.Hour
