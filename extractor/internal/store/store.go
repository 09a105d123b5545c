// Package store keeps pages: in WARC files, as plain files, or not at all. A
// Put returns when the page is durable; one that fails has left no trace that
// counts.
package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"syscall"

	"lycosa.dev/extractor/internal/page"
	"lycosa.dev/internal/warc"
	crawlv1 "lycosa.dev/proto/gen/lycosa/crawl/v1"
)

// Store keeps the pages of one job; safe for concurrent use.
type Store interface {
	// Name is the name that specs use.
	Name() string
	// Put makes a page durable. A page that the store has nothing to keep of
	// (no response) gives nil. ErrUnavailable is wrapped when the storage
	// cannot be written.
	Put(ctx context.Context, p *page.Page) (*crawlv1.StoredRecord, error)
	// Close makes everything durable and closes files.
	Close() error
}

// ErrUnavailable: the storage is full or cannot be written.
var ErrUnavailable = errors.New("storage unavailable")

// classify wraps errors of the storage with ErrUnavailable.
func classify(err error) error {
	var storage *warc.StorageError
	var path *fs.PathError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &storage), errors.As(err, &path),
		errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EROFS), errors.Is(err, syscall.EDQUOT):
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return err
}

var _ io.Closer = Store(nil)
