package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"lycosa.dev/deploy/internal/progress"
	"lycosa.dev/internal/job"
	"lycosa.dev/internal/robots"
	"lycosa.dev/internal/telemetry"
)

// robotsCmd tells which line of a robots.txt decides.
type robotsCmd struct {
	Source string `arg:"" name:"url|file" help:"A robots.txt on disk, or a URL of the site, whose robots.txt is fetched; - is standard input."`
	Path   string `arg:"" optional:"" help:"Path, with query, or URL to decide for (default: that of the URL)."`
	Agent  string `placeholder:"TOKEN" default:"Lycosa" help:"Product token or User-Agent to decide for (default Lycosa)."`
}

// Help is shown below the flags.
func (*robotsCmd) Help() string {
	return `Exit code 0: allowed; 1: disallowed.

Examples:
  lycosa robots robots.txt /private/a?b=c
  lycosa robots https://example.org/private/`
}

// Run implements the command.
func (c *robotsCmd) Run(a *App) error {
	path := c.Path
	var body []byte
	var err error
	isURL := strings.Contains(c.Source, "://")
	switch {
	case isURL:
		if path == "" {
			path = c.Source
		}
		var policy robots.Policy
		if body, policy, err = fetchRobots(a, c.Source, c.Agent); err != nil {
			return err
		}
		if policy.AllowsAll() {
			fmt.Fprintln(a.Stdout, "allowed: the site has no robots.txt")
			return nil
		}
		if policy.DisallowsAll() {
			fmt.Fprintln(a.Stdout, "disallowed: the site's robots.txt cannot be had for now")
			return silent(ExitFailure)
		}
	case path == "":
		return usage("a path is needed beside a file: lycosa robots %s /path", c.Source)
	case c.Source == "-":
		body, err = io.ReadAll(a.Stdin)
	default:
		body, err = os.ReadFile(c.Source)
	}
	if err != nil {
		return usage("%w", err)
	}
	rules := robots.Parse(body).Agent(c.Agent)
	decision := rules.Test(robots.PathAndQuery(path))
	fmt.Fprintln(a.Stdout, progress.Sanitise(decision.String()))
	group := rules.Group()
	if group == "" {
		group = "none applies"
	}
	fmt.Fprintf(a.Stdout, "group: %s\n", progress.Sanitise(group))
	if delay, ok := rules.CrawlDelay(); ok {
		fmt.Fprintf(a.Stdout, "crawl-delay: %s\n", delay)
	}
	if !decision.Allowed {
		return silent(ExitFailure)
	}
	return nil
}

// maxRobotsRedirects is how many redirects of a robots.txt are followed (RFC
// 9309, section 2.3.1.2).
const maxRobotsRedirects = 5

// fetchRobots gets the robots.txt of a URL's site. No answer is a policy, not
// an error.
func fetchRobots(a *App, url, agent string) ([]byte, robots.Policy, error) {
	u, err := job.ParseSeed(url)
	if err != nil {
		return nil, 0, usage("%w", err)
	}
	ctx, cancel := context.WithTimeout(a.ctx, 30*time.Second)
	defer cancel()
	where := u.Origin() + robots.RobotsPath
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, where, nil)
	if err != nil {
		return nil, 0, usage("%w", err)
	}
	ua := agent
	if !strings.Contains(ua, "/") {
		ua += "/" + telemetry.Version()
	}
	req.Header.Set("User-Agent", ua)
	transport := &http.Transport{Proxy: nil, DisableKeepAlives: true}
	client := &http.Client{Transport: transport, CheckRedirect: func(_ *http.Request, via []*http.Request) error {
		if len(via) > maxRobotsRedirects {
			return http.ErrUseLastResponse
		}
		return nil
	}}
	res, err := client.Do(req)
	if err != nil {
		if a.ctx.Err() != nil {
			return nil, 0, a.ctx.Err()
		}
		fmt.Fprintf(a.Stderr, "lycosa: %s\n", progress.Sanitise(err.Error()))
		return nil, robots.StatusPolicy(0), nil
	}
	defer res.Body.Close()
	body, err := io.ReadAll(io.LimitReader(res.Body, robots.MaxBytes+1))
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, robots.StatusPolicy(0), nil
	}
	fmt.Fprintf(a.Stdout, "%s: HTTP %d, %d bytes\n", progress.Sanitise(res.Request.URL.String()), res.StatusCode, len(body))
	policy := robots.StatusPolicy(res.StatusCode)
	if policy == robots.Redirect {
		// More redirects than are followed: as if there were none (section 2.3.1.2).
		policy = robots.AllowAll
	}
	return body, policy, nil
}
