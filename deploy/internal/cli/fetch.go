package cli

import (
	"fmt"
	"os"

	"google.golang.org/protobuf/proto"

	"lycosa.dev/downloader"
	jobv1 "lycosa.dev/proto/gen/lycosa/job/v1"
)

// fetchCmd fetches one URL as a crawl would and says all about it.
type fetchCmd struct {
	URL string `arg:"" name:"url" help:"An absolute http or https URL; without a scheme https is taken."`

	Job       string   `placeholder:"FILE" help:"Job file (YAML) whose identity, limits and fetch settings count; flags win over it."`
	Redirects int      `placeholder:"N" default:"5" help:"Redirects that are followed, each shown (default 5; a crawl takes each as a link)."`
	Output    string   `placeholder:"FILE|-" help:"Write the body there, its codings undone; - is standard output, and the report goes to standard error."`
	Raw       bool     `help:"With --output: the body as it came."`
	Warc      string   `placeholder:"DIR" help:"Write a WARC file of it into this folder."`
	Request   bool     `help:"Show the request's header lines too (secrets are not shown)."`
	AllowNet  []string `placeholder:"CIDR" sep:"none" help:"Network that may be connected to although it is private or loopback."`
	Resolve   []string `placeholder:"HOST:ADDR" sep:"none" help:"Address of a host in place of the DNS; * is every host, IP addresses in URLs too, as curl's."`
	UserAgent string   `placeholder:"S" help:"User-Agent (default Lycosa and its version)."`
	Header    []string `placeholder:"LINE" sep:"none" help:"Further request header, \"Name: value\"."`
	Insecure  bool     `help:"Go on where the certificate is not valid, and say so."`
	HTTP1     bool     `name:"http1" help:"Do not speak HTTP/2."`
	Secrets   string   `placeholder:"DIR" help:"Folder of the secrets that the job file names."`
	Cookies   string   `placeholder:"DIR" help:"Keep cookies between runs, in fetch.txt of this folder."`
}

// Help is shown below the flags.
func (*fetchCmd) Help() string {
	return `Prints status, timings, address, TLS facts, the charset with its ground, and the
header lines. One request, under a crawl's address policy and limits; robots.txt
is not asked. Exit code 3: there was no response.

Examples:
  lycosa fetch https://example.org/
  lycosa fetch --warc . --redirects 0 example.org/old
  lycosa fetch --output page.html --job site.yaml https://example.org/private/`
}

// spec is the job file's, with the flags over it.
func (c *fetchCmd) spec() (*jobv1.Spec, error) {
	s := &jobv1.Spec{}
	if c.Job != "" {
		file, err := readJob(c.Job)
		if err != nil {
			return nil, err
		}
		s = file.spec
	}
	if s.Fetch == nil {
		s.Fetch = &jobv1.Fetch{}
	}
	if s.Identity == nil {
		s.Identity = &jobv1.Identity{}
	}
	f := s.Fetch
	f.AllowNet, f.Resolve, f.Headers = append(f.AllowNet, c.AllowNet...), append(f.Resolve, c.Resolve...), append(f.Headers, c.Header...)
	if c.UserAgent != "" {
		s.Identity.UserAgent = c.UserAgent
	}
	f.InsecureTls = f.InsecureTls || c.Insecure
	if c.HTTP1 {
		f.Http2 = proto.Bool(false)
	}
	f.Cookies = f.Cookies || c.Cookies != ""
	return s, nil
}

// Run implements the command.
func (c *fetchCmd) Run(a *App) error {
	spec, err := c.spec()
	if err != nil {
		return usage("%w", err)
	}
	r, err := downloader.FetchOne(a.ctx, c.URL, downloader.OneOptions{
		Spec: spec, Redirects: c.Redirects, SecretsDir: c.Secrets, CookiesDir: c.Cookies,
	})
	if err != nil {
		return usage("%w", err)
	}
	if a.ctx.Err() != nil {
		return a.ctx.Err()
	}
	to := a.Stdout
	if c.Output == "-" {
		to = a.Stderr
	}
	if err := r.WriteText(to, c.Request); err != nil {
		return err
	}
	last := r.Final()
	if c.Warc != "" {
		file, err := r.WriteWARC(a.ctx, c.Warc)
		if err != nil {
			return err
		}
		if file != "" {
			fmt.Fprintf(to, "%-12s %s\n", "warc", file)
		}
	}
	if last.Status == 0 {
		return silent(ExitNoSeed)
	}
	body := last.Decoded
	if c.Raw {
		body = last.Body
	}
	switch c.Output {
	case "":
	case "-":
		_, err = a.Stdout.Write(body)
	default:
		err = os.WriteFile(c.Output, body, 0o644)
	}
	return err
}
