// Package charset decides in which character encoding a document is written,
// and converts it to UTF-8. It follows the WHATWG Encoding standard (which
// encodings there are and how they are decoded) and the encoding sniffing
// algorithm of the HTML standard (13.2.3.2), in this order: byte order mark,
// Content-Type, meta elements of the first 1024 bytes, XML declaration, meta
// elements further down, what the text looks like, default.
//
// [Decide] says what was found and on what ground; a declaration always wins
// over the looks of the text, as in a browser, and a text that contradicts its
// declaration is only marked ([Decision].Mislabelled). Looks are judged by a
// bounded sample: validity of UTF-8 and of the multi-byte encodings, the
// characters that are frequent in East Asian text, and the letter pairs of the
// languages written with a single-byte encoding.
//
// Beyond the standard, labels with typos are understood (see [Lookup]), and
// IBM855 is known, which old feeds declare and browsers do not read.
//
// Everything here but a reader is safe for concurrent use and takes time linear
// in the bytes it is given; a decision on what is declared allocates nothing.
package charset
