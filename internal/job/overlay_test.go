package job_test

import (
	"strings"
	"testing"

	"lycosa.dev/internal/job"
)

func overlaidSpec(t *testing.T, overlay string) error {
	t.Helper()
	s, err := job.ParseYAML("job.yaml", []byte("name: t\nseeds: [\"http://a.test/\"]\noverlays: ["+overlay+"]\n"))
	if err != nil {
		return err
	}
	return job.Validate(job.WithDefaults(s, "1"))
}

func TestOverlaysThatAreRight(t *testing.T) {
	for _, o := range []string{
		`{name: a, hosts: [a.test, "b.test:8080", "[::1]:80"], user_agent: "guest/1 (+https://x.test)", accept_language: "de, en;q=0.5", headers: ["X-Key: 1"], max_host_pages: 5, max_host_bytes: 10MiB, precedence: 0, exclude: ["/cal/"]}`,
		`{name: b, domains: [a.test], max_domain_pages: 5, max_domain_bytes: 1GiB, host_limit: {concurrency: 1, pages_per_day: 500, rate_bytes: 64KiB}, robots: ignore, user_agent: "Ünbekannt"}`,
		`{name: c, url_prefixes: ["http://a.test/x/"], min_delay: 5s, max_delay: 9s, delay_factor: 2, headers: ["X-Key: 1"], accept_language: fr, exclude: ["."]}`,
	} {
		if err := overlaidSpec(t, o); err != nil {
			t.Errorf("%s: %v", o, err)
		}
	}
}

// A mistake is told once, by the field it is in.
func TestOneMistakeOneMessage(t *testing.T) {
	for o, want := range map[string]string{
		`{name: a, url_prefixes: ["http://a.test/"], per_host: 2}`: "overlays[0].per_host: cannot be set by URL prefix",
		`{name: a, hosts: [a.test], per_host: 2}`:                  "overlays[0].per_host: is 2: more than one fetch",
		`{name: a, hosts: [a.test], min_delay: 0s}`:                "overlays[0].min_delay: is 0: fetches without a delay",
	} {
		err := overlaidSpec(t, o)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Count(err.Error(), "\n") != 0 || strings.Count(err.Error(), "overlays[0]") != 1 {
			t.Errorf("%s: %v, want one message: %q", o, err, want)
		}
	}
}

func TestOverlaysThatAreWrong(t *testing.T) {
	for o, want := range map[string]string{
		`{name: "a b", hosts: [a.test]}`:                                 "overlays[0].name: must be 1 to 64 letters",
		`{name: a}`:                                                      "overlays[0]: applies to nothing: give hosts, domains or url_prefixes",
		`{name: a, hosts: ["*.a.test"]}`:                                 "overlays[0].hosts[0]: must be a host such as example.org",
		`{name: a, hosts: [A.test]}`:                                     "overlays[0].hosts[0]: must be a host such as example.org",
		`{name: a, domains: ["a.test:80"]}`:                              "overlays[0].domains[0]: must be a domain such as example.org",
		`{name: a, url_prefixes: ["/x/"]}`:                               "overlays[0].url_prefixes[0]",
		`{name: a, url_prefixes: ["http://a.test/"], robots: ignore}`:    "overlays[0].robots: cannot be set by URL prefix",
		`{name: a, url_prefixes: ["http://a.test/"], user_agent: x}`:     "overlays[0].user_agent: cannot be set by URL prefix",
		`{name: a, url_prefixes: ["http://a.test/"], max_host_pages: 1}`: "overlays[0].max_host_pages: cannot be set by URL prefix",
		`{name: a, hosts: [a.test], user_agent: "1\n2"}`:                 "overlays[0].user_agent: must be one line of text",
		`{name: a, hosts: [a.test], user_agent: "Ünbekannt"}`:            "does not begin with a product token",
		`{name: a, hosts: [a.test], accept_language: "a\nb"}`:            "overlays[0].accept_language: must be one line",
		`{name: a, hosts: [a.test], headers: [X]}`:                       "overlays[0].headers[0]: must be \"Name: value\"",
		`{name: a, hosts: [a.test], headers: ["Host: b.test"]}`:          "overlays[0].headers[0]: \"Host\" is set by the downloader itself",
		`{name: a, hosts: [a.test], headers: ["User-Agent: b"]}`:         "is set by the downloader itself",
		`{name: a, hosts: [a.test], exclude: ["("]}`:                     "overlays[0].exclude[0]: error parsing regexp",
		`{name: a, hosts: [a.test], max_domain_pages: 1}`:                "for overlays of domains alone",
		`{name: a, hosts: [a.test], precedence: 4}`:                      "overlays[0].precedence: must be 0 to 3, is 4",
		`{name: a, hosts: [a.test], host_limit: {min_delay: 48h}}`:       "overlays[0].host_limit.min_delay: must be 0 to 24h",
		`{name: a, hosts: [a.test], per_host: 2}`:                        "inside fetch.allow_net only",
		`{name: a, hosts: [a.test], min_delay: 0s}`:                      "inside fetch.allow_net only",
		`{name: a, hosts: [a.test], min_delay: 9s, max_delay: 1s}`:       "overlays[0].max_delay: must be at least min_delay",
		`{name: a, hosts: [a.test]}, {name: a, hosts: [b.test]}`:         "overlays[1].name: \"a\" is there twice",
		`{name: a, hosts: [a.test], user_agnt: x}`:                       "user_agent",
		`{name: a, domains: [a.test], max_domain_bytes: -1}`:             "must be a size",
	} {
		if err := overlaidSpec(t, o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", o, err, want)
		}
	}
}
