package config

import "testing"

func TestParseSize(t *testing.T) {
	for in, want := range map[string]Size{
		"0": 0, "512": 512, "512B": 512, "1kB": 1000, "1KB": 1000, "64kib": 65536, "10MiB": 10 << 20,
		"1 GB": 1e9, "1.5GiB": 3 << 29, "2TiB": 2 << 40, "1_000": 1000, " 7 B ": 7, "8388607TiB": 8388607 << 40,
	} {
		if got, err := ParseSize(in); err != nil || got != want {
			t.Errorf("ParseSize(%q) = %d, %v; want %d", in, got, err, want)
		}
	}
	for _, in := range []string{"", "MiB", "10M", "10 furlongs", "-1", "1.2.3MB", "9999999TiB", "1e3", "9223372036854775808", "99999999999999.5PiB"} {
		if got, err := ParseSize(in); err == nil {
			t.Errorf("ParseSize(%q) = %d, want an error", in, got)
		}
	}
}

func TestFormatSizeReadsBack(t *testing.T) {
	for in, want := range map[Size]string{
		0: "0B", 1: "1B", 1000: "1kB", 1024: "1KiB", 1536: "1536B", 10 << 20: "10MiB", 1e9: "1GB", 1000001: "1000001B", -1024: "-1KiB",
	} {
		got := FormatSize(in)
		if got != want {
			t.Errorf("FormatSize(%d) = %q, want %q", in, got, want)
		}
		if in < 0 {
			continue
		}
		if back, err := ParseSize(got); err != nil || back != in {
			t.Errorf("ParseSize(%q) = %d, %v; want %d", got, back, err, in)
		}
	}
}

func TestClosest(t *testing.T) {
	names := []string{"listen", "max_depth", "max_delay", "tls.cert", "on", "user_agent"}
	for in, want := range map[string]string{
		"lisen": "listen", "lsiten": "listen", "LISTEN": "listen", "maxDepth": "max_depth", "max-dealy": "max_delay",
		"tls_cert": "tls.cert", "no": "on", "useragnet": "user_agent", "zzzzzz": "", "": "", "x": "",
	} {
		if got := Closest(in, names); got != want {
			t.Errorf("Closest(%q) = %q, want %q", in, got, want)
		}
	}
}
