package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/shardsched/shardsched/cmd/internal/serving"
	"github.com/shardsched/shardsched/coordinator/framework"
)

// NewSimulateCommand is `shardsched simulate`.
func NewSimulateCommand(run func(context.Context, SimulateOptions) error, plugins framework.Registry) *cobra.Command {
	var o SimulateOptions
	o.plugins = plugins
	c := &cobra.Command{
		Use:     "simulate -f PATH [-f PATH…]",
		GroupID: groupRun,
		Short:   "Schedule files in memory: what would happen if I applied this?",
		Long: `Schedule the pods of files onto the nodes of files, in memory, with the same
coordinator and workers as a real run. Pods with spec.nodeName are already there;
the rest are placed in queue order, and each runs for ever. Workloads stand for
the pods that their controllers would make; pods of a workload that the files
hold already are not made again. A workload that changes one of which the files
hold running pods is an error, and so are files without nodes. Nothing outside
is touched: extenders are not asked unless --ask-extenders is given, and never
to bind; what is left out is said.

The exit code is 0 also where some pods stay pending, and 1 where the input
can't be read.`,
		Example: `  shardsched snapshot --kubeconfig view.conf > cluster.json
  shardsched simulate -f cluster.json -f manifests/
  helm template my-chart | shardsched simulate -f cluster.json -f -
  helm template my-chart | shardsched simulate --live --kubeconfig view.conf -f -
  shardsched simulate --demo --decisions out.jsonl -o json`,
		Args: onlyFiles,
		RunE: func(c *cobra.Command, _ []string) error {
			if o.WriteConfigTo != "" {
				return o.Configuration.write(c.OutOrStdout())
			}
			if err := o.validate(); err != nil {
				return err
			}
			return run(c.Context(), o)
		},
	}
	fs := c.Flags()
	o.Process.addFlags(fs, "")
	o.Sharding.addFlags(fs, "workers", "workers to evaluate with; 0: the coordinator evaluates by itself. No decision depends on it", 2)
	o.Sharding.Cluster, o.Sharding.Replicas = "simulate", 1
	addFileFlags(fs, &o.Files, &o.SkipInvalid, "nodes, pods and workloads")
	fs.BoolVar(&o.Live, "live", false, "read the cluster of --kubeconfig first, as shardsched snapshot would write it")
	o.kubernetes.addFlags(fs, "that --live reads")
	fs.BoolVar(&o.Strict, "strict", false, "refuse custom resources, instead of skipping and counting them")
	fs.BoolVar(&o.Override, "override", false, "have an object of a later file take the place of an earlier one of its kind and name, which "+
		"is an error otherwise")
	fs.StringVarP(&o.Namespace, "namespace", "n", "default", "namespace of objects that name none")
	o.Configuration.addFlags(fs)
	fs.BoolVar(&o.AskExtenders, "ask-extenders", false, "ask the configuration's extenders to filter, prioritize and preempt. None is "+
		"ever asked to bind")
	fs.StringVar(&o.Decisions, "decisions", "", "write every decision to `FILE`, one JSON line each; -: standard output")
	o.Recording.addFlags(fs)
	fs.StringVar(&o.Objects, "write-objects", "", "write what is simulated to `FILE`, with defaults, workloads as their pods")
	addDemoFlags(fs, &o.Demo, &o.Devices, &o.Seed, "simulate")
	o.Tracing.AddFlags(fs)
	addOutputFlag(fs, &o.Output, "text", "json")
	return c
}

func (o *SimulateOptions) validate() error {
	switch {
	case len(o.Files) == 0 && !o.Demo && !o.Live:
		return usagef("-f is required: give files or folders with nodes and pods, or --live, or --demo")
	case o.kubernetes.given() && !o.Live:
		return usagef("--kubeconfig and --context: they are about the cluster that --live reads; give --live, too")
	}
	if err := checkDemo(o.Demo, o.Devices); err != nil {
		return err
	}
	if err := o.Sharding.validate("workers"); err != nil {
		return err
	}
	if o.HTTPListen != "" {
		if err := checkListeners(serving.TLS{}, o.Process); err != nil {
			return err
		}
	}
	return oneOf("output", o.Output, "text", "json")
}
