package linkscan

import "bytes"

// nextCandidate takes the next image candidate off a srcset value (HTML
// 4.8.4.4.6, parse a srcset attribute). u is empty for a candidate whose
// descriptors are wrong; ok is false at the end.
func nextCandidate(v []byte) (u, rest []byte, ok bool) {
	for len(v) > 0 && (class[v[0]]&clsSpace != 0 || v[0] == ',') {
		v = v[1:]
	}
	if len(v) == 0 {
		return nil, nil, false
	}
	i := 0
	for i < len(v) && class[v[i]]&clsSpace == 0 {
		i++
	}
	u, rest = v[:i:i], v[i:]
	if u[len(u)-1] == ',' {
		return bytes.TrimRight(u, ","), rest, true
	}
	var d descriptors
	start, parens := -1, false
	for i = 0; ; i++ {
		if i == len(rest) || rest[i] == ',' && !parens {
			if start >= 0 {
				d.add(rest[start:i])
			}
			rest = rest[min(i+1, len(rest)):]
			break
		}
		switch c := rest[i]; {
		case parens:
			parens = c != ')'
		case class[c]&clsSpace != 0:
			if start >= 0 {
				d.add(rest[start:i])
				start = -1
			}
		default:
			if start < 0 {
				start = i
			}
			parens = c == '('
		}
	}
	if !d.ok() {
		u = nil
	}
	return u, rest, true
}

// descriptors judges the descriptors of one candidate.
type descriptors struct{ width, density, height, wrong bool }

func (d *descriptors) add(v []byte) {
	n, unit := v[:len(v)-1], v[len(v)-1]
	switch unit {
	case 'w':
		if d.width || d.density || !isPositiveInteger(n) {
			d.wrong = true
		}
		d.width = true
	case 'x':
		if d.width || d.density || d.height || !isDensity(n) {
			d.wrong = true
		}
		d.density = true
	case 'h':
		if d.height || d.density || !isPositiveInteger(n) {
			d.wrong = true
		}
		d.height = true
	default:
		d.wrong = true
	}
}

// A height alone is wrong: it is there for a later standard.
func (d *descriptors) ok() bool { return !d.wrong && (!d.height || d.width) }

func isPositiveInteger(v []byte) bool {
	positive := false
	for _, c := range v {
		if c < '0' || c > '9' {
			return false
		}
		positive = positive || c != '0'
	}
	return positive
}

// isDensity says whether v is a valid floating-point number (HTML 2.3.4.3) that
// is not below zero.
func isDensity(v []byte) bool {
	negative := len(v) > 0 && v[0] == '-'
	if negative {
		v = v[1:]
	}
	digits := func() (n int, zero bool) {
		zero = true
		for n < len(v) && '0' <= v[n] && v[n] <= '9' {
			zero = zero && v[n] == '0'
			n++
		}
		v = v[n:]
		return n, zero
	}
	whole, zero := digits()
	if len(v) > 0 && v[0] == '.' {
		v = v[1:]
		n, z := digits()
		if n == 0 {
			return false
		}
		whole, zero = whole+n, zero && z
	}
	if whole == 0 {
		return false
	}
	if len(v) > 0 && lower[v[0]] == 'e' {
		v = v[1:]
		if len(v) > 0 && (v[0] == '-' || v[0] == '+') {
			v = v[1:]
		}
		if n, _ := digits(); n == 0 {
			return false
		}
	}
	return len(v) == 0 && (!negative || zero)
}
