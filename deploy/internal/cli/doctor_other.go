//go:build !unix

package cli

import "errors"

var errUnknown = errors.New("unknown on this system")

func fileLimit() (soft, hard uint64, err error) { return 0, 0, errUnknown }

func freeBytes(string) (uint64, error) { return 0, errUnknown }

func memoryBytes() (uint64, error) { return 0, errUnknown }
