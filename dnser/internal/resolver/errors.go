package resolver

import "errors"

// Why an asker has no answer; they are told in Answer.Detail.
var (
	errPending = errors.New("not answered yet: the question is still being asked")
	errBusy    = errors.New("as many names are being asked as may be at a time")
	errStopped = errors.New("the resolver is stopping")
)
