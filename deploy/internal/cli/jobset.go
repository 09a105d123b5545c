package cli

import (
	"fmt"
	"strings"

	"github.com/goccy/go-yaml"

	"lycosa.dev/internal/job"
	gatewayv1 "lycosa.dev/proto/gen/lycosa/gateway/v1"
	jobv1 "lycosa.dev/proto/gen/lycosa/job/v1"
	schedulerv1 "lycosa.dev/proto/gen/lycosa/scheduler/v1"
)

type jobSetCmd struct {
	Setting []string `arg:"" sep:"none" name:"field=value" help:"A field of the spec and its value, as in a job file; no value: the default."`
	Job     string   `placeholder:"ID" help:"The job; may be left out where there is one."`
	adminFlags
}

// Help is shown below the flags.
func (*jobSetCmd) Help() string {
	return `The change holds from the next lease on. What would make it another crawl (scope,
identity, URL rules) is refused; exclusions may change (lycosa job exclude shows
what they would drop). A max_depth that comes while the job runs takes what was found before
by the depth at which it was found first.

Examples:
  lycosa job set politeness.min_delay=2s limits.max_pages=50000
  lycosa job set limits.concurrency=32 --job docs
  lycosa job set limits.max_depth=              no limit any more`
}

// Run implements the command.
func (c *jobSetCmd) Run(a *App) error {
	return c.change(a, c.Job, func(cl *client, id string) (*schedulerv1.JobStatus, error) {
		st, err := cl.theJob(a.ctx, id)
		if err != nil {
			return nil, err
		}
		spec, err := withSettings(st.GetSpec(), c.Setting)
		if err != nil {
			return nil, err
		}
		res, err := cl.UpdateJob(a.ctx, &gatewayv1.UpdateJobRequest{JobId: id, Spec: spec})
		return res.GetJob(), err
	})
}

// withSettings is a spec with other values of fields, written as in YAML.
func withSettings(spec *jobv1.Spec, settings []string) (*jobv1.Spec, error) {
	tree := map[string]any{}
	if err := yaml.Unmarshal(job.MarshalYAML(spec), &tree); err != nil {
		return nil, err
	}
	for _, s := range settings {
		field, text, ok := strings.Cut(s, "=")
		if !ok || field == "" {
			return nil, usage("%q: want FIELD=VALUE, such as politeness.min_delay=2s", s)
		}
		at := tree
		path := strings.Split(field, ".")
		for _, name := range path[:len(path)-1] {
			next, ok := at[name].(map[string]any)
			if !ok {
				next = map[string]any{}
				at[name] = next
			}
			at = next
		}
		last := path[len(path)-1]
		if text == "" {
			delete(at, last)
			continue
		}
		var value any
		if err := yaml.Unmarshal([]byte(text), &value); err != nil {
			return nil, usage("%s: %q is no value: %w", field, text, err)
		}
		at[last] = value
	}
	data, err := yaml.Marshal(tree)
	if err != nil {
		return nil, err
	}
	out, err := job.ParseYAML("the new settings", data)
	if err != nil {
		return nil, usage("%w", err)
	}
	if _, err := effective(out); err != nil {
		return nil, usage("%w", err)
	}
	return out, nil
}

// jobOverlayCmd are the commands about overlays.
type jobOverlayCmd struct {
	List   overlayListCmd   `cmd:"" help:"List a job's overlays."`
	Set    overlaySetCmd    `cmd:"" help:"Add an overlay, or replace the one of that name."`
	Remove overlayRemoveCmd `cmd:"" help:"Take overlays away."`
}

type overlayListCmd struct {
	jobArg
	adminFlags
}

// Run implements the command.
func (c *overlayListCmd) Run(a *App) error {
	jobs, err := read(&c.adminFlags, a, listLive, listOffline)
	if err != nil {
		return err
	}
	st, err := oneJob(jobs, c.Job)
	if err != nil {
		return err
	}
	return c.show(a, st.GetSpec().GetOverlays())
}

// show writes overlays as they are written in a spec, or as JSON.
func (f *adminFlags) show(a *App, list []*jobv1.Overlay) error {
	if f.JSON {
		for _, o := range list {
			if err := a.protoJSON(o); err != nil {
				return err
			}
		}
		return nil
	}
	if len(list) == 0 {
		_, err := fmt.Fprintln(a.Stdout, "no overlays")
		return err
	}
	_, err := a.Stdout.Write(job.MarshalYAML(&jobv1.Spec{Overlays: list}))
	return err
}

type overlaySetCmd struct {
	Name    string   `arg:"" help:"Name of the overlay."`
	Setting []string `arg:"" sep:"none" name:"field=value" help:"A setting and its value, as in a job file; see below."`
	Host    []string `placeholder:"HOST" help:"It applies to this host key."`
	Domain  []string `placeholder:"DOMAIN" help:"It applies to this domain and all below it."`
	Prefix  []string `sep:"none" placeholder:"URL" help:"It applies to URLs that begin so."`
	Job     string   `placeholder:"ID" help:"The job; may be left out where there is one."`
	adminFlags
}

// Help is shown below the flags.
func (*overlaySetCmd) Help() string {
	return `Where several apply, the most specific wins, setting by setting: a URL prefix
before a host, a host before a domain; the longer prefix or domain; the later one.
Headers and exclusions join. A change holds from the next lease on.

Settings of hosts, domains and URL prefixes:
  min_delay max_delay delay_factor   waits, after a fetch of such a URL
  accept_language headers            of requests: headers='["X-Key: 7"]'
  exclude                            regular expressions: exclude='["/cal/"]'
Settings of hosts and domains:
  per_host back_off max_tries        as in politeness
  robots max_crawl_delay
  host_limit                         {concurrency: 1, min_delay: 5s, rate_bytes: 64KiB, pages_per_day: 500}
  user_agent                         robots.txt is asked by its product token
  max_host_pages max_host_bytes      budget of each host
  precedence                         0 (first) to 3 (last)
Settings of domains alone:
  max_domain_pages max_domain_bytes  budget of a registrable domain

Examples:
  lycosa job overlay set gentle min_delay=10s max_delay=60s --domain example.org
  lycosa job overlay set guest user_agent='guest/1 (+https://x.test)' --host a.test
  lycosa job overlay set few max_host_pages=1000 --domain example.net
  lycosa job overlay set own robots=ignore --host intranet.test`
}

// Run implements the command.
func (c *overlaySetCmd) Run(a *App) error {
	overlay := map[string]any{"name": c.Name, "hosts": c.Host, "domains": c.Domain, "url_prefixes": c.Prefix}
	for _, s := range c.Setting {
		field, text, ok := strings.Cut(s, "=")
		var value any
		if !ok || yaml.Unmarshal([]byte(text), &value) != nil || overlay[field] != nil {
			return usage("%q: want SETTING=VALUE, such as min_delay=10s", s)
		}
		overlay[field] = value
	}
	data, err := yaml.Marshal(map[string]any{"overlays": []any{overlay}})
	if err != nil {
		return err
	}
	spec, err := job.ParseYAML("the overlay", data)
	if err != nil {
		return usage("%w", err)
	}
	return c.overlays(a, c.Job, &schedulerv1.ChangeOverlaysRequest{Set: spec.GetOverlays()})
}

type overlayRemoveCmd struct {
	Name []string `arg:"" help:"Names of overlays."`
	Job  string   `placeholder:"ID" help:"The job; may be left out where there is one."`
	adminFlags
}

// Run implements the command.
func (c *overlayRemoveCmd) Run(a *App) error {
	return c.overlays(a, c.Job, &schedulerv1.ChangeOverlaysRequest{Remove: c.Name})
}

// overlays changes overlays and shows those that there are then.
func (f *adminFlags) overlays(a *App, id string, req *schedulerv1.ChangeOverlaysRequest) error {
	return f.with(a, func(cl *client) error {
		st, err := cl.theJob(a.ctx, id)
		if err != nil {
			return err
		}
		req.JobId = st.GetJobId()
		res, err := cl.ChangeOverlays(a.ctx, &gatewayv1.ChangeOverlaysRequest{Question: req})
		if err != nil {
			return err
		}
		return f.show(a, res.GetAnswer().GetJob().GetSpec().GetOverlays())
	})
}
