package weburl

import (
	"errors"
	"fmt"
)

// Reasons why a string is no URL. They name what would be right.
var (
	errNoScheme    = errors.New("no scheme and nothing to resolve it against; an absolute URL such as https://example.org/ is wanted")
	errOpaqueBase  = errors.New("the base has an opaque path; only a #fragment can be resolved against it")
	errHostMissing = errors.New("the host is missing")
	errHostByte    = errors.New("the host holds a character that no host may hold")
	errDomain      = errors.New("the host is not a valid internationalised name (UTS #46)")
	errIPv4        = errors.New("the host ends in a number and is not an IPv4 address")
	errIPv6        = errors.New("the host is not an IPv6 address in brackets")
	errPort        = errors.New("the port is not a number from 0 to 65535")
	errTooLong     = errors.New("the URL is longer than 256 MiB")
)

// Error says why a string could not be parsed.
type Error struct {
	Input  string // what was parsed
	Base   string // what it was resolved against, or ""
	Reason error
}

func (e *Error) Error() string {
	if e.Base != "" {
		return fmt.Sprintf("weburl: %s against %s: %v", quote(e.Input), quote(e.Base), e.Reason)
	}
	return fmt.Sprintf("weburl: %s: %v", quote(e.Input), e.Reason)
}

// Unwrap returns the reason.
func (e *Error) Unwrap() error { return e.Reason }

// quote keeps messages short whatever the input.
func quote(s string) string {
	const most = 200
	if len(s) > most {
		return fmt.Sprintf("%q…", s[:most])
	}
	return fmt.Sprintf("%q", s)
}
