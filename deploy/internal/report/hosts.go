package report

import (
	"bufio"
	"container/heap"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
)

// maxHosts is how many hosts are counted in memory, some 20 MB.
const maxHosts = 100_000

// The numbers of a host, in the order of the columns.
const (
	hostURLs = iota
	hostQueued
	hostLeased
	hostDone
	hostExcluded
	hostFailed
	hostPages
	hostBytes
	hostPayload
	hostNumbers
)

var hostColumns = []string{"host", "urls", "queued", "leased", "done", "excluded", "failed", "pages", "received_bytes", "payload_bytes"}

type hostCounts [hostNumbers]uint64

func (c *hostCounts) add(o *hostCounts) {
	for i := range c {
		c[i] += o[i]
	}
}

// hosts counts by host in bounded memory.
type hosts struct {
	dir    string
	max    int
	counts map[string]*hostCounts
	runs   []*os.File // sorted, each host once
}

func newHosts(dir string, max int) *hosts {
	return &hosts{dir: dir, max: max, counts: map[string]*hostCounts{}}
}

func (h *hosts) of(host string) (*hostCounts, error) {
	c := h.counts[host]
	if c != nil {
		return c, nil
	}
	if len(h.counts) >= h.max {
		if err := h.spill(); err != nil {
			return nil, err
		}
	}
	c = &hostCounts{}
	h.counts[host] = c
	return c, nil
}

func (h *hosts) sorted() []string {
	names := make([]string, 0, len(h.counts))
	for name := range h.counts {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// spill writes what is in memory to a sorted run.
func (h *hosts) spill() error {
	f, err := os.CreateTemp(h.dir, ".hosts-run-*")
	if err != nil {
		return fmt.Errorf("report hosts.csv: %w", err)
	}
	// The file needs no name: it goes away with the process, however it ends.
	_ = os.Remove(f.Name())
	h.runs = append(h.runs, f)
	w := bufio.NewWriter(f)
	var buf []byte
	for _, name := range h.sorted() {
		buf = binary.AppendUvarint(buf[:0], uint64(len(name)))
		buf = append(buf, name...)
		for _, n := range h.counts[name] {
			buf = binary.AppendUvarint(buf, n)
		}
		if _, err := w.Write(buf); err != nil {
			return fmt.Errorf("report hosts.csv: %w", err)
		}
	}
	clear(h.counts)
	if err := w.Flush(); err != nil {
		return fmt.Errorf("report hosts.csv: %w", err)
	}
	_, err = f.Seek(0, io.SeekStart)
	return err
}

// close lets go of the runs.
func (h *hosts) close() {
	for _, f := range h.runs {
		_ = f.Close()
	}
}

// each visits every host once, in order, with its whole count.
func (h *hosts) each(visit func(host string, c *hostCounts) error) error {
	if len(h.runs) == 0 {
		for _, name := range h.sorted() {
			if err := visit(name, h.counts[name]); err != nil {
				return err
			}
		}
		return nil
	}
	if err := h.spill(); err != nil {
		return err
	}
	var m merge
	for _, f := range h.runs {
		r := &run{r: bufio.NewReader(f)}
		if ok, err := r.next(); err != nil {
			return err
		} else if ok {
			m = append(m, r)
		}
	}
	heap.Init(&m)
	for len(m) > 0 {
		name, sum := m[0].host, hostCounts{}
		for len(m) > 0 && m[0].host == name {
			sum.add(&m[0].counts)
			ok, err := m[0].next()
			if err != nil {
				return err
			}
			if ok {
				heap.Fix(&m, 0)
			} else {
				heap.Pop(&m)
			}
		}
		if err := visit(name, &sum); err != nil {
			return err
		}
	}
	return nil
}

// run reads a sorted run.
type run struct {
	r      *bufio.Reader
	host   string
	counts hostCounts
}

func (r *run) next() (bool, error) {
	n, err := binary.ReadUvarint(r.r)
	if errors.Is(err, io.EOF) {
		return false, nil
	}
	name := make([]byte, n)
	if err == nil {
		_, err = io.ReadFull(r.r, name)
	}
	r.host = string(name)
	for i := range r.counts {
		if err == nil {
			r.counts[i], err = binary.ReadUvarint(r.r)
		}
	}
	if err != nil {
		return false, fmt.Errorf("report hosts.csv: read what was set aside: %w", err)
	}
	return true, nil
}

// merge is a heap of runs by their current host.
type merge []*run

func (m merge) Len() int           { return len(m) }
func (m merge) Less(i, j int) bool { return m[i].host < m[j].host }
func (m merge) Swap(i, j int)      { m[i], m[j] = m[j], m[i] }
func (m *merge) Push(x any)        { *m = append(*m, x.(*run)) }
func (m *merge) Pop() any {
	last := (*m)[len(*m)-1]
	*m = (*m)[:len(*m)-1]
	return last
}
