//go:build unix

package fetch

import (
	"io"
	"syscall"

	"lycosa.dev/downloader/internal/bufpool"
)

// probe is the state of the system calls that a conn makes beside net.Conn,
// with the functions made once so that a call allocates nothing.
type probe struct {
	one            [1]byte
	n              int
	err            error
	buf            *bufpool.Buffer
	peekFn         func(uintptr)
	waitFn, readFn func(uintptr) bool
}

func (p *probe) init() {
	p.peekFn = func(fd uintptr) { p.n, p.err = p.peek(fd) }
	p.waitFn = func(fd uintptr) bool {
		_, p.err = p.peek(fd)
		return p.err != syscall.EAGAIN
	}
	p.readFn = func(fd uintptr) bool {
		p.buf = bufpool.Get()
		for {
			p.n, p.err = syscall.Read(int(fd), p.buf.B)
			if p.err != syscall.EINTR {
				break
			}
		}
		if p.err == nil && p.n > 0 {
			return true
		}
		p.buf.Release()
		p.buf = nil
		return p.err != syscall.EAGAIN
	}
}

func (p *probe) peek(fd uintptr) (int, error) {
	for {
		n, _, err := syscall.Recvfrom(int(fd), p.one[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		if err != syscall.EINTR {
			return n, err
		}
	}
}

// peek tells whether bytes wait to be read, and whether the connection is gone.
func (c *conn) peek() (pending, gone bool) {
	if c.raw.Control(c.probe.peekFn) != nil {
		return false, true
	}
	if c.probe.err == syscall.EAGAIN {
		return false, false
	}
	return c.probe.n > 0, c.probe.err != nil || c.probe.n == 0
}

// waitReady returns when there is something to read. A socket tells of a reset
// once: who looks gets it, and has to pass it on.
func (c *conn) waitReady() error {
	c.probe.err = nil
	if err := c.raw.Read(c.probe.waitFn); err != nil {
		return err
	}
	return c.probe.err
}

// readReady waits and reads into a buffer taken when there is something to read.
func (c *conn) readReady() (*bufpool.Buffer, int, error) {
	p := &c.probe
	p.n, p.err = 0, nil
	if err := c.raw.Read(p.readFn); err != nil {
		return nil, 0, err
	}
	buf := p.buf
	p.buf = nil
	switch {
	case p.err != nil:
		return nil, 0, p.err
	case buf == nil:
		return nil, 0, io.EOF
	}
	return buf, p.n, nil
}
