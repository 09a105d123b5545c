// Package linkscan finds the links of a page: in HTML, in style sheets and in
// HTTP headers. It is the link scanner of the hot path: one pass over the bytes
// where they lie, no tree, and no allocation for a page whose attribute values
// need no decoding.
//
// # What it follows
//
// Bytes are cut into tokens as the WHATWG HTML tokenizer cuts them (comments,
// raw text elements, the escaped states of a script, quoting, duplicate
// attributes, character references in attribute values), including the part
// that depends on the tree: a small stack of open elements exists while the
// scanner is inside SVG or MathML, where CDATA sections are text and no element
// is raw. Everything else of tree construction is left out: a link that tree
// construction would drop (an anchor in a frameset, a frame outside one) is
// reported. Two places of the stack are approximations: an end tag inside SVG
// that matches nothing since the outermost svg is taken to close an element
// around it, and implied end tags inside foreignObject are known only for
// neighbours of one name.
//
// Scripts do not run here, so noscript is parsed as markup unless
// [Options].Scripting is set. Links inside template elements are reported and
// marked [Link].Inert; a base, robots or refresh in one is not.
//
// # Resolution
//
// URLs are reported as written (decoded, not resolved, not trimmed), because
// the base element applies to all links of the document, also to those before
// it. [Doc].Base is known at the end. The caller resolves Base against the
// document's URL, falls back to that URL when Base does not parse or is a data:
// or javascript: URL, and resolves the links against the result. The query of a
// URL is encoded in the document's encoding (weburl.Resolver.SetCharset with
// [charset.Encoding].Name).
//
// # Ownership and memory
//
// A [Scanner] is reused page after page by one goroutine. Scan and Collect work
// on a document in memory. Begin, Feed and End take it in chunks and hold at
// most Options.MaxTokenBytes of an unfinished tag or style element beside the
// chunk: comments, scripts and text are passed over as they come. A tag larger
// than that gives the links of the attributes that fitted, and is then passed
// over.
package linkscan
