package cli

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"lycosa.dev/deploy/internal/progress"
	crawlv1 "lycosa.dev/proto/gen/lycosa/crawl/v1"
	gatewayv1 "lycosa.dev/proto/gen/lycosa/gateway/v1"
	schedulerv1 "lycosa.dev/proto/gen/lycosa/scheduler/v1"
)

// whyCmd explains a URL.
type whyCmd struct {
	URL string `arg:"" name:"url" help:"The URL, in any form."`
	Job string `placeholder:"ID" help:"The job; may be left out where there is one."`
	adminFlags
}

// Help is shown below the flags.
func (*whyCmd) Help() string {
	return `Examples:
  lycosa why https://example.org/a          the crawl in ./crawl, running or not
  lycosa why https://example.org/a --dir out`
}

// Run implements the command.
func (c *whyCmd) Run(a *App) error {
	e, err := read(&c.adminFlags, a,
		func(ctx context.Context, cl *client) (*schedulerv1.ExplainResponse, error) {
			st, err := cl.theJob(ctx, c.Job)
			if err != nil {
				return nil, err
			}
			res, err := cl.ExplainUrl(ctx, &gatewayv1.ExplainUrlRequest{JobId: st.GetJobId(), Url: c.URL})
			return res.GetExplanation(), err
		},
		func(ctx context.Context, o offline) (*schedulerv1.ExplainResponse, error) {
			jobs, err := o.Jobs(ctx)
			if err != nil {
				return nil, err
			}
			st, err := oneJob(jobs, c.Job)
			if err != nil {
				return nil, err
			}
			return o.Explain(ctx, st.GetJobId(), c.URL)
		})
	if err != nil {
		return err
	}
	if c.JSON {
		return a.protoJSON(e)
	}
	return explain(a.Stdout, e)
}

// explain writes what is known of a URL.
func explain(w io.Writer, e *schedulerv1.ExplainResponse) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	row := func(name, format string, args ...any) {
		if text := progress.Sanitise(fmt.Sprintf(format, args...)); text != "" {
			fmt.Fprintf(t, "%s\t%s\n", name, text)
		}
	}
	row("url", "%s", e.GetCanonicalUrl())
	row("state", "%s", strings.ToLower(strings.TrimPrefix(e.GetState().String(), "URL_STATE_")))
	row("why", "%s", e.GetReason())
	if e.GetNextAt() != nil {
		row("next", "%s", e.GetNextAt().AsTime().UTC().Format(time.RFC3339))
	}
	row("scope", "%s", e.GetScopeVerdict())
	row("robots", "%s", e.GetRobotsVerdict())
	if f := e.GetFound(); f != nil {
		from := "a seed"
		if !f.GetSeed() {
			from = "found at " + f.GetReferrer()
		}
		row("found", "%s; depth %d, hops %q, rule %s", from, f.GetDepth(), f.GetHopPath(), f.GetRule())
	}
	if e.GetAttempts() > 0 {
		row("tries", "%d", e.GetAttempts())
	}
	if o := e.GetLastOutcome(); o != nil {
		row("outcome", "%s", outcomeText(o))
		row("noticed", "%s", strings.Join(append(slices.Clone(o.GetFetch().GetAnnotations()), o.GetAnnotations()...), ", "))
		for _, s := range o.GetStored() {
			row("stored", "%s: %s at %d, %d bytes", s.GetStore(), s.GetFile(), s.GetOffset(), s.GetLength())
		}
		row("not stored", "%s", o.GetSkippedBy())
		row("redirect", "%s", o.GetRedirectUrl())
	}
	for i, h := range e.GetRedirects() {
		row("chain", "%s", hopText(i, h, e.GetCanonicalUrl()))
	}
	if len(e.GetOverlays()) > 0 {
		row("overlays", "%s", strings.Join(e.GetOverlays(), ", "))
	}
	for _, s := range e.GetSteps() {
		row("step", "%s", stepText(s))
	}
	if q := e.GetQueue(); q != nil {
		row("queue", "%s: %s, %s queued, %d leased; %s", q.GetHostKey(), strings.ToLower(strings.TrimPrefix(q.GetState().String(), "QUEUE_STATE_")),
			queuedText(q), q.GetLeased(), q.GetReason())
	}
	return t.Flush()
}

// hopText tells one URL of a chain of redirects in a line.
func hopText(i int, h *schedulerv1.RedirectHop, self string) string {
	text := fmt.Sprintf("%d. %s  ", i+1, h.GetUrl())
	if h.GetStatus() != 0 {
		text += fmt.Sprintf("HTTP %d, ", h.GetStatus())
	}
	text += strings.ToLower(strings.TrimPrefix(h.GetState().String(), "URL_STATE_"))
	if h.GetReason() != "" {
		text += ": " + h.GetReason()
	}
	if h.GetUrl() == self {
		text += "  (this one)"
	}
	return text
}

// stepText tells one step in a line.
func stepText(s *schedulerv1.UrlStep) string {
	at := "(time not known)"
	if s.GetAt() != nil {
		at = s.GetAt().AsTime().UTC().Format("2006-01-02T15:04:05.000Z")
	}
	text := at + " " + strings.ReplaceAll(strings.ToLower(strings.TrimPrefix(s.GetKind().String(), "URL_STEP_KIND_")), "_", " ")
	if s.GetDownloader() != "" {
		text += fmt.Sprintf(", try %d by %s (lease %016x)", s.GetAttempt(), s.GetDownloader(), s.GetLeaseId())
	}
	if s.GetReason() != "" {
		text += ": " + s.GetReason()
	}
	if f := s.GetFetch(); f != nil {
		if f.GetError() != "" && !strings.Contains(s.GetReason(), f.GetError()) {
			text += "; " + f.GetError()
		}
		if f.GetStatus() != 0 && !strings.Contains(s.GetReason(), "HTTP") {
			text += fmt.Sprintf("; HTTP %d", f.GetStatus())
		}
		text += phases(f.GetTimings())
	}
	if s.GetRobots() != "" {
		text += "; robots: " + strings.TrimPrefix(s.GetRobots(), "robots.txt: ")
	}
	if s.GetNextAt() != nil {
		text += "; next not before " + s.GetNextAt().AsTime().UTC().Format(time.RFC3339)
	}
	return text
}

// phases tells how long each phase of a fetch took.
func phases(t *crawlv1.Timings) string {
	var parts []string
	for _, p := range []struct {
		name string
		d    *durationpb.Duration
	}{{"queue", t.GetQueue()}, {"connect", t.GetConnect()}, {"tls", t.GetTls()}, {"first byte", t.GetFirstByte()}, {"body", t.GetBody()}, {"total", t.GetTotal()}} {
		if d := p.d.AsDuration().Round(100 * time.Microsecond); d > 0 {
			parts = append(parts, p.name+" "+d.String())
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return "; " + strings.Join(parts, ", ")
}

func outcomeText(o *crawlv1.Outcome) string {
	f := o.GetFetch()
	var parts []string
	if f.GetClass() == crawlv1.OutcomeClass_OUTCOME_CLASS_HTTP {
		parts = append(parts, fmt.Sprintf("HTTP %d", f.GetStatus()))
	} else {
		parts = append(parts, strings.ToLower(strings.TrimPrefix(f.GetClass().String(), "OUTCOME_CLASS_")))
	}
	if f.GetError() != "" {
		parts = append(parts, f.GetError())
	}
	if o.GetContentType() != "" {
		parts = append(parts, o.GetContentType())
	}
	parts = append(parts, fmt.Sprintf("%d bytes", f.GetReceivedBytes()))
	if f.GetStartedAt() != nil {
		parts = append(parts, f.GetStartedAt().AsTime().UTC().Format(time.RFC3339))
	}
	if f.GetTimings().GetTotal() != nil {
		parts = append(parts, f.GetTimings().GetTotal().AsDuration().Round(time.Millisecond).String())
	}
	if o.GetLinksFound() > 0 {
		parts = append(parts, fmt.Sprintf("%d links, %d out of scope", o.GetLinksFound(), o.GetLinksOutOfScope()))
	}
	return strings.Join(parts, ", ")
}
