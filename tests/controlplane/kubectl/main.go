// Command kubectl is kubectl for tests. Tests run it hundreds of times, and a binary with the servers in it starts much slower:
// they initialise their packages, whatever the first argument says.
package main

import (
	"os"

	"k8s.io/component-base/cli"
	"k8s.io/kubectl/pkg/cmd"
)

func main() {
	os.Exit(cli.Run(cmd.NewDefaultKubectlCommand()))
}
