//go:build !unix

package cli

import (
	"errors"
	"os"
)

// askForReports is not possible here.
func askForReports(int) error {
	return errors.New("this system has no signal for that; stop the crawl first")
}

// reportSignals never hears anything here.
func reportSignals() <-chan os.Signal { return nil }
