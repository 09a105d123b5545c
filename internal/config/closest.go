package config

import "strings"

// Closest returns the candidate that name was probably meant to be: the one at
// the smallest edit distance, if that is small for the length of the name, else
// "". Case and the signs "-", "_" and "." do not count, so "maxDepth" is close
// to "max_depth". Of equally close ones the first wins.
func Closest(name string, candidates []string) string {
	plain := plainName(name)
	if plain == "" {
		return ""
	}
	// One slip in a short name, one in every three letters of a long one.
	limit := max(1, len(plain)/3)
	best, bestDistance := "", limit+1
	for _, c := range candidates {
		if d := editDistance(plain, plainName(c), bestDistance); d < bestDistance {
			best, bestDistance = c, d
		}
	}
	return best
}

func plainName(s string) string {
	return strings.NewReplacer("-", "", "_", "", ".", "").Replace(strings.ToLower(s))
}

// editDistance counts insertions, deletions, substitutions and swaps of
// neighbours (optimal string alignment); at limit or beyond it may stop and
// return limit.
func editDistance(a, b string, limit int) int {
	if d := len(a) - len(b); d >= limit || -d >= limit {
		return limit
	}
	before := make([]int, len(b)+1)
	prev := make([]int, len(b)+1)
	cur := make([]int, len(b)+1)
	for j := range prev {
		prev[j] = j
	}
	for i := 1; i <= len(a); i++ {
		cur[0] = i
		least := i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			d := min(prev[j]+1, cur[j-1]+1, prev[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				d = min(d, before[j-2]+1)
			}
			cur[j] = d
			least = min(least, d)
		}
		if least >= limit {
			return limit
		}
		before, prev, cur = prev, cur, before
	}
	return prev[len(b)]
}
