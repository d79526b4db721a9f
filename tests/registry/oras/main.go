// Command oras is oras for tests: the root command of its own module, nothing added and nothing left out.
package main

import (
	"os"

	"oras.land/oras/cmd/oras/root"
)

func main() {
	if err := root.New().Execute(); err != nil {
		os.Exit(1)
	}
}
