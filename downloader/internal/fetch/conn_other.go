//go:build !unix

package fetch

import "lycosa.dev/downloader/internal/bufpool"

// probe is empty where the system calls of conn_unix.go do not exist. A
// connection that the server has closed is then found out by using it.
type probe struct{}

func (*probe) init() {}

func (*conn) peek() (pending, gone bool) { return false, false }

func (*conn) waitReady() error { return nil }

func (c *conn) readReady() (*bufpool.Buffer, int, error) {
	buf := bufpool.Get()
	n, err := c.Read(buf.B)
	if n == 0 {
		buf.Release()
		buf = nil
	}
	return buf, n, err
}
