package cli

import (
	"context"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/shardsched/shardsched/cmd/internal/readonly"
	"github.com/shardsched/shardsched/coordinator/framework"
)

// NewShadowCommand is `shardsched shadow`.
func NewShadowCommand(run func(context.Context, ShadowOptions) error, plugins framework.Registry) *cobra.Command {
	var o ShadowOptions
	o.plugins = plugins
	c := &cobra.Command{
		Use:     "shadow",
		GroupID: groupRun,
		Short:   "Decide beside a live scheduler, bind nothing, and tell how far both agree",
		Long: `Run beside the scheduler of a live cluster, decide what that one decides, and
bind nothing: would another scheduler place these pods, and where?

- Each decision of theirs is held against ours at the state that it was made at: the
  same node, a tie, a node of a lower score, a node that we would refuse.
- A second world has the pods where ours puts them, until the real ones leave: nodes in
  use, what is stranded, who waits.
- How long pods wait, and what deciding costs.

The cluster is read and not touched: nothing but lists and watches is asked for, and
credentials that may bind pods are refused unless --allow-binding-credentials is given.
Neither extenders nor plugins that are compiled in are asked: pods in which they have a
say are counted.

The pods of the profiles of --config are judged: give it the other scheduler's own file.
What the report's lines mean is in docs/shadow.md.

The exit code is 0 where this scheduler is ready to take over, 2 where something
stands in the way, and 1 where the run has failed or the command line can't be used.`,
		Example: `  shardsched shadow --kubeconfig view.conf --config kube-scheduler.yaml --for 24h --report report.html
  shardsched shadow --kubeconfig view.conf --for 10m --report - --report report.json`,
		Args: cobra.ArbitraryArgs, // an error of Args has exit code 2
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) > 0 {
				return seeHelpFails(c, noArgs(c, args))
			}
			if o.WriteConfigTo != "" {
				return o.Configuration.write(c.OutOrStdout())
			}
			err := o.validate()
			if err == nil && o.LogFormat != logText {
				err = logAs(o.LogFormat, c.Flags())
			}
			if err != nil {
				return notUsage(err)
			}
			return run(c.Context(), o)
		},
	}
	c.SetFlagErrorFunc(seeHelpFails)
	fs := c.Flags()
	o.Process.addFlags(fs, "")
	addLogFormat(fs, &o.LogFormat)
	o.kubernetes.addFlags(fs, "to watch")
	o.Configuration.addFlags(fs)
	fs.DurationVar(&o.For, "for", 0, "how long to run; 0: until it is told to end (SIGINT, SIGTERM)")
	fs.StringArrayVar(&o.Reports, "report", nil, "write the report to `FILE`, once a minute and in the end: .html, .json or .txt; -: "+
		"standard output in the end, as text; repeatable (default -)")
	o.Recording.addFlags(fs)
	fs.StringVar(&o.SchedulerMetrics, "scheduler-metrics", "", "read what the other scheduler costs at `URL`, such as "+
		"https://127.0.0.1:10259/metrics, with the kubeconfig's credentials and authority")
	fs.BoolVar(&o.AllowBinding, readonly.AllowFlag, false, "do not ask whether the credentials may bind pods. They are used to read all "+
		"the same")
	fs.StringVar(&o.Cluster, "cluster", defaultCluster, "name of the cluster that certificates of --tls-ca-file are for")
	o.TLS.AddFlags(fs)
	return c
}

// reportEnds are the ends of names of reports.
var reportEnds = []string{".html", ".json", ".txt"}

func (o *ShadowOptions) validate() error {
	if o.For < 0 || o.For > 0 && o.For < time.Second {
		return usagef("--for: %s is neither 0 nor at least a second", o.For)
	}
	for _, name := range o.Reports {
		if name != "-" && !slices.Contains(reportEnds, filepath.Ext(name)) {
			return usagef("--report: %q ends neither in .html, .json nor .txt, and is not -", name)
		}
	}
	if err := validateLogFormat(o.LogFormat); err != nil {
		return err
	}
	if o.SchedulerMetrics != "" {
		if err := checkMetricsURL(o.SchedulerMetrics); err != nil {
			return err
		}
	}
	if err := validateCluster(o.Cluster); err != nil {
		return err
	}
	return checkListeners(o.TLS, o.Process)
}
