package cli

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	gatewayv1 "lycosa.dev/proto/gen/lycosa/gateway/v1"
	schedulerv1 "lycosa.dev/proto/gen/lycosa/scheduler/v1"
)

// instanceCmd are the commands about services.
type instanceCmd struct {
	List instanceListCmd `cmd:"" help:"List the services that have joined."`
	Wait instanceWaitCmd `cmd:"" help:"Wait until enough services have joined."`
}

type instanceListCmd struct{ adminFlags }

func kindName(k schedulerv1.ServiceKind) string {
	return strings.ToLower(strings.TrimPrefix(k.String(), "SERVICE_KIND_"))
}

// Run implements the command.
func (c *instanceListCmd) Run(a *App) error {
	return c.with(a, func(cl *client) error {
		res, err := cl.ListInstances(a.ctx, &gatewayv1.ListInstancesRequest{})
		if err != nil {
			return err
		}
		if c.JSON {
			return a.protoJSON(res)
		}
		t := tabwriter.NewWriter(a.Stdout, 0, 0, 2, ' ', 0)
		fmt.Fprintln(t, "KIND\tID\tADDRESS\tVERSION\tJOINED\tLEASES\tCAPACITY\tSTATE")
		for _, i := range res.GetInstances() {
			state, leases, capacity := "joined", "-", "-"
			if i.GetDraining() {
				state = "draining"
			}
			if i.GetKind() == schedulerv1.ServiceKind_SERVICE_KIND_DOWNLOADER {
				leases, capacity = strconv.Itoa(int(i.GetLeases())), strconv.Itoa(int(i.GetCapacity()))
			}
			fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", kindName(i.GetKind()), i.GetId(), i.GetAddress(), i.GetVersion(),
				i.GetJoinedAt().AsTime().UTC().Format(time.RFC3339), leases, capacity, state)
		}
		return t.Flush()
	})
}

type instanceWaitCmd struct {
	Kind    []string      `arg:"" optional:"" help:"What must be there: downloader, extractor or dnser, with =N for N of them (default one of each)."`
	Timeout time.Duration `placeholder:"D" default:"30s" help:"Give up after this time (default 30s)."`
	adminFlags
}

// Help is shown below the flags.
func (*instanceWaitCmd) Help() string {
	return `Example:
  lycosa instance wait downloader=3 extractor dnser --timeout 1m`
}

// Run implements the command. It waits for the gateway, too.
func (c *instanceWaitCmd) Run(a *App) error {
	want := map[string]int{}
	if len(c.Kind) == 0 {
		c.Kind = []string{"downloader", "extractor", "dnser"}
	}
	for _, k := range c.Kind {
		name, count, given := strings.Cut(k, "=")
		n := 1
		if given {
			var err error
			if n, err = strconv.Atoi(count); err != nil || n < 0 {
				return usage("%q: must be KIND or KIND=N", k)
			}
		}
		if !slices.Contains([]string{"downloader", "extractor", "dnser", "gateway"}, name) {
			return usage("%q: must be downloader, extractor, dnser or gateway", name)
		}
		want[name] = n
	}
	ctx, cancel := context.WithTimeout(a.ctx, c.Timeout)
	defer cancel()
	for {
		var lacks string
		if text, err := c.lacking(ctx, a, want); err != nil {
			lacks = err.Error()
		} else if text == "" {
			return nil
		} else {
			lacks = text
		}
		if err := sleep(ctx, 200*time.Millisecond); err != nil {
			if a.ctx.Err() != nil {
				return silent(ExitInterrupted)
			}
			return &exitError{ExitFailure, fmt.Errorf("after %s there is still lacking: %s", c.Timeout, lacks)}
		}
	}
}

// lacking names what is not there yet.
func (c *instanceWaitCmd) lacking(ctx context.Context, a *App, want map[string]int) (string, error) {
	cl, err := c.connect(a)
	if err != nil {
		return "", err
	}
	defer cl.Close()
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	res, err := cl.ListInstances(ctx, &gatewayv1.ListInstancesRequest{})
	if err != nil {
		return "", err
	}
	have := map[string]int{}
	for _, i := range res.GetInstances() {
		if !i.GetDraining() {
			have[kindName(i.GetKind())]++
		}
	}
	var lacks []string
	for name, n := range want {
		if have[name] < n {
			lacks = append(lacks, fmt.Sprintf("%s (%d of %d)", name, have[name], n))
		}
	}
	slices.Sort(lacks)
	return strings.Join(lacks, ", "), nil
}
