//go:build !unix

package allinone

import "os"

// tryLock does nothing here: the frontier's own lock guards the folder.
func tryLock(*os.File) error { return nil }
