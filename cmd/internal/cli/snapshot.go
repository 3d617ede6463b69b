package cli

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/shardsched/shardsched/cmd/internal/snapshot"
)

func newSnapshotCommand(s Streams) *cobra.Command {
	var access kubeAccess
	c := &cobra.Command{
		Use:     "snapshot",
		GroupID: groupOther,
		Short:   "Write what a Kubernetes cluster holds that has a say in scheduling, for simulate",
		Long: `Write a JSON List of the objects of a cluster that have a say in where its pods
go: nodes, pods, workloads, volumes, classes and all else that
docs/operations.md lists under "Objects". They are listed in pages, all at one
resource version where the API server still has that. Secrets and ConfigMaps are
never read, and nothing is written to the cluster. What pod templates say of
their environment is in it: keep the file as you keep those.`,
		Example: `  shardsched snapshot --kubeconfig view.conf > cluster.json
  shardsched simulate -f cluster.json -f manifests/`,
		Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error { return runSnapshot(c.Context(), s, access) },
	}
	access.addFlags(c.Flags(), "to read")
	return c
}

func runSnapshot(ctx context.Context, s Streams, access kubeAccess) error {
	config, err := access.rest()
	if err != nil {
		return err
	}
	result, err := snapshot.Write(ctx, config, s.Out)
	if err != nil {
		return fmt.Errorf("snapshot: %w", err)
	}
	fmt.Fprintln(s.Err, result)
	return nil
}

// readInput reads files, behind the cluster itself where it is live. Nobody can be placed without nodes, which is an error.
func (a *kubeAccess) readInput(ctx context.Context, s Streams, live bool, request inputRequest) (in *Input, err error) {
	if live {
		if request.First, request.From, err = a.snapshot(ctx, s); err != nil {
			return nil, err
		}
	}
	if in, err = readInput(s, request); err == nil && len(in.Nodes) == 0 {
		err = fmt.Errorf("%s: no node in the input, so no pod can be placed: shardsched snapshot writes all that is wanted of a cluster",
			cmp.Or(strings.Join(request.Paths, ", "), request.From))
	}
	return in, err
}

// snapshot reads the cluster, and tells what it is called.
func (a *kubeAccess) snapshot(ctx context.Context, s Streams) (all []runtime.Object, from string, err error) {
	config, err := a.rest()
	if err != nil {
		return nil, "", err
	}
	result, err := snapshot.Read(ctx, config, func(obj runtime.Object) error {
		all = append(all, obj)
		return nil
	})
	if err != nil {
		return nil, "", fmt.Errorf("read the cluster: %w", err)
	}
	fmt.Fprintf(s.Err, "read %s\n", result)
	return all, "cluster " + config.Host, nil
}
