package cli

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"lycosa.dev/internal/config"
	"lycosa.dev/internal/job"
	"lycosa.dev/internal/telemetry"
	jobv1 "lycosa.dev/proto/gen/lycosa/job/v1"
)

// Values of the flags that are names.
var (
	scopes = map[string]jobv1.ScopeKind{
		"page": jobv1.ScopeKind_SCOPE_KIND_PAGE, "prefix": jobv1.ScopeKind_SCOPE_KIND_PREFIX,
		"host": jobv1.ScopeKind_SCOPE_KIND_HOST, "domain": jobv1.ScopeKind_SCOPE_KIND_DOMAIN,
		"any": jobv1.ScopeKind_SCOPE_KIND_ANY,
	}
	scopeNames = []string{"page", "prefix", "host", "domain", "any"}
	policies   = map[string]jobv1.RobotsPolicy{
		"obey": jobv1.RobotsPolicy_ROBOTS_POLICY_OBEY, "ignore": jobv1.RobotsPolicy_ROBOTS_POLICY_IGNORE,
	}
	policyNames = []string{"obey", "ignore"}
	storeNames  = []string{"warc", "files", "none"}
)

// notOneOf is the complaint about a name that a flag does not know.
func notOneOf(flag, value string, names []string) error {
	err := fmt.Errorf("--%s: must be one of %s, is %q", flag, strings.Join(names, ", "), value)
	if near := config.Closest(value, names); near != "" {
		err = fmt.Errorf("%w; did you mean %q?", err, near)
	}
	return err
}

// section returns a part of the spec, made where it is missing.
func section[T any](p **T) *T {
	if *p == nil {
		*p = new(T)
	}
	return *p
}

// apply lays the flags that were given over a spec: a flag wins over the spec.
// Seeds are added to those that are there. All problems are returned at once.
func (c *crawlFlags) apply(s *jobv1.Spec, seeds []string) error {
	var errs []error
	s.Seeds = union(s.Seeds, seeds)
	if c.Scope != nil {
		kind, ok := scopes[*c.Scope]
		if !ok {
			errs = append(errs, notOneOf("scope", *c.Scope, scopeNames))
		}
		section(&s.Scope).Kind = kind
	}
	if c.Include != nil {
		section(&s.Scope).Include = c.Include
	}
	if c.Exclude != nil {
		section(&s.Scope).Exclude = c.Exclude
	}
	limits := section(&s.Limits)
	if c.MaxPages != nil {
		limits.MaxPages = *c.MaxPages
	}
	if c.MaxDepth != nil {
		if n, err := strconv.ParseUint(*c.MaxDepth, 10, 32); err == nil {
			limits.MaxDepth = proto.Uint32(uint32(n))
		} else if *c.MaxDepth == "none" {
			limits.MaxDepth = nil
		} else {
			errs = append(errs, fmt.Errorf("--max-depth: must be a number or none, is %q", *c.MaxDepth))
		}
	}
	if c.MaxDuration != nil {
		limits.MaxDuration = durationpb.New(*c.MaxDuration)
	}
	if c.MaxBytes != nil {
		limits.MaxTotalBytes = int64(*c.MaxBytes)
	}
	if c.Concurrency != nil {
		if *c.Concurrency == 0 {
			errs = append(errs, errors.New("--concurrency: must be at least 1, is 0"))
		}
		limits.Concurrency = *c.Concurrency
	}
	errs = append(errs, c.applyPoliteness(section(&s.Politeness)))
	if c.AllowNet != nil {
		section(&s.Fetch).AllowNet = c.AllowNet
	}
	if c.Resolve != nil {
		section(&s.Fetch).Resolve = c.Resolve
	}
	c.applyIdentity(section(&s.Identity))
	if c.Store != nil {
		errs = append(errs, applyStore(section(&s.Storage), *c.Store))
	}
	return errors.Join(errs...)
}

func (c *crawlFlags) applyPoliteness(p *jobv1.Politeness) error {
	var errs []error
	duration := func(field **durationpb.Duration, flag string, v *time.Duration) {
		if v == nil {
			return
		}
		if *v < 0 {
			errs = append(errs, fmt.Errorf("--%s: must not be negative, is %s", flag, *v))
		}
		*field = durationpb.New(*v)
	}
	duration(&p.MinDelay, "min-delay", c.MinDelay)
	duration(&p.MaxDelay, "max-delay", c.MaxDelay)
	duration(&p.AddressDelay, "address-delay", c.AddressDelay)
	if c.MinDelay != nil && c.MaxDelay == nil && p.MaxDelay != nil && p.MaxDelay.AsDuration() < *c.MinDelay {
		p.MaxDelay = durationpb.New(*c.MinDelay)
	}
	if c.DelayFactor != nil {
		p.DelayFactor = proto.Float64(*c.DelayFactor)
	}
	if c.PerHost != nil {
		if *c.PerHost == 0 {
			errs = append(errs, errors.New("--per-host: must be at least 1, is 0"))
		}
		p.PerHost = *c.PerHost
	}
	if c.Robots != nil {
		policy, ok := policies[*c.Robots]
		if !ok {
			errs = append(errs, notOneOf("robots", *c.Robots, policyNames))
		}
		p.Robots = policy
	}
	return errors.Join(errs...)
}

// applyIdentity lets the User-Agent follow a new contact where it was made of
// the old one.
func (c *crawlFlags) applyIdentity(id *jobv1.Identity) {
	if c.Contact != nil {
		if *c.Contact != id.GetContact() && c.UserAgent == nil && strings.HasPrefix(id.GetUserAgent(), "Lycosa/") {
			id.UserAgent = ""
		}
		id.Contact = *c.Contact
	}
	if c.UserAgent != nil && *c.UserAgent != id.GetUserAgent() {
		id.UserAgent, id.RobotsAgent = *c.UserAgent, ""
	}
}

func applyStore(s *jobv1.Storage, list string) error {
	s.Stores, s.None = nil, false
	for name := range strings.SplitSeq(list, ",") {
		switch name = strings.TrimSpace(name); name {
		case "none":
			s.None = true
		case "warc", "files":
			s.Stores = union(s.Stores, []string{name})
		default:
			return notOneOf("store", name, storeNames)
		}
	}
	if s.None && len(s.Stores) > 0 {
		return fmt.Errorf("--store: none beside %s: give one or the other", strings.Join(s.Stores, ","))
	}
	return nil
}

// union returns list with what it lacks of more.
func union(list, more []string) []string {
	known := make(map[string]bool, len(list))
	for _, s := range list {
		known[s] = true
	}
	for _, s := range more {
		if !known[s] {
			known[s] = true
			list = append(list, s)
		}
	}
	return list
}

// maxSeedProblems is how many bad lines of a seed file are named.
const maxSeedProblems = 20

// readSeeds gathers the seeds of the command line: arguments and files. Seeds
// come out in the form in which the frontier knows them.
func (c *crawlFlags) readSeeds(stdin io.Reader) ([]string, error) {
	var seeds []string
	var errs []error
	known := map[string]bool{}
	add := func(where, text string) {
		u, err := job.ParseSeed(text)
		if err != nil {
			if len(errs) < maxSeedProblems {
				errs = append(errs, fmt.Errorf("%s: %w", where, err))
			}
			return
		}
		if s := u.String(); !known[s] {
			known[s] = true
			seeds = append(seeds, s)
		}
	}
	for _, arg := range c.URL {
		add("seed", arg)
	}
	for _, name := range c.Seeds {
		if err := readSeedFile(name, stdin, add); err != nil {
			errs = append(errs, err)
		}
	}
	return seeds, errors.Join(errs...)
}

// readSeedFile reads a URL a line; empty lines and those that begin with # are
// passed over.
func readSeedFile(name string, stdin io.Reader, add func(where, text string)) error {
	in, shown := stdin, "standard input"
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return fmt.Errorf("--seeds: %w", err)
		}
		defer f.Close()
		in, shown = f, name
	}
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 1<<20)
	for n := 1; lines.Scan(); n++ {
		text := strings.TrimSpace(strings.TrimPrefix(lines.Text(), "\ufeff"))
		if text == "" || text[0] == '#' {
			continue
		}
		add(fmt.Sprintf("%s:%d", shown, n), text)
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("--seeds: %s: %w", shown, err)
	}
	return nil
}

// effective completes a spec and checks it.
func effective(s *jobv1.Spec) (*jobv1.Spec, error) {
	e := job.WithDefaults(s, telemetry.Version())
	if err := job.Validate(e); err != nil {
		return nil, err
	}
	return e, nil
}
