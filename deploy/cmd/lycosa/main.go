// Command lycosa crawls the web. See `lycosa --help`.
package main

import (
	"os"

	"lycosa.dev/deploy/internal/cli"
)

func main() { os.Exit(cli.Main()) }
