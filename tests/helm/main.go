// Command helm is Helm for tests: the root command of its own module, nothing added and nothing left out.
//
// It is a module of its own, since Helm wants newer Kubernetes libraries than the control plane beside it is made of.
package main

import (
	"errors"
	"fmt"
	"os"

	"helm.sh/helm/v4/pkg/cmd"
	"helm.sh/helm/v4/pkg/kube"
)

func main() {
	// The owner of the fields that it writes; otherwise the name of this file would be.
	kube.ManagedFieldsManager = "helm"

	root, err := cmd.NewRootCmd(os.Stdout, os.Args[1:], cmd.SetupLogging)
	if err != nil {
		fmt.Fprintln(os.Stderr, "helm:", err)
		os.Exit(1)
	}
	// It prints its errors by itself.
	if err := root.Execute(); err != nil {
		var failed cmd.CommandError
		if errors.As(err, &failed) {
			os.Exit(failed.ExitCode)
		}
		os.Exit(1)
	}
}
