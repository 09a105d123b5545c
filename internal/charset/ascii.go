package charset

import "encoding/binary"

// chars is text of either form, so that a header's value need not be copied.
type chars interface{ ~string | ~[]byte }

// isSpace is ASCII whitespace (WHATWG Infra, 4.6).
func isSpace(c byte) bool { return c == ' ' || c >= '\t' && c <= '\r' && c != '\v' }

func isLetter(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' }

func isAlnum(c byte) bool { return isLetter(c) || c >= '0' && c <= '9' }

func toLower(c byte) byte {
	if c >= 'A' && c <= 'Z' {
		return c | 0x20
	}
	return c
}

// hasPrefixFold and equalFold take a lower-case word.
func hasPrefixFold[T chars](b T, word string) bool {
	return len(b) >= len(word) && equalFold(b[:len(word)], word)
}

func equalFold[T chars](b T, word string) bool {
	if len(b) != len(word) {
		return false
	}
	for i := range len(b) {
		if toLower(b[i]) != word[i] {
			return false
		}
	}
	return true
}

// firstHigh returns the index of the first byte above 0x7F, len(b) if none.
func firstHigh(b []byte) int {
	const high = 0x8080808080808080
	i := 0
	for ; i+32 <= len(b); i += 32 {
		w := b[i : i+32 : i+32]
		if (binary.LittleEndian.Uint64(w)|binary.LittleEndian.Uint64(w[8:])|
			binary.LittleEndian.Uint64(w[16:])|binary.LittleEndian.Uint64(w[24:]))&high != 0 {
			break
		}
	}
	for ; i < len(b); i++ {
		if b[i] >= 0x80 {
			break
		}
	}
	return i
}
