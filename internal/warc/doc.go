// Package warc writes, reads and verifies WARC 1.1 files (ISO 28500:2017), one
// gzip member a record.
//
// # Writing
//
// A [Writer] owns a folder's files of one job. [Writer.Write] takes the records
// of one page and returns when they are on stable storage. Compression runs in
// the calling goroutine with one of a few pooled compressors, about as many as
// there are cores: a deflate state is hundreds of kilobytes of tables, and one a caller
// would trade the processor's cache for nothing. The compressed records of all
// callers are appended in order by one of the callers, the leader, which makes
// one write and one fsync for everyone who waits; who comes meanwhile is the
// next batch, and its first caller the next leader. The Writer therefore has no
// goroutine of its own.
//
// The invariant: what Write has acknowledged is never lost, whatever happens
// afterwards. A failed write or fsync cuts the file back to the last durable
// record, closes it, and fails every waiting caller; the next Write starts a
// new file. A process that dies leaves a file with the suffix .open, possibly
// with a torn record at its end; [Open] cuts it after the last complete member
// and gives it its final name. Cut bytes are not kept: no one was told that
// they were stored. Where complete records follow damaged bytes, nothing before
// the last complete record is cut, so offsets handed out stay true; the damage
// is reported.
//
// # Digests
//
// WARC-Payload-Digest is the SHA-1 of the payload as sections 5.9 and 6.3.2 of
// the standard define it: the body with its transfer coding (chunk framing)
// removed and its content coding (gzip, br) kept; the block itself holds the
// exact bytes, framing included. Some tools take the digest over the framed
// body instead; [Verify] recognises that and only warns. A response whose chunk
// framing is broken gets no payload digest, for its payload is not defined.
//
// WARC-Block-Digest is optional. A record with a payload digest has none by
// default: hashing the same 20 KB twice costs 12 µs a page, and the member's
// CRC-32 guards the bytes already. Records without a payload (request,
// metadata, warcinfo, revisit) have one.
//
// # Reading
//
// [Reader] yields the records of a .warc or .warc.gz file with their offsets and
// goes on after damage. [Verify] checks a file and reports everything that is
// wrong with it.
package warc
