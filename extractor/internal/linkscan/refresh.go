package linkscan

import "time"

// parseRefresh reads the content of a meta refresh or a Refresh header: the
// shared declarative refresh steps (HTML 7.4.2.5 in the numbering of 2024). ok
// is false where they give up.
func parseRefresh(v []byte) (d DeclaredRefresh, ok bool) {
	i := 0
	space := func() {
		for i < len(v) && class[v[i]]&clsSpace != 0 {
			i++
		}
	}
	letter := func(c byte) bool {
		if i < len(v) && lower[v[i]] == c {
			i++
			return true
		}
		return false
	}
	space()
	start, seconds := i, time.Duration(0)
	for i < len(v) && '0' <= v[i] && v[i] <= '9' {
		if seconds < maxRefresh/time.Second {
			seconds = seconds*10 + time.Duration(v[i]-'0')
		}
		i++
	}
	if i == start && (i >= len(v) || v[i] != '.') {
		return d, false
	}
	d.After = min(seconds*time.Second, maxRefresh)
	for i < len(v) && (v[i] == '.' || '0' <= v[i] && v[i] <= '9') {
		i++
	}
	if i >= len(v) {
		return d, true
	}
	if c := v[i]; c != ';' && c != ',' && class[c]&clsSpace == 0 {
		return d, false
	}
	space()
	if i < len(v) && (v[i] == ';' || v[i] == ',') {
		i++
	}
	space()
	if i >= len(v) {
		return d, true
	}
	url := v[i:]
	if letter('u') {
		if !letter('r') || !letter('l') {
			d.URL = url
			return d, true
		}
		space()
		if !letter('=') {
			d.URL = url
			return d, true
		}
		space()
	}
	url = v[i:]
	if len(url) > 0 && (url[0] == '"' || url[0] == '\'') {
		quote := url[0]
		url = url[1:]
		for j, c := range url {
			if c == quote {
				url = url[:j]
				break
			}
		}
	}
	d.URL = url
	return d, true
}
