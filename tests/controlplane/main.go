// Command controlplane is a Kubernetes control plane for tests in one binary: the first argument names the program to be.
// kubectl is beside it.
//
// With TOPOLOOM_DIE_WITH_STDIN=1 a server ends when its standard input does, so that a killed test run leaves no process
// behind: the kernel closes the pipe whatever happened to the process at its other end.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"runtime"
	"syscall"

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/etcdutl/v3/etcdutl"
	"go.etcd.io/etcd/server/v3/etcdmain"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/flagz"
	"k8s.io/client-go/rest"
	"k8s.io/component-base/cli"
	"k8s.io/component-base/cli/globalflag"
	"k8s.io/component-base/compatibility"
	"k8s.io/component-base/logs"
	logsapi "k8s.io/component-base/logs/api/v1"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	"k8s.io/kubernetes/cmd/kube-apiserver/app/options"
	manager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
)

const usage = "usage: controlplane etcd|etcdutl|kube-apiserver|kube-scheduler|kube-controller-manager [ARGUMENT...]"

// exitOrphaned tells an end by a closed input from a failure of the server.
const exitOrphaned = 3

func dieWithStdin() {
	if os.Getenv("TOPOLOOM_DIE_WITH_STDIN") != "1" {
		return
	}
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(exitOrphaned)
	}()
}

// largePages lets the kernel give the heap large pages. The servers collect no garbage while they start, so each of them touches
// hundreds of megabytes of new memory, and with small pages a tenth of all that they do is to wait for the kernel. It can be
// asked only for memory that is mapped: so the heap grows once, and what it grew by is free again.
func largePages(megabytes int) {
	heap := make([]byte, megabytes<<20)
	// A kernel without large pages refuses.
	_ = syscall.Madvise(heap, syscall.MADV_HUGEPAGE)
	runtime.GC()
}

// apiserverCommand is the command of kube-apiserver, without the description of its API of version 2, which clients ask for only where
// there is none of version 3, and without that of custom resources: at each start the server would put them together for all
// resources.
func apiserverCommand() *cobra.Command {
	ctx := genericapiserver.SetupSignalContext()
	s := options.NewServerRunOptions()
	registry := s.GenericServerRunOptions.ComponentGlobalsRegistry
	command := &cobra.Command{
		Use:          "kube-apiserver",
		SilenceUsage: true,
		Args:         cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if err := registry.Set(); err != nil {
				return err
			}
			rest.SetDefaultWarningHandler(rest.NoWarnings{})
			gates := registry.FeatureGateFor(compatibility.DefaultKubeComponent)
			if err := logsapi.ValidateAndApply(s.Logs, gates); err != nil {
				return err
			}
			completed, err := s.Complete(ctx)
			if err != nil {
				return err
			}
			if errs := completed.Validate(); len(errs) != 0 {
				return utilerrors.NewAggregate(errs)
			}
			return serve(ctx, completed)
		},
	}
	sets := s.Flags()
	s.Flagz = flagz.NamedFlagSetsReader{FlagSets: sets}
	globalflag.AddGlobalFlags(sets.FlagSet("global"), command.Name(), logs.SkipLoggingConfigurationFlags())
	for _, set := range sets.FlagSets {
		command.Flags().AddFlagSet(set)
	}
	return command
}

func serve(ctx context.Context, opts options.CompletedOptions) error {
	config, err := apiserver.NewConfig(opts)
	if err != nil {
		return err
	}
	config.KubeAPIs.ControlPlane.Generic.OpenAPIConfig = nil
	config.ApiExtensions.GenericConfig.OpenAPIConfig = nil
	config.Aggregator.GenericConfig.OpenAPIConfig = nil
	completed, err := config.Complete()
	if err != nil {
		return err
	}
	server, err := apiserver.CreateServerChain(completed)
	if err != nil {
		return err
	}
	prepared, err := server.PrepareRun()
	if err != nil {
		return err
	}
	return prepared.Run(ctx)
}

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, usage)
		os.Exit(2)
	}
	// The programs read os.Args themselves: each has to find its own name in front.
	program := os.Args[1]
	os.Args = os.Args[1:]
	switch program {
	case "etcd":
		dieWithStdin()
		largePages(64)
		etcdmain.Main(os.Args)
	case "etcdutl":
		command := &cobra.Command{Use: "etcdutl"}
		command.AddCommand(etcdutl.NewSnapshotCommand())
		os.Exit(cli.Run(command))
	case "kube-apiserver":
		dieWithStdin()
		largePages(512)
		os.Exit(cli.Run(apiserverCommand()))
	case "kube-scheduler":
		dieWithStdin()
		os.Exit(cli.Run(scheduler.NewSchedulerCommand()))
	case "kube-controller-manager":
		dieWithStdin()
		os.Exit(cli.Run(manager.NewControllerManagerCommand()))
	default:
		fmt.Fprintf(os.Stderr, "unknown program %q\n%s\n", program, usage)
		os.Exit(2)
	}
}
