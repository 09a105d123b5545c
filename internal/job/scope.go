package job

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"lycosa.dev/internal/weburl"
	jobv1 "lycosa.dev/proto/gen/lycosa/job/v1"
)

// Hops are the letters of a hop path (design section 3).
const (
	HopLink         = 'L'
	HopRedirect     = 'R'
	HopEmbed        = 'E'
	HopSpeculative  = 'X'
	HopPrerequisite = 'P'
	HopSitemap      = 'M'
	HopFeed         = 'F'
	HopSeedRedirect = 'S'
)

// DepthAdded is what one hop adds to the link depth: links, speculative links,
// feeds and the pages that a sitemap lists are one further from the seed;
// redirects and embeds belong to the page that led to them. A sitemap file
// itself (found in robots.txt or in a sitemap index) adds none: its caller
// passes HopPrerequisite.
func DepthAdded(hop byte) uint32 {
	switch hop {
	case HopLink, HopSpeculative, HopFeed, HopSitemap:
		return 1
	}
	return 0
}

// AppendHop adds a hop to a path and keeps its last MaxHopPath letters.
func AppendHop(path string, hop byte) string {
	path += string(rune(hop))
	return path[max(0, len(path)-MaxHopPath):]
}

// Verdict is what the scope says of a URL.
type Verdict struct {
	// In is whether the URL belongs to the crawl.
	In bool
	// Rule names the rule that decided, for people ("scope host",
	// "exclude /private/").
	Rule string
}

// Scope judges canonical URLs by the rules of a spec. It is immutable and safe
// for concurrent use; a change of the spec or of its roots makes a new one.
type Scope struct {
	kind         jobv1.ScopeKind
	roots        map[string]bool // page: URLs; host: host keys; domain: registrable domains
	prefixes     []string        // prefix: without scheme
	include      []*regexp.Regexp
	exclude      []*regexp.Regexp
	requisites   bool
	maxURLLength int
	kindRule     string
	outRule      string
}

// NewScope compiles the scope of an effective spec. roots are the canonical
// URLs that the scope is relative to: the seeds and where their redirects lead
// (JobSpec.scope_roots).
func NewScope(spec *jobv1.Spec, roots []string) (*Scope, error) {
	s := &Scope{
		kind:         spec.GetScope().GetKind(),
		roots:        map[string]bool{},
		requisites:   spec.GetScope().GetPageRequisites(),
		maxURLLength: int(spec.GetLimits().GetMaxUrlLength()),
	}
	if s.kind == jobv1.ScopeKind_SCOPE_KIND_UNSPECIFIED {
		s.kind = jobv1.ScopeKind_SCOPE_KIND_HOST
	}
	if s.maxURLLength == 0 {
		s.maxURLLength = DefaultMaxURLLength
	}
	name := enumName(s.kind.Descriptor().Values().ByNumber(s.kind.Number()))
	s.kindRule, s.outRule = "scope "+name, "outside scope "+name
	for _, root := range roots {
		u, err := weburl.ParseCanonical(root)
		if err != nil {
			return nil, fmt.Errorf("scope root %q: %w", root, err)
		}
		s.addRoot(u)
	}
	for _, re := range spec.GetScope().GetInclude() {
		c, err := regexp.Compile(re)
		if err != nil {
			return nil, fmt.Errorf("scope.include: %w", err)
		}
		s.include = append(s.include, c)
	}
	for _, re := range spec.GetScope().GetExclude() {
		c, err := regexp.Compile(re)
		if err != nil {
			return nil, fmt.Errorf("scope.exclude: %w", err)
		}
		s.exclude = append(s.exclude, c)
	}
	return s, nil
}

func (s *Scope) addRoot(u weburl.URL) {
	key := rootKey(s.kind, u)
	if s.kind == jobv1.ScopeKind_SCOPE_KIND_PREFIX {
		s.prefixes = append(s.prefixes, key)
	} else {
		s.roots[key] = true
	}
}

// rootKey is what a root adds to a scope.
func rootKey(kind jobv1.ScopeKind, u weburl.URL) string {
	switch kind {
	case jobv1.ScopeKind_SCOPE_KIND_ANY:
		return "any"
	case jobv1.ScopeKind_SCOPE_KIND_PAGE:
		return schemeless(u)
	case jobv1.ScopeKind_SCOPE_KIND_PREFIX:
		text := schemeless(u)
		if q := strings.IndexByte(text, '?'); q >= 0 {
			text = text[:q]
		}
		return text[:strings.LastIndexByte(text, '/')+1]
	case jobv1.ScopeKind_SCOPE_KIND_DOMAIN:
		return u.RegistrableDomain()
	}
	return u.HostKey()
}

// RootKey is what a canonical URL adds to the scope of a spec as a root: roots
// of one key make the same scope, so that one of them is enough to keep. A URL
// that does not parse is its own key.
func RootKey(spec *jobv1.Spec, root string) string {
	u, err := weburl.ParseCanonical(root)
	if err != nil {
		return root
	}
	return rootKey(spec.GetScope().GetKind(), u)
}

// schemeless is a URL without "http:" or "https:": a scope is the same for
// both.
func schemeless(u weburl.URL) string {
	text := u.String()
	return text[len(u.Scheme())+1:]
}

// Judge says whether the canonical URL u belongs to the crawl. embed is true
// for what a page embeds; parentIn is whether that page is itself in scope by
// its kind and not as a requisite.
func (s *Scope) Judge(u weburl.URL, embed, parentIn bool) Verdict {
	text := u.String()
	if len(text) > s.maxURLLength {
		return Verdict{Rule: "max_url_length " + strconv.Itoa(s.maxURLLength)}
	}
	for _, re := range s.exclude {
		if re.MatchString(text) {
			return Verdict{Rule: "exclude " + re.String()}
		}
	}
	if !s.kindAccepts(u) {
		if embed && parentIn && s.requisites {
			return Verdict{In: true, Rule: "page requisite"}
		}
		return Verdict{Rule: s.outRule}
	}
	if len(s.include) == 0 {
		return Verdict{In: true, Rule: s.kindRule}
	}
	for _, re := range s.include {
		if re.MatchString(text) {
			return Verdict{In: true, Rule: "include " + re.String()}
		}
	}
	return Verdict{Rule: "no include matches"}
}

// InKind tells whether u is in scope by its kind alone, as the parent of a
// page requisite must be.
func (s *Scope) InKind(u weburl.URL) bool { return s.kindAccepts(u) }

func (s *Scope) kindAccepts(u weburl.URL) bool {
	switch s.kind {
	case jobv1.ScopeKind_SCOPE_KIND_ANY:
		return true
	case jobv1.ScopeKind_SCOPE_KIND_PAGE:
		return s.roots[schemeless(u)]
	case jobv1.ScopeKind_SCOPE_KIND_DOMAIN:
		return s.roots[u.RegistrableDomain()]
	case jobv1.ScopeKind_SCOPE_KIND_PREFIX:
		text := schemeless(u)
		for _, p := range s.prefixes {
			if strings.HasPrefix(text, p) {
				return true
			}
		}
		return false
	}
	return s.roots[u.HostKey()]
}

// Rules are the optional canonicalisation rules that a spec switches on.
func Rules(spec *jobv1.Spec) weburl.Rules {
	r := spec.GetUrlRules()
	return weburl.Rules{
		StripSessionIDs: r.GetStripSessionIds(), SortQuery: r.GetSortQuery(), StripWWW: r.GetStripWww(),
		DropTracking: r.GetDropTracking(), StripTrailingSlash: r.GetStripTrailingSlash(),
		StripEmptyQuery: r.GetStripEmptyQuery(), StripQuery: r.GetStripQuery(), TrimHostDots: r.GetTrimHostDots(),
		CollapseSlashes: r.GetCollapseSlashes(), StripIndex: r.GetStripIndex(), Lowercase: r.GetLowercase(),
	}
}
