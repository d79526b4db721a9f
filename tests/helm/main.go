// Command helm is Helm for tests: the root command of its own module, nothing added and nothing left out.
//
// With TOPOLOOM_SERVES=1 it runs one command after the other, for tests that render a chart hundreds of times: most of the
// work of a rendering is the start of the process. A command is a line of the standard input with its arguments, the answer
// is a line of the standard output with all that it printed; both are JSON.
//
// It is a module of its own, since Helm wants newer Kubernetes libraries than the control plane beside it is made of.
package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"helm.sh/helm/v4/pkg/cmd"
	"helm.sh/helm/v4/pkg/kube"
)

type answer struct {
	Code   int    `json:"code"`
	Stdout string `json:"stdout"`
	Stderr string `json:"stderr"`
}

func run(args []string, stdout, stderr io.Writer) int {
	root, err := cmd.NewRootCmd(stdout, args, cmd.SetupLogging)
	if err != nil {
		fmt.Fprintln(stderr, "helm:", err)
		return 1
	}
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	// It prints its errors by itself.
	if err := root.Execute(); err != nil {
		var failed cmd.CommandError
		if errors.As(err, &failed) {
			return failed.ExitCode
		}
		return 1
	}
	return 0
}

func serve() error {
	commands := bufio.NewReader(os.Stdin)
	answers := json.NewEncoder(os.Stdout)
	for {
		line, err := commands.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		var args []string
		if err := json.Unmarshal(line, &args); err != nil {
			return err
		}
		var stdout, stderr bytes.Buffer
		code := run(args, &stdout, &stderr)
		if err := answers.Encode(answer{Code: code, Stdout: stdout.String(), Stderr: stderr.String()}); err != nil {
			return err
		}
	}
}

func main() {
	// The owner of the fields that it writes; otherwise the name of this file would be.
	kube.ManagedFieldsManager = "helm"

	if os.Getenv("TOPOLOOM_SERVES") == "1" {
		if err := serve(); err != nil {
			fmt.Fprintln(os.Stderr, "helm:", err)
			os.Exit(1)
		}
		return
	}
	if code := run(os.Args[1:], os.Stdout, os.Stderr); code != 0 {
		os.Exit(code)
	}
}
