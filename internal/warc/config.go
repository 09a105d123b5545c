package warc

import (
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"runtime"
	"time"

	"github.com/klauspost/compress/gzip"
)

// Config is what a Writer needs to know. Dir and Job have no default.
type Config struct {
	// Dir is the folder of the files; it is created.
	Dir string
	// Job is the first part of every file name: letters, digits, '.', '_', '-'.
	Job string
	// MaxFileBytes closes a file before a page that would make it larger
	// (compressed). Default 1 GiB. One page larger than it gets a file of its own.
	MaxFileBytes int64
	// Level is the gzip level, 1 to 9, or -2 for Huffman coding only. Default 1.
	Level int
	// Compressors is how many pages are compressed at once. Default GOMAXPROCS.
	Compressors int
	// MaxPending bounds the Write calls that hold compressed records; more wait.
	// Default 256.
	MaxPending int
	// MemoryBytes is how much of one call's compressed records is kept in
	// memory; more goes to a temporary file in Dir. Default 1 MiB.
	MemoryBytes int
	// LargeBytes is the body size from which a record is compressed apart, one
	// at a time, so that it keeps no page waiting. Default 1 MiB.
	LargeBytes int64
	// BlockDigests adds WARC-Block-Digest to records that have a payload digest.
	BlockDigests bool
	// Info are further fields of every file's warcinfo record (operator, robots,
	// http-header-user-agent, isPartOf, …). "software" replaces the default one.
	Info []Field
	// FS is the file system; nil is the real one.
	FS FS
	// Now is the clock of file names and of records without a date; nil is time.Now.
	Now func() time.Time
	// Log gets recoveries, rotations and failures; nil discards.
	Log *slog.Logger
}

var jobName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$`)

func (c Config) withDefaults() (Config, error) {
	var errs []error
	if c.Dir == "" {
		errs = append(errs, errors.New("warc: Dir is empty; it must name the folder of the files"))
	}
	if !jobName.MatchString(c.Job) {
		errs = append(errs, fmt.Errorf("warc: Job %q cannot begin a file name; use up to 100 letters, digits, '.', '_' and '-', a letter or digit first", c.Job))
	}
	if c.MaxFileBytes == 0 {
		c.MaxFileBytes = 1 << 30
	}
	if c.Level == 0 {
		c.Level = gzip.BestSpeed
	}
	if c.Level != gzip.HuffmanOnly && (c.Level < gzip.BestSpeed || c.Level > gzip.BestCompression) {
		errs = append(errs, fmt.Errorf("warc: Level is %d; it must be 1 to 9, or -2", c.Level))
	}
	if c.Compressors == 0 {
		c.Compressors = runtime.GOMAXPROCS(0)
	}
	if c.MaxPending == 0 {
		c.MaxPending = 256
	}
	if c.MemoryBytes == 0 {
		c.MemoryBytes = 1 << 20
	}
	if c.LargeBytes == 0 {
		c.LargeBytes = 1 << 20
	}
	for name, v := range map[string]int64{
		"MaxFileBytes": c.MaxFileBytes, "Compressors": int64(c.Compressors), "MaxPending": int64(c.MaxPending),
		"MemoryBytes": int64(c.MemoryBytes), "LargeBytes": c.LargeBytes,
	} {
		if v < 0 {
			errs = append(errs, fmt.Errorf("warc: %s is %d; it must be positive", name, v))
		}
	}
	for _, f := range c.Info {
		if f.Name == "" || !isToken(f.Name) || hasControl(f.Value) {
			errs = append(errs, fmt.Errorf("warc: Info field %q: %q cannot be written", f.Name, f.Value))
		}
	}
	if c.FS == nil {
		c.FS = OS()
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return c, errors.Join(errs...)
}
