package config

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

type secret string

func (s secret) Redacted() string {
	if s == "" {
		return ""
	}
	return "***"
}

type level int

func (l *level) UnmarshalText(b []byte) error {
	switch string(b) {
	case "low":
		*l = 1
	case "high":
		*l = 2
	default:
		return errors.New("must be low or high")
	}
	return nil
}

func (l level) MarshalText() ([]byte, error) {
	return []byte([]string{"none", "low", "high"}[l]), nil
}

type tlsSection struct {
	Cert string `yaml:"cert" usage:"certificate file"`
	Key  string `yaml:"key"`
}

func (t tlsSection) Validate() error {
	if (t.Cert == "") != (t.Key == "") {
		return Invalid("cert", "needs a key beside it")
	}
	return nil
}

type base struct {
	LogLevel string `yaml:"log_level"`
}

type rule struct {
	If   string `yaml:"if"`
	Then int    `yaml:"then"`
}

type settings struct {
	base    `yaml:",inline"`
	Listen  string            `yaml:"listen" usage:"address to serve on"`
	Workers int               `yaml:"workers" usage:"how many at once"`
	Small   uint8             `yaml:"small"`
	Ratio   float64           `yaml:"ratio"`
	On      bool              `yaml:"on"`
	Wait    time.Duration     `yaml:"wait" usage:"longest wait"`
	Cache   Size              `yaml:"cache"`
	Level   level             `yaml:"level"`
	Servers []string          `yaml:"servers"`
	Sizes   []Size            `yaml:"sizes"`
	Labels  map[string]string `yaml:"labels"`
	Limit   *int              `yaml:"limit"`
	Rules   []rule            `yaml:"rules"`
	Extra   map[string]any    `yaml:"extra"`
	TLS     tlsSection        `yaml:"tls"`
	Token   secret            `yaml:"token"`
	MaxIdle int
	Skipped int `yaml:"-"`
}

func (s *settings) Validate() error {
	var errs []error
	if s.Workers < 1 {
		errs = append(errs, Invalid("workers", "must be at least 1, not %d", s.Workers))
	}
	for i, r := range s.Rules {
		if r.If == "" {
			errs = append(errs, Invalid(joinPath(indexPath("rules", i), "if"), "must not be empty"))
		}
	}
	errs = append(errs, Within("tls", s.TLS.Validate()))
	return errors.Join(errs...)
}

func defaults() settings { return settings{Workers: 4, Listen: "127.0.0.1:1", Wait: time.Second} }

func TestAllTypes(t *testing.T) {
	got := defaults()
	err := DecodeYAML("a.yaml", []byte(`
log_level: debug
listen: "127.0.0.1:7070"
workers: 1_000
small: 0xff
ratio: 2
on: true
wait: 1h30m
cache: 10MiB
level: high
servers: [a, "b"]
sizes:
  - 1kB
  - 512
labels: {x: "1", y: two}
limit: 7
rules:
  - if: a
    then: 1
  - {if: b, then: 2}
extra:
  deep: [1, two]
tls:
  cert: c.pem
  key: k.pem
token: 'hush'
max_idle: 3
`), &got)
	if err != nil {
		t.Fatal(err)
	}
	limit := 7
	want := settings{
		base: base{"debug"}, Listen: "127.0.0.1:7070", Workers: 1000, Small: 255, Ratio: 2, On: true,
		Wait: 90 * time.Minute, Cache: 10 * MiB, Level: 2, Servers: []string{"a", "b"}, Sizes: []Size{1000, 512},
		Labels: map[string]string{"x": "1", "y": "two"}, Limit: &limit,
		Rules: []rule{{"a", 1}, {"b", 2}}, Extra: map[string]any{"deep": []any{int64(1), "two"}},
		TLS: tlsSection{"c.pem", "k.pem"}, Token: "hush", MaxIdle: 3,
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func TestDefaultsStay(t *testing.T) {
	for name, doc := range map[string]string{
		"empty": "", "comment": "# nothing\n", "marker": "---\n", "empty section": "tls:\n  # cert: x\n",
		"empty list": "servers:\n",
	} {
		got := defaults()
		if err := DecodeYAML("a.yaml", []byte(doc), &got); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if !reflect.DeepEqual(got, defaults()) {
			t.Errorf("%s: changed the defaults: %+v", name, got)
		}
	}
}

func TestProblems(t *testing.T) {
	for _, c := range []struct{ name, doc, want string }{
		{"unknown key", "lisen: x\n", `a.yaml:1:1: unknown key "lisen" (did you mean "listen"?)`},
		{"unknown nested", "tls:\n  certt: x\n", `a.yaml:2:3: tls: unknown key "certt" (did you mean "cert"?)`},
		{"unlike any", "tls:\n  zzzzzz: x\n", `a.yaml:2:3: tls: unknown key "zzzzzz"; known here: cert, key`},
		{"unknown in list", "rules:\n  - iff: a\n    then: 1\n", `a.yaml:2:5: rules[0]: unknown key "iff" (did you mean "if"?)`},
		{"text for int", "workers: many\n", `a.yaml:1:10: workers: must be a whole number, not the text "many"`},
		{"int for text", "listen: 7070\n", `a.yaml:1:9: listen: must be text, not the number 7070; put it in quotes: "7070"`},
		{"float for int", "workers: 1.5\n", `a.yaml:1:10: workers: must be a whole number, not the number 1.5`},
		{"out of range", "small: 256\n", `a.yaml:1:8: small: must be a whole number from 0 to 255, not 256`},
		{"negative", "small: -1\n", `a.yaml:1:8: small: must be a whole number from 0 to 255, not -1`},
		{"huge", "workers: 18446744073709551615\n", `a.yaml:1:10: workers: must be a whole number of 64 bits, not 18446744073709551615`},
		{"text for bool", "on: yes please\n", `a.yaml:1:5: on: must be true or false, not the text "yes please"`},
		{"duration without unit", "wait: 5\n", `a.yaml:1:7: wait: must be a duration with a unit, such as 5s or 5ms`},
		{"bad duration", "wait: 5 parsecs\n", `a.yaml:1:7: wait: must be a duration with a unit, such as 500ms, 5s or 1h30m, not "5 parsecs"`},
		{"ambiguous size", "cache: 10M\n", `a.yaml:1:8: cache: size "10M": write 10MB (powers of 1000) or 10MiB (powers of 1024)`},
		{"custom type", "level: middle\n", `a.yaml:1:8: level: must be low or high`},
		{"scalar for section", "tls: x\n", `a.yaml:1:6: tls: must be a section (name: value, one a line), not the text "x"`},
		{"scalar for list", "servers: a\n", `a.yaml:1:10: servers: must be a list (- value, one a line, or [a, b]), not the text "a"`},
		{"section for text", "listen: {a: 1}\n", `listen: must be text, not a section`},
		{"no value", "workers:\n", `workers: has no value; must be a whole number (remove the line to have the default)`},
		{"twice", "workers: 1\nworkers: 2\n", `a.yaml:2:1: YAML: `},
		{"two documents", "workers: 1\n---\nworkers: 2\n", `one YAML document is expected`},
		{"syntax", "workers: [1\n", `a.yaml:1:10: YAML: `},
		{"tab", "tls:\n\tcert: x\n", `a.yaml:2:1: YAML: `},
		{"tag", "listen: !!str 1\n", `YAML tags (!!str) have no meaning here`},
		{"merge", "x: &a {}\ntls:\n  <<: *a\n", `merge keys (<<) are not supported`},
		{"alias", "listen: *nowhere\n", `nowhere`},
		{"validation", "workers: 0\n", `a.yaml:1:1: workers: must be at least 1, not 0`},
		{"validation in section", "tls:\n  cert: x\n", `a.yaml:2:3: tls.cert: needs a key beside it`},
		{"validation in list", "rules:\n  - if: a\n    then: 1\n  - then: 1\n", `a.yaml:4:`},
		{"secret", "token: 12345\n", `a.yaml:1:8: token: must be text; put it in quotes`},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := defaults()
			err := DecodeYAML("a.yaml", []byte(c.doc), &got)
			if err == nil {
				t.Fatalf("no error, want %s", c.want)
			}
			if !strings.Contains(err.Error(), c.want) {
				t.Errorf("got  %s\nwant %s", err, c.want)
			}
			if code := err.(*Error).ExitCode(); code != 2 {
				t.Errorf("exit code %d", code)
			}
		})
	}
}

func TestAllProblemsAtOnce(t *testing.T) {
	got := defaults()
	err := Load(&got, Options{
		File:      write(t, "lisen: x\nworkers: many\n"),
		EnvPrefix: "LYCOSA_T_",
		Env:       []string{"LYCOSA_T_WAITT=5s", "LYCOSA_T_ON=maybe", "LYCOSA_OTHER=1"},
		Flags:     parse(t, "--small", "999"),
	})
	var e *Error
	if !errors.As(err, &e) || len(e.Problems) != 5 {
		t.Fatalf("want five problems, got: %v", err)
	}
	for _, want := range []string{
		`LYCOSA_T_WAITT: unknown setting in the environment (did you mean "LYCOSA_T_WAIT"?)`,
		`LYCOSA_T_ON: on: must be true or false, not "maybe"`,
		`--small: small: must be a whole number from 0 to 255, not "999"`,
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("missing %s in\n%s", want, err)
		}
	}
}

func TestPrecedence(t *testing.T) {
	file := write(t, "listen: file\nworkers: 2\nwait: 2s\ncache: 2kB\nservers: [f]\n")
	env := []string{"LYCOSA_T_WORKERS=3", "LYCOSA_T_WAIT=3s", "LYCOSA_T_TLS_CERT=e", "LYCOSA_T_TLS_KEY=e", "LYCOSA_T_LABELS=a=1, b=2"}
	got := defaults()
	got.Ratio = 0.5
	if err := Load(&got, Options{File: file, EnvPrefix: "LYCOSA_T_", Env: env, Flags: parse(t, "--wait=4s", "--tls.cert", "f", "--on", "--servers", "a,b", "--servers=c", "--log-level", "x")}); err != nil {
		t.Fatal(err)
	}
	want := defaults()
	want.Ratio = 0.5                       // default
	want.Listen, want.Cache = "file", 2000 // file
	want.Workers, want.TLS.Key = 3, "e"    // environment
	want.Labels = map[string]string{"a": "1", "b": "2"}
	want.Wait, want.TLS.Cert, want.On = 4*time.Second, "f", true // flags
	want.Servers = []string{"a", "b", "c"}
	want.LogLevel = "x"
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func TestValidationNamesTheSource(t *testing.T) {
	got := defaults()
	err := Load(&got, Options{EnvPrefix: "LYCOSA_T_", Env: []string{"LYCOSA_T_WORKERS=0"}})
	if err == nil || !strings.HasPrefix(err.Error(), "LYCOSA_T_WORKERS: workers: must be at least 1") {
		t.Errorf("got %v", err)
	}
}

func TestFlagProblems(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--lissten", "x"}, `--lissten: unknown flag (did you mean "--listen"?)`},
		{[]string{"--listen"}, `--listen: needs a value`},
		{[]string{"--version=perhaps"}, `--version: must be true or false, not "perhaps"`},
	} {
		s := defaults()
		f, err := NewFlags(&s)
		if err != nil {
			t.Fatal(err)
		}
		if err := f.Parse(c.args); err == nil || err.Error() != c.want {
			t.Errorf("%v: got %v, want %s", c.args, err, c.want)
		}
	}
}

func TestFlagArguments(t *testing.T) {
	s := defaults()
	f, _ := NewFlags(&s)
	if err := f.Parse([]string{"a", "--on", "b", "-listen=x", "--", "--c"}); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(f.Args, []string{"a", "b", "--c"}) {
		t.Errorf("arguments %q", f.Args)
	}
}

func TestInvocation(t *testing.T) {
	file := write(t, "token: hush\nworkers: 9\n")
	run := func(env []string, args ...string) (string, settings, error) {
		var out bytes.Buffer
		s := defaults()
		err := Invocation{Service: "t", Summary: "a test", Args: args, Env: env, Stdout: &out}.Load(&s)
		return out.String(), s, err
	}
	code := func(err error) int {
		var c interface{ ExitCode() int }
		if errors.As(err, &c) {
			return c.ExitCode()
		}
		return -1
	}

	out, _, err := run(nil, "--check-config", "--config", file)
	if code(err) != 0 {
		t.Errorf("--check-config: %v", err)
	}
	if strings.Contains(out, "hush") || !strings.Contains(out, "***") || !strings.Contains(out, "workers: 9") {
		t.Errorf("--check-config printed:\n%s", out)
	}
	if _, _, err = run(nil, "--check-config", "--workers", "0"); code(err) != 2 {
		t.Errorf("--check-config of bad settings: %v", err)
	}
	if out, _, err = run(nil, "--help"); code(err) != 0 || !strings.Contains(out, "--tls.cert text") ||
		!strings.Contains(out, "address to serve on (default 127.0.0.1:1, LYCOSA_T_LISTEN)") {
		t.Errorf("--help: %v\n%s", err, out)
	}
	if out, _, err = run(nil, "--version"); code(err) != 0 || !strings.HasPrefix(out, "lycosa-t ") {
		t.Errorf("--version: %v %q", err, out)
	}
	if _, _, err = run(nil, "extra"); code(err) != 2 {
		t.Errorf("an argument: %v", err)
	}
	if _, _, err = run(nil, "--config", file+".none"); code(err) != 2 {
		t.Errorf("a missing file: %v", err)
	}
	_, s, err := run([]string{"LYCOSA_T_CONFIG=" + file})
	if err != nil || s.Workers != 9 || s.Token != "hush" {
		t.Errorf("file from the environment: %v %+v", err, s)
	}
}

func TestDumpReadsBack(t *testing.T) {
	limit := 3
	s := defaults()
	s.Cache, s.Level, s.Limit = 1000001, 2, &limit
	s.Servers = []string{"a: b", "007", "true", "", "#x"}
	s.Labels = map[string]string{"k": "1"}
	s.Rules = []rule{{"x", 1}}
	s.Extra = map[string]any{"a": "b"}
	var out bytes.Buffer
	if err := Dump(&out, &s); err != nil {
		t.Fatal(err)
	}
	var got settings
	if err := DecodeYAML("dump.yaml", out.Bytes(), &got); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	s.Sizes = []Size{}
	if !reflect.DeepEqual(got, s) {
		t.Errorf("got  %+v\nwant %+v\n%s", got, s, out.String())
	}
}

func TestAliases(t *testing.T) {
	var s settings
	s.Workers = 1
	if err := DecodeYAML("a.yaml", []byte("servers: &s [a, b]\nlisten: &l \"x\"\nlog_level: *l\nsizes: [1]\n"), &s); err != nil {
		t.Fatal(err)
	}
	if s.LogLevel != "x" {
		t.Errorf("alias gave %q", s.LogLevel)
	}
	// Nine levels of nine aliases are 387 million values.
	doc := "l0: &l0 [a]\n"
	for i := 1; i < 9; i++ {
		doc += "l" + string(rune('0'+i)) + ": &l" + string(rune('0'+i)) + " ["
		for range 9 {
			doc += "*l" + string(rune('0'+i-1)) + ","
		}
		doc += "]\n"
	}
	var bomb struct {
		L0                             []string
		L1, L2, L3, L4, L5, L6, L7, L8 []any
	}
	if err := DecodeYAML("bomb.yaml", []byte(doc), &bomb); err == nil {
		t.Error("the bomb was read")
	}
}

func TestFlagCollision(t *testing.T) {
	var s struct {
		A int `yaml:"a_b"`
		B int `yaml:"a-b"`
	}
	if _, err := NewFlags(&s); err == nil {
		t.Error("two settings with one flag were accepted")
	}
}

func FuzzDecodeYAML(f *testing.F) {
	f.Add([]byte("workers: 1\nrules: [{if: a}]\ntls:\n  cert: x\n"))
	f.Add([]byte("a: &a [*a]\nextra: {x: *a}\n"))
	f.Add([]byte("? [a]\n: b\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		s := defaults()
		if err := DecodeYAML("f.yaml", data, &s); err != nil && err.Error() == "" {
			t.Error("an error without a message")
		}
	})
}

func parse(t *testing.T, args ...string) *Flags {
	t.Helper()
	s := defaults()
	f, err := NewFlags(&s)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Parse(args); err != nil {
		t.Fatal(err)
	}
	return f
}

func write(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "settings.yaml")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}
