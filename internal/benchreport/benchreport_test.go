package benchreport

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestWrite(t *testing.T) {
	type report struct {
		Origin
		Figure int `json:"figure"`
	}
	o := Origin{Date: time.Date(2026, 5, 1, 10, 20, 30, 0, time.UTC), Commit: "abc1234-dirty"}
	for kind, name := range map[string]string{"": "20260501T102030Z-abc1234.json", "dns": "20260501T102030Z-dns-abc1234.json"} {
		dir := filepath.Join(t.TempDir(), "new")
		path, err := o.Write(dir, kind, &report{o, 7})
		if err != nil || path != filepath.Join(dir, name) {
			t.Fatalf("kind %q: %s, %v; want %s", kind, path, err, name)
		}
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var got report
		if err := json.Unmarshal(b, &got); err != nil || got.Figure != 7 || !got.Date.Equal(o.Date) || got.Commit != o.Commit {
			t.Errorf("kind %q: %s, %v", kind, b, err)
		}
	}
}

func TestHere(t *testing.T) {
	o := Here()
	if o.Date.IsZero() || o.Commit == "" || o.Machine.CPUs < 1 || o.Machine.Go == "" || o.Machine.Platform == "" {
		t.Errorf("%+v", o)
	}
}
