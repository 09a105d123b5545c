package progress

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Sanitise makes text from the web safe for a terminal and for one line: control
// characters, direction marks and broken UTF-8 become visible or go away.
func Sanitise(s string) string {
	clean := true
	for i := 0; i < len(s) && clean; i++ {
		clean = s[i] >= ' ' && s[i] < 0x7f
	}
	if clean {
		return s
	}
	var b strings.Builder
	for len(s) > 0 {
		r, n := utf8.DecodeRuneInString(s)
		switch {
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&b, `\x%02x`, s[0])
		case r == '\t' || r == '\n' || r == '\r':
			b.WriteByte(' ')
		case r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0:
			fmt.Fprintf(&b, `\x%02x`, r)
		case unicode.Is(unicode.Cf, r) || unicode.Is(unicode.Zl, r) || unicode.Is(unicode.Zp, r):
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteRune(r)
		}
		s = s[n:]
	}
	return b.String()
}

// Cut shortens text to at most width columns of a terminal, as far as one
// character is one column.
func Cut(s string, width int) string {
	if width <= 0 || utf8.RuneCountInString(s) <= width {
		return s
	}
	r := []rune(s)
	return string(r[:max(0, width-1)]) + "…"
}

// Count writes a number with thousands apart.
func Count(n uint64) string {
	s := strconv.FormatUint(n, 10)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// Bytes writes a number of bytes in the unit that fits, decimal.
func Bytes(n float64) string {
	const units = "kMGTPE"
	if n < 1000 {
		return fmt.Sprintf("%.0f B", n)
	}
	i := -1
	for n >= 999.95 && i < len(units)-1 {
		n /= 1000
		i++
	}
	return fmt.Sprintf("%.1f %cB", n, units[i])
}

// Rate writes a number a second with as many digits as mean something.
func Rate(n float64) string {
	if n >= 100 {
		return Count(uint64(n + 0.5))
	}
	return strconv.FormatFloat(n, 'f', 1, 64)
}

// Elapsed writes a duration in whole seconds; below ten with a tenth.
func Elapsed(d time.Duration) string {
	if d < 10*time.Second {
		return d.Round(100 * time.Millisecond).String()
	}
	return d.Round(time.Second).String()
}
