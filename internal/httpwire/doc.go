// Package httpwire decodes HTTP/1.x messages from the bytes as they came from
// the wire or lie in an archive: the head, the message framing, the transfer
// coding and the content codings.
//
// It is used where bytes must be understood as browsers understand them and
// yet be kept exactly: by the downloader, which feeds it what a socket gave,
// and by the extractor and the WARC verifier, which hand it stored records.
// Nothing here changes its input; names and values are slices of it.
//
// Two kinds of trouble are kept apart. What a message cannot be read without
// (no status line, two different lengths) is an error. What can be read around
// (bare LF, a body that claims gzip and is plain, a stream cut short) is a
// [Note]: the data is given as far as it goes and the note says what it was.
package httpwire
