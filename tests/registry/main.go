// Command registry is the registry of the CNCF's distribution, for tests: with a disk to store on, and the two ways to prove who
// asks. The client is beside it.
//
// With TOPOLOOM_DIE_WITH_STDIN=1 it ends when its standard input does, so that a killed test run leaves no process behind: the
// kernel closes the pipe whatever happened to the process at its other end.
package main

import (
	"io"
	"os"

	"github.com/distribution/distribution/v3/registry"
	_ "github.com/distribution/distribution/v3/registry/auth/htpasswd"
	_ "github.com/distribution/distribution/v3/registry/auth/token"
	_ "github.com/distribution/distribution/v3/registry/storage/driver/filesystem"
)

// exitOrphaned tells an end by a closed input from a failure of the server.
const exitOrphaned = 3

func main() {
	if os.Getenv("TOPOLOOM_DIE_WITH_STDIN") == "1" {
		go func() {
			_, _ = io.Copy(io.Discard, os.Stdin)
			os.Exit(exitOrphaned)
		}()
	}
	if err := registry.RootCmd.Execute(); err != nil {
		os.Exit(1)
	}
}
