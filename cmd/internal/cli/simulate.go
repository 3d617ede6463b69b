package cli

import (
	"context"
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"github.com/shardsched/shardsched/cmd/internal/client"
	"github.com/shardsched/shardsched/cmd/internal/serving"
	"github.com/shardsched/shardsched/coordinator/framework"
	"github.com/shardsched/shardsched/coordinator/groups"
)

// NewSimulateCommand is `shardsched simulate`.
func NewSimulateCommand(run func(context.Context, SimulateOptions) error, plugins framework.Registry) *cobra.Command {
	var o SimulateOptions
	o.plugins = plugins
	c := &cobra.Command{
		Use:     "simulate -f PATH [-f PATH…]",
		GroupID: groupRun,
		Short:   "Schedule files in memory: what would happen if I applied this?",
		Long: `Tell what would happen if files were applied to a cluster, in memory, with the
same coordinator and workers as a real run. Nothing outside is touched: extenders
are not asked unless --ask-extenders is given, and never to bind; what is left out
is said.

Objects with a UID are the cluster's, pods with spec.nodeName are there already;
all else is the change. A workload of the change is held against the cluster's of
its kind, namespace and name: pods come, go in the order of its controller, or are
replaced as its update strategy says. A workload that loses pods makes them again.
The answer is by workload: before and after, where pods go, what pends and why, who
is pushed out, which PodDisruptionBudget breaks, and what room is left. Where there
are only nodes and pods, or with --write-objects, it is the summary of one schedule,
in which every pod runs for ever.

The exit code is 0 where all of the change has a place, 2 where something of it or
of what it takes off nodes pends, whatever form the answer has, and 1 where the
input or the command line can't be used. Where there are only nodes and pods, the
pods without a UID and a node are the change.`,
		Example: `  shardsched snapshot --kubeconfig view.conf > cluster.json
  shardsched simulate -f cluster.json -f manifests/
  helm template my-chart | shardsched simulate -f cluster.json -f - -o markdown
  helm template my-chart | shardsched simulate --live --kubeconfig view.conf -f -
  shardsched simulate -f cluster.json --drain node-1 --drain node-2 --add-nodes 3=node.yaml
  shardsched simulate --demo --decisions out.jsonl -o json`,
		Args: cobra.ArbitraryArgs, // an error of Args has exit code 2
		RunE: func(c *cobra.Command, args []string) error {
			if err := onlyFiles(c, args); err != nil {
				return seeHelpFails(c, err)
			}
			if o.WriteConfigTo != "" {
				return o.Configuration.write(c.OutOrStdout())
			}
			if err := o.validate(); err != nil {
				return notUsage(err)
			}
			return run(c.Context(), o)
		},
	}
	c.SetFlagErrorFunc(seeHelpFails)
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
	o.podGroups = groups.All()
	fs.BoolVar(&o.AskExtenders, "ask-extenders", false, "ask the configuration's extenders to filter, prioritize and preempt. None is "+
		"ever asked to bind")
	fs.StringVar(&o.Decisions, "decisions", "", "write every decision to `FILE`, one JSON line each; -: standard output")
	o.Recording.addFlags(fs)
	fs.StringVar(&o.Objects, "write-objects", "", "write what is simulated to `FILE`, with defaults, workloads as their pods")
	fs.StringVar(&o.Picture, "picture", "", "draw where the members of PodGroups go to `FILE`, as SVG")
	addDemoFlags(fs, &o.Demo, &o.Devices, &o.Seed, "simulate")
	o.Tracing.AddFlags(fs)
	fs.StringVar(&o.Rollout, "rollout", "rolling", "how a changed template comes to the pods: rolling, as the workload's strategy says, or "+
		"replace, all at once")
	fs.StringSliceVar(&o.Delete, "delete", nil, "delete the workload `KIND/NAMESPACE/NAME` with its pods; repeatable")
	fs.StringSliceVar(&o.Drain, "drain", nil, "empty `NODE` as kubectl drain does, as far as PodDisruptionBudgets allow; repeatable")
	fs.StringSliceVar(&o.Cordon, "cordon", nil, "let `NODE` take no more pods; repeatable")
	fs.StringSliceVar(&o.RemoveNodes, "remove-node", nil, "have `NODE` gone with its pods; repeatable")
	fs.StringSliceVar(&o.AddNodes, "add-nodes", nil, "add nodes like the one of a file: `COUNT=FILE`, or like one that is there: "+
		"COUNT=node/NAME; repeatable")
	fs.StringSliceVar(&o.Scale, "scale", nil, "have a workload of the cluster be of so many replicas: `KIND/NAMESPACE/NAME=REPLICAS`; "+
		"repeatable")
	fs.StringVar(&o.Explain, "explain", "", "explain `POD` after the change, NAMESPACE/NAME, or of a workload the pod that is worst off, "+
		"KIND/NAMESPACE/NAME")
	fs.StringVar(&o.Diff, "diff", "", "compare with the answer of an earlier run, which -o json has written to `FILE`")
	fs.StringVar(&o.CompareConfig, "compare-config", "", "compare with what the configuration of another `FILE` comes to")
	addOutputFlag(fs, &o.Output, "text", "json", "markdown")
	return c
}

// notUsage is an error that a script can't take for the exit code of a change that pends.
func notUsage(err error) error {
	if usage := (usageError{}); errors.As(err, &usage) {
		return errors.New(usage.Error()) // with usage errors that it wraps
	}
	return err
}

// readExplain reads --explain as `shardsched explain` reads what it is given.
func (o *SimulateOptions) readExplain() error {
	if o.Explain == "" {
		return nil
	}
	x, err := (&explainOptions{namespace: o.Namespace}).subject([]string{o.Explain})
	switch {
	case err != nil:
		return usagef("--explain: %v", err)
	case x.kind == client.KindNode:
		return usagef("--explain %s: a pod or a workload can be explained here", o.Explain)
	}
	o.explained = &x
	return nil
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
	if err := oneOf("rollout", o.Rollout, "rolling", "replace"); err != nil {
		return err
	}
	if err := o.readExplain(); err != nil {
		return err
	}
	if o.Diff != "" && o.CompareConfig != "" {
		return usagef("--diff and --compare-config both say what to compare with: give one of them")
	}
	if asked := o.changes(); o.Objects != "" && len(asked) > 0 {
		return usagef("--write-objects is of one schedule, without a change: leave %s out", strings.Join(asked, ", "))
	}
	if err := oneOf("output", o.Output, "text", "json", "markdown"); err != nil {
		return err
	}
	if asked := o.changes(); o.Picture != "" && len(asked) > 0 {
		return usagef("--picture is of one schedule, without a change: leave %s out", strings.Join(asked, ", "))
	}
	if o.Objects != "" && o.Output == "markdown" {
		return usagef("--write-objects is of one schedule, which has no markdown form")
	}
	return nil
}
