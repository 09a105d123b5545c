// Package benchreport says where and when a benchmark was run, and keeps its
// report as a file: what the benchmarks of several modules have in common.
package benchreport

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

// Origin is where figures come from; a report embeds it.
type Origin struct {
	// Date is in UTC, to the second.
	Date time.Time `json:"date"`
	// Commit is what git describes the working folder as, with "-dirty" where it
	// was changed; "unknown" outside a checkout.
	Commit  string  `json:"commit"`
	Machine Machine `json:"machine"`
}

// Machine is what the figures depend on; what the system does not tell is empty.
type Machine struct {
	CPU         string `json:"cpu"`
	CPUs        int    `json:"cpus"`
	MemoryBytes int64  `json:"memory_bytes"`
	Kernel      string `json:"kernel"`
	Go          string `json:"go"`
	Platform    string `json:"platform"`
	// LoadAverage is the machine's before the measurement: figures of a busy
	// machine do not compare with those of an idle one.
	LoadAverage string `json:"load_average"`
}

// Here is the origin of what is measured from now on.
func Here() Origin {
	return Origin{Date: time.Now().UTC().Truncate(time.Second), Commit: commit(), Machine: machine()}
}

func commit() string {
	out, err := exec.Command("git", "describe", "--always", "--dirty").Output()
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(out))
}

func machine() Machine {
	m := Machine{CPUs: runtime.NumCPU(), Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	m.CPU = field("/proc/cpuinfo", "model name")
	var kib int64
	if _, err := fmt.Sscanf(field("/proc/meminfo", "MemTotal"), "%d kB", &kib); err == nil {
		m.MemoryBytes = kib << 10
	}
	m.Kernel = firstLine("/proc/sys/kernel/osrelease")
	m.LoadAverage = firstLine("/proc/loadavg")
	return m
}

// field is the value of the first "name : value" line of a file under /proc.
func field(path, name string) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(b)) {
		if k, v, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(k) == name {
			return strings.TrimSpace(v)
		}
	}
	return ""
}

func firstLine(path string) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	line, _, _ := strings.Cut(string(b), "\n")
	return line
}

// Write puts a report as JSON into a folder, which is made if need be, and
// returns the file's path: date, kind (empty: none) and commit are its name.
func (o *Origin) Write(dir, kind string, report any) (string, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	b, err := json.MarshalIndent(report, "", "  ")
	if err != nil {
		return "", err
	}
	name := o.Date.Format("20060102T150405Z")
	if kind != "" {
		name += "-" + kind
	}
	path := filepath.Join(dir, name+"-"+strings.TrimSuffix(o.Commit, "-dirty")+".json")
	return path, os.WriteFile(path, append(b, '\n'), 0o644)
}
