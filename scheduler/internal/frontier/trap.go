package frontier

import (
	"fmt"
	"strings"
	"time"

	"github.com/zeebo/xxh3"

	crawlv1 "lycosa.dev/proto/gen/lycosa/crawl/v1"
	jobv1 "lycosa.dev/proto/gen/lycosa/job/v1"
)

// Sites without end make URLs faster than they can be fetched: folders within
// themselves, queries that grow, calendars. Rules of the job judge each new URL
// by itself, and by what its host and path have shown so far. What a rule keeps
// out is excluded with the rule's name; a seed never is.

const (
	trapSlots = 1 << 15
	// sameInARow is the number of pages with one digest that halves a path's
	// budget of queries.
	sameInARow = 10
	// leastQueries is the least that such a budget becomes.
	leastQueries = 50
)

// trapTable remembers what paths and hosts have shown. It has a fixed size: of
// two that fall on one slot the later one displaces the earlier, so that it
// forgets and never invents. It is not kept on disk.
type trapTable struct{ slots []trapSlot }

type trapSlot struct {
	key     uint64
	queries uint32 // new URLs
	halved  uint8  // times that the budget was halved
	same    uint8  // pages in a row with one digest
	digest  uint32
	misses  uint32 // speculative links
	hits    uint32
}

func (t *trapTable) slot(j *job, kind byte, name string) *trapSlot {
	if t.slots == nil {
		t.slots = make([]trapSlot, trapSlots)
	}
	key := xxh3.HashStringSeed(name, j.secret+uint64(kind)) | 1
	s := &t.slots[key%trapSlots]
	if s.key != key {
		*s = trapSlot{key: key}
	}
	return s
}

// over tells whether a rule is on and v is above its limit.
func over(limit *uint32, v int) bool { return limit != nil && *limit > 0 && v > int(*limit) }

// trap is the rule that keeps a new URL out; empty: none.
func (f *Frontier) trap(j *job, host string, e *entry, now time.Time) string {
	t := j.spec.GetTraps()
	if t == nil || t.GetOff() || e.seed {
		return ""
	}
	if over(t.MaxRedirects, int(e.redirects)) {
		return fmt.Sprintf("trap: redirects: more than %d in a row", t.GetMaxRedirects())
	}
	path, query, hasQuery := strings.Cut(pathOf(e.url), "?")
	if why := pathTrap(t, path); why != "" {
		return why
	}
	if hasQuery && over(t.MaxQueryParameters, strings.Count(query, "&")+1) {
		return fmt.Sprintf("trap: query-parameters: more than %d", t.GetMaxQueryParameters())
	}
	if n := int(t.GetCalendarYears()); n > 0 {
		if year := farYear(path, now.Year()-n, now.Year()+n); year != 0 {
			return fmt.Sprintf("trap: calendar: the year %d is more than %d years away", year, n)
		}
		if year := farYear(query, now.Year()-n, now.Year()+n); year != 0 {
			return fmt.Sprintf("trap: calendar: the year %d is more than %d years away", year, n)
		}
	}
	if why := f.guessTrap(j, host, e); why != "" {
		return why
	}
	if budget := t.GetMaxQueriesOfPath(); hasQuery && budget > 0 {
		s := f.traps.slot(j, 'q', host+path)
		if b := max(budget>>min(s.halved, 31), min(budget, leastQueries)); s.queries >= b {
			return fmt.Sprintf("trap: queries-of-path: more than %d of %s", b, path)
		}
		s.queries++
	}
	return ""
}

// guessTrap keeps out a speculative link of a host of which nearly all miss. It
// is asked again before a lease: what was queued is judged by what came since.
func (f *Frontier) guessTrap(j *job, host string, e *entry) string {
	if !strings.HasSuffix(e.hop, "X") || e.seed {
		return ""
	}
	t := j.spec.GetTraps()
	if t == nil || t.GetOff() || t.GetMaxMisses() == 0 {
		return ""
	}
	if s := f.traps.slot(j, 'x', host); s.misses >= t.GetMaxMisses() && s.hits*10 < s.misses {
		return fmt.Sprintf("trap: speculative: %d of %d such links of the host missed", s.misses, s.misses+s.hits)
	}
	return ""
}

// pathTrap judges a path by itself.
func pathTrap(t *jobv1.Traps, path string) string {
	segments := strings.Split(strings.Trim(path, "/"), "/")
	if over(t.MaxPathSegments, len(segments)) {
		return fmt.Sprintf("trap: path-segments: more than %d", t.GetMaxPathSegments())
	}
	if most := int(t.GetMaxRepeats()); most > 0 {
		if group := repeats(segments, most); group != "" {
			return fmt.Sprintf("trap: repeating-path: %q more than %d times", group, most)
		}
	}
	return ""
}

// repeats finds a group of segments that comes more than most times in a row.
func repeats(segments []string, most int) string {
	for n := 1; n*(most+1) <= len(segments); n++ {
		same := 0 // segments that equal the one n before, in a row
		for i := n; i < len(segments); i++ {
			if segments[i] != segments[i-n] {
				same = 0
				continue
			}
			if same++; same >= n*most {
				return strings.Join(segments[i-n+1:i+1], "/")
			}
		}
	}
	return ""
}

// farYear finds a year from 1000 on, followed by a month (2031/02, 2031-02), that
// lies outside of first to last; 0: none.
func farYear(s string, first, last int) int {
	digits := func(i, n int) int {
		v := 0
		for k := range n {
			if i+k >= len(s) || s[i+k] < '0' || s[i+k] > '9' {
				return -1
			}
			v = v*10 + int(s[i+k]-'0')
		}
		return v
	}
	for i := 0; i+6 < len(s)+1; i++ {
		if i > 0 && s[i-1] >= '0' && s[i-1] <= '9' {
			continue
		}
		year := digits(i, 4)
		if year < 1000 || i+4 >= len(s) || s[i+4] != '/' && s[i+4] != '-' {
			continue
		}
		month := digits(i+5, 2)
		if month < 0 {
			month = digits(i+5, 1)
		}
		if month >= 1 && month <= 12 && digits(i+5, 3) < 0 && (year < first || year > last) {
			return year
		}
	}
	return 0
}

// learn takes what a page shows of its path and host.
func (f *Frontier) learn(j *job, host string, e *entry, out *crawlv1.Outcome) {
	t := j.spec.GetTraps()
	if t == nil || t.GetOff() {
		return
	}
	status := out.GetFetch().GetStatus()
	if strings.HasSuffix(e.hop, "X") && status != 0 {
		s := f.traps.slot(j, 'x', host)
		if status == 404 || status == 410 {
			s.misses++
		} else if status < 400 {
			s.hits++
		}
	}
	path, _, hasQuery := strings.Cut(pathOf(e.url), "?")
	if !hasQuery || status != 200 || out.GetPayloadDigest() == "" {
		return
	}
	s := f.traps.slot(j, 'q', host+path)
	digest := uint32(xxh3.HashString(out.GetPayloadDigest()))
	if s.digest != digest {
		s.digest, s.same = digest, 1
		return
	}
	if s.same++; s.same == sameInARow {
		s.same = 0
		s.halved = min(s.halved+1, 31)
	}
}
