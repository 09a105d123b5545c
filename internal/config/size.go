package config

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Size is a number of bytes. In settings it is written with a unit, "10MiB" or
// "1GB", or as a plain number of bytes.
type Size int64

// Units of Size.
const (
	KiB Size = 1 << 10
	MiB Size = 1 << 20
	GiB Size = 1 << 30
	TiB Size = 1 << 40
)

// sizeUnits are the units that ParseSize knows and FormatSize prefers, largest
// first among those of a kind, binary before decimal.
var sizeUnits = []struct {
	name string
	n    Size
}{
	{"PiB", 1 << 50}, {"TiB", TiB}, {"GiB", GiB}, {"MiB", MiB}, {"KiB", KiB},
	{"PB", 1e15}, {"TB", 1e12}, {"GB", 1e9}, {"MB", 1e6}, {"kB", 1e3},
	{"B", 1},
}

// ParseSize reads "512", "512B", "64kB", "10MiB", "1.5 GB". Units are read in
// any case: kB, MB, GB, TB, PB are powers of 1000, KiB to PiB of 1024. A bare
// "10M" is refused, because it is read both ways.
func ParseSize(s string) (Size, error) {
	text := strings.TrimSpace(s)
	i := 0
	for i < len(text) && (text[i] >= '0' && text[i] <= '9' || text[i] == '.' || text[i] == '_') {
		i++
	}
	number, unit := strings.ReplaceAll(text[:i], "_", ""), strings.TrimSpace(text[i:])
	if number == "" {
		return 0, fmt.Errorf("size %q: must be a number with a unit, such as 10MiB or 1GB", s)
	}
	factor := Size(1)
	if unit != "" {
		factor = 0
		for _, u := range sizeUnits {
			if strings.EqualFold(u.name, unit) {
				factor = u.n
			}
		}
		if factor == 0 {
			if len(unit) == 1 && strings.ContainsAny(unit, "kKmMgGtTpP") {
				up := strings.ToUpper(unit)
				return 0, fmt.Errorf("size %q: write %s%sB (powers of 1000) or %s%siB (powers of 1024)", s, number, up, number, up)
			}
			return 0, fmt.Errorf("size %q: unknown unit %q, must be B, kB, MB, GB, TB, KiB, MiB, GiB or TiB", s, unit)
		}
	}
	if whole, err := strconv.ParseInt(number, 10, 64); err == nil {
		if whole > math.MaxInt64/int64(factor) {
			return 0, fmt.Errorf("size %q: too large", s)
		}
		return Size(whole) * factor, nil
	}
	f, err := strconv.ParseFloat(number, 64)
	if err != nil {
		return 0, fmt.Errorf("size %q: %q is not a number", s, number)
	}
	bytes := f * float64(factor)
	if bytes >= math.MaxInt64 {
		return 0, fmt.Errorf("size %q: too large", s)
	}
	return Size(bytes), nil
}

// FormatSize writes a size exactly, with the largest unit that divides it:
// 10485760 is "10MiB", 1000000 is "1MB", 1000001 is "1000001B".
func FormatSize(n Size) string {
	if n == 0 {
		return "0B"
	}
	for _, u := range sizeUnits {
		if n%u.n == 0 {
			return strconv.FormatInt(int64(n/u.n), 10) + u.name
		}
	}
	return strconv.FormatInt(int64(n), 10) + "B"
}

// String is FormatSize.
func (n Size) String() string { return FormatSize(n) }

// MarshalText implements encoding.TextMarshaler.
func (n Size) MarshalText() ([]byte, error) { return []byte(FormatSize(n)), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (n *Size) UnmarshalText(text []byte) error {
	size, err := ParseSize(string(text))
	if err != nil {
		return err
	}
	*n = size
	return nil
}
