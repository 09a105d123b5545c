package httpwire

import "strings"

// Note is a set of oddities met while decoding. None of them stopped it.
type Note uint64

// The oddities. The first group is about the head, the second about the
// framing, the third about the codings.
const (
	// NoteLeadingBlank: empty lines stood before the status line.
	NoteLeadingBlank Note = 1 << iota
	// NoteOddStatusLine: the status line is not of the form of RFC 9112
	// section 4 (no version, several spaces, no reason and no space).
	NoteOddStatusLine
	// NoteBareLF: at least one line of the head ended in LF alone.
	NoteBareLF
	// NoteFolded: a value was folded over several lines (obs-fold).
	NoteFolded
	// NoteJunkLine: a line without a colon was left out.
	NoteJunkLine
	// NoteBadName: a name was empty (left out) or not a token (kept).
	NoteBadName
	// NoteSpaceBeforeColon: a name was followed by blanks; they are not part of it.
	NoteSpaceBeforeColon
	// NoteNonASCII: a value holds bytes above 0x7F.
	NoteNonASCII
	// NoteControl: a value holds a NUL or a bare CR.
	NoteControl
	// NoteTooManyFields: fields beyond [MaxFields] were left out.
	NoteTooManyFields
	// NoteNoBlankLine: the stored head ended without its empty line.
	NoteNoBlankLine

	// NoteLengthIgnored: both Transfer-Encoding and Content-Length were given;
	// the first counts (RFC 9112 section 6.3).
	NoteLengthIgnored
	// NoteLengthRepeated: the same length was given more than once.
	NoteLengthRepeated
	// NoteNotChunked: the body claims to be chunked and is not; it is used as it is.
	NoteNotChunked
	// NoteChunkLine: a chunk's line had a bare LF or blanks around the size.
	NoteChunkLine
	// NoteChunkTruncated: the chunked body ended before its last chunk.
	NoteChunkTruncated
	// NoteChunkMalformed: the chunk framing broke in the middle; what came before is kept.
	NoteChunkMalformed
	// NoteNoFinalLine: the last chunk was there, the empty line after it was not.
	NoteNoFinalLine
	// NoteExtraBytes: bytes followed the end of the chunked body; they are not part of it.
	NoteExtraBytes

	// NoteMislabelled: a content coding was claimed and the bytes are not of
	// it; the layer was passed through.
	NoteMislabelled
	// NoteOtherCoding: the bytes were of another coding than claimed and were
	// decoded as what they are.
	NoteOtherCoding
	// NoteRawDeflate: "deflate" was given without the zlib wrapper that RFC 9110
	// section 8.4.1.2 asks for.
	NoteRawDeflate
	// NoteUnknownCoding: a coding that is not known was passed through.
	NoteUnknownCoding
	// NoteTooManyCodings: more layers than [Limits.MaxCodings]; the outer ones were undone.
	NoteTooManyCodings
	// NoteDecodeTruncated: the compressed data ended early; what could be decoded is kept.
	NoteDecodeTruncated
	// NoteDecodeError: the compressed data is corrupt; what could be decoded is kept.
	NoteDecodeError
	// NoteChecksum: the data decoded and its checksum is wrong.
	NoteChecksum
	// NoteTrailingGarbage: bytes that are no further member followed the compressed data.
	NoteTrailingGarbage
	// NoteSizeLimit: the decoded body was cut at [Limits.MaxBytes].
	NoteSizeLimit
	// NoteRatioLimit: the decoded body was cut at [Limits.MaxRatio].
	NoteRatioLimit
)

var noteNames = []string{
	"leading-blank", "odd-status-line", "bare-lf", "folded", "junk-line", "bad-name",
	"space-before-colon", "non-ascii", "control", "too-many-fields", "no-blank-line",
	"length-ignored", "length-repeated", "not-chunked", "chunk-line", "chunk-truncated",
	"chunk-malformed", "no-final-line", "extra-bytes",
	"mislabelled", "other-coding", "raw-deflate", "unknown-coding", "too-many-codings",
	"decode-truncated", "decode-error", "checksum", "trailing-garbage", "size-limit", "ratio-limit",
}

// Has reports whether any of the notes in m is in n.
func (n Note) Has(m Note) bool { return n&m != 0 }

// Incomplete reports whether the body is known to be less than what was sent:
// cut, broken, or stopped at a limit.
func (n Note) Incomplete() bool {
	return n.Has(NoteChunkTruncated | NoteChunkMalformed | NoteDecodeTruncated | NoteDecodeError | NoteSizeLimit | NoteRatioLimit)
}

// Names returns the notes as words, in a fixed order; they are what logs and
// annotations show.
func (n Note) Names() []string {
	var out []string
	for i, name := range noteNames {
		if n&(1<<i) != 0 {
			out = append(out, name)
		}
	}
	return out
}

// String returns the names joined by commas.
func (n Note) String() string { return strings.Join(n.Names(), ",") }
