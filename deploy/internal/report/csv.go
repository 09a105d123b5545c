package report

import (
	"bufio"
	"encoding/csv"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"unicode"
)

// file is a file that appears under its name when it is whole.
type file struct {
	path string
	f    *os.File
	w    *bufio.Writer
}

func create(dir, name string) (*file, error) {
	f, err := os.CreateTemp(dir, "."+name+"-*")
	if err != nil {
		return nil, fmt.Errorf("report %s: %w", name, err)
	}
	return &file{path: filepath.Join(dir, name), f: f, w: bufio.NewWriterSize(f, 64<<10)}, nil
}

// commit makes the file appear.
func (f *file) commit() error {
	err := f.w.Flush()
	if err == nil {
		err = f.f.Chmod(0o644)
	}
	if err == nil {
		err = f.f.Sync()
	}
	if closeErr := f.f.Close(); err == nil {
		err = closeErr
	}
	if err == nil {
		err = os.Rename(f.f.Name(), f.path)
	}
	if err != nil {
		_ = os.Remove(f.f.Name())
		return fmt.Errorf("report %s: %w", filepath.Base(f.path), err)
	}
	return nil
}

// discard takes the unfinished file away; after commit it does nothing.
func (f *file) discard() {
	_ = f.f.Close()
	_ = os.Remove(f.f.Name())
}

// table is a CSV file.
type table struct {
	*file
	csv *csv.Writer
	row []string
}

func createTable(dir, name string, columns ...string) (*table, error) {
	f, err := create(dir, name)
	if err != nil {
		return nil, err
	}
	t := &table{file: f, csv: csv.NewWriter(f.w)}
	return t, t.csv.Write(columns)
}

// add writes a row. Strings are made safe; numbers are as they are.
func (t *table) add(cells ...any) error {
	t.row = t.row[:0]
	for _, c := range cells {
		switch c := c.(type) {
		case string:
			t.row = append(t.row, Cell(c))
		case uint64:
			t.row = append(t.row, strconv.FormatUint(c, 10))
		default:
			t.row = append(t.row, Cell(fmt.Sprint(c)))
		}
	}
	return t.csv.Write(t.row)
}

func (t *table) commit() error {
	t.csv.Flush()
	if err := t.csv.Error(); err != nil {
		t.discard()
		return fmt.Errorf("report %s: %w", filepath.Base(t.path), err)
	}
	return t.file.commit()
}

// Cell makes text safe for a spreadsheet: a cell that begins with what starts a
// formula gets an apostrophe before it, control characters become spaces.
func Cell(s string) string {
	s = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == unicode.ReplacementChar {
			return ' '
		}
		return r
	}, s)
	if s != "" && strings.ContainsRune("=+-@|%", rune(s[0])) || strings.HasPrefix(s, " ") && strings.TrimLeft(s, " ") != "" && strings.ContainsRune("=+-@|%", rune(strings.TrimLeft(s, " ")[0])) {
		return "'" + s
	}
	return s
}
