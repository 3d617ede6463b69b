package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	cliflag "k8s.io/component-base/cli/flag"

	"github.com/shardsched/shardsched/cmd/internal/kubeflags"
	"github.com/shardsched/shardsched/cmd/internal/serving"
	"github.com/shardsched/shardsched/coordinator/config"
	"github.com/shardsched/shardsched/coordinator/framework"
	"github.com/shardsched/shardsched/coordinator/upkeep"
)

// NewCoordinatorCommand is `shardsched coordinator`.
func NewCoordinatorCommand(run func(context.Context, CoordinatorOptions) error, plugins framework.Registry) *cobra.Command {
	kube, err := kubeflags.New()
	if err != nil {
		panic(err) // the lists of flags and gates are ours and a test holds them
	}
	o := CoordinatorOptions{Kube: kube}
	o.plugins = plugins
	version := &versionFlag{}
	c := &cobra.Command{
		Use:     "coordinator",
		GroupID: groupRun,
		Short:   "Run a coordinator: one of several leads, the others stand by",
		Long: `Run a coordinator in kube-scheduler's place: with its configuration file, its flags
and its permissions. Those that share an etcd and a --cluster elect a leader; it
holds kube-scheduler's Lease too, asks the workers that have registered in etcd,
and binds. The others stand by. With --embedded-etcd each has an etcd of its own,
and the Lease alone elects.

With --standalone there is no Kubernetes: objects come from clients and are kept
in etcd.`,
		Example: `  shardsched coordinator --kubeconfig scheduler.conf --embedded-etcd
  shardsched coordinator --kubeconfig scheduler.conf --etcd-endpoints https://10.0.0.1:22379,https://10.0.0.2:22379
  shardsched coordinator --standalone --embedded-etcd --data-dir ./state
  shardsched coordinator --standalone --etcd-endpoints http://127.0.0.1:2379 --listen 127.0.0.1:7550 --http-listen 127.0.0.1:7551`,
		Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if version.asked() {
				return version.print(c.OutOrStdout())
			}
			if err := o.complete(c.Flags()); err != nil {
				return err
			}
			if o.WriteConfigTo != "" {
				return o.Configuration.write(c.OutOrStdout())
			}
			if err := o.validate(); err != nil {
				return err
			}
			return run(c.Context(), o)
		},
	}
	o.addFlags(c, version)
	return c
}

// addFlags adds ours first and then kube-scheduler's, by section.
func (o *CoordinatorOptions) addFlags(c *cobra.Command, version *versionFlag) {
	fs := o.sets.FlagSet("scheduler")
	o.Configuration.addFlags(fs)
	fs.BoolVar(&o.Standalone, "standalone", false, "without Kubernetes: objects come from clients and are kept in etcd")
	o.Sharding.addFlags(fs, "local-workers", "workers to run in this process beside those that register", 0)
	o.Sharding.addServiceFlags(fs)
	fs.BoolVar(&o.GangReservation, "gang-reservation", false, "hold the room that the first gang in order finds while it is too little for "+
		"it to start, against pods of its priority and below, except those whose activeDeadlineSeconds ends before it may start")
	fs.BoolVar(&o.TopologyPreemption, "gang-topology-preemption", false, "have gangs with topology constraints preempt, too, where the "+
		"feature gate WorkloadAwarePreemption is on")
	fs.BoolVar(&o.WholeGangs, "whole-gangs", false, "have a PodGroup with disruptionMode PodGroup leave whole for a single pod, too, or "+
		"stay, where the feature gate GenericWorkload is on")
	fs.StringVar(&o.DecisionLog, "decision-log", "", "write every decision to `FILE`, one JSON line each")
	o.Recording.addFlags(fs)

	fs = o.sets.FlagSet("etcd")
	o.Etcd.addFlags(fs)
	fs.BoolVar(&o.EmbeddedEtcd.Enabled, "embedded-etcd", false, "run an etcd in this process")
	o.EmbeddedEtcd.addFlags(fs, "", "`HOST:PORT` where the embedded etcd serves other processes; port 0: a free one; "+
		"empty: nowhere, but "+defaultEtcdListen+" with --standalone")
	fs.DurationVar(&o.CompactionInterval, "etcd-compaction-interval", upkeep.DefaultInterval, "how much of etcd's history is kept, of all "+
		"its keys: what is older is compacted; 0: others do that. At least "+upkeep.MinInterval.String())

	fs = o.sets.FlagSet("clients and workers")
	fs.StringVar(&o.Listen, "listen", defaultClientAPI, "`HOST:PORT` of the client API, or unix:///PATH of a socket for this user only. "+
		"Without --standalone and --tls-ca-file: "+
		unixScheme+defaultClientSocket+" where it is not given")
	o.Process.addHealthFlag(fs)
	fs.StringVar(&o.Advertise, "advertise", "", "`HOST:PORT` that clients are sent to; empty: --listen")
	fs.StringVar(&o.TLS.CAFile, "tls-ca-file", "", "certificates (PEM) of the authority that the certificates of clients and workers "+
		"must be signed by. "+
		"With it, --tls-cert-file and --tls-private-key-file are what this process shows to them, too")
	o.TLS.AddRoleFlag(fs)
	fs.StringVar(&o.HTTPListen, "http-listen", "", "`HOST:PORT` of /metrics, /healthz and /readyz without Kubernetes' authentication; "+
		"empty: none, but "+
		defaultCoordinatorHTTP+" with --standalone")

	o.Process.addConsoleFlag(fs, "--http-listen and the HTTPS port")

	o.Tracing.AddFlags(o.sets.FlagSet("tracing"))
	o.Tracing.AddLocalFlag(o.sets.FlagSet("tracing"))
	theirs := o.Kube.Sets()
	for _, section := range theirs.Order {
		o.sets.FlagSet(section).AddFlagSet(theirs.FlagSets[section])
	}
	o.Legacy.addFlags(o.sets.FlagSet("deprecated, up to 1.22"))
	fs = o.sets.FlagSet("global")
	fs.AddFlag(version.flag())
	fs.BoolP("help", "h", false, "help for "+c.Name())
	for _, section := range o.sets.Order {
		c.Flags().AddFlagSet(o.sets.FlagSets[section])
	}
	setSectionedHelp(c, &o.sets)
}

// leaseFlag is how long the leader's lease lives.
const leaseFlag = "leader-elect-lease-duration"

// complete makes of kube-scheduler's flags what they mean in the mode that is asked for.
func (o *CoordinatorOptions) complete(fs *pflag.FlagSet) error {
	if err := o.Kube.Check(); err != nil {
		return usageError{err}
	}
	o.flags = fs
	o.LeaseGiven, o.LeaseDuration = fs.Changed(leaseFlag), o.Kube.LeaderElection.LeaseDuration.Duration
	o.MaxInUnschedulable = o.Kube.MaxInUnschedulable
	o.Configuration.podGroups = o.Kube.PodGroups(o.Standalone)
	o.Profiling = fs.Changed("profiling") && o.Kube.Deprecated.Profiling
	pair := o.Kube.Serving.ServerCert.CertKey
	if o.Standalone || o.TLS.CAFile != "" {
		o.TLS.CertFile, o.TLS.KeyFile = pair.CertFile, pair.KeyFile
	}
	if err := o.completeLegacy(); err != nil {
		return err
	}
	if !o.Standalone {
		if !fs.Changed("listen") && !o.TLS.Enabled() {
			o.Listen = unixScheme + defaultClientSocket
		}
		o.Configuration.changes = o.Kube.Changes(o.Config != "")
		return nil
	}
	if !fs.Changed("embedded-etcd-listen") {
		o.EmbeddedEtcd.Listen = defaultEtcdListen
	}
	o.Configuration.changes = []config.Change{o.Kube.GatesChange}
	if !fs.Changed("http-listen") {
		o.HTTPListen = defaultCoordinatorHTTP
	}
	return o.refuseUseless()
}

// refuseUseless refuses flags that mean nothing without Kubernetes.
func (o *CoordinatorOptions) refuseUseless() error {
	useful := map[string]bool{
		leaseFlag: true, "pod-max-in-unschedulable-pods-duration": true, "profiling": true,
		"tls-cert-file": true, "tls-private-key-file": true, "feature-gates": true,
	}
	sets := o.Kube.Sets()
	sets.FlagSets["logs"].VisitAll(func(f *pflag.Flag) { useful[f.Name] = true })
	for _, name := range o.Kube.AllGiven() {
		if !useful[name] {
			return usagef("--%s: it means nothing with --standalone", name)
		}
	}
	return nil
}

// lease is the flag's, where it was given; or else the file's, where it has one.
func (o *CoordinatorOptions) lease(c *config.Config) time.Duration {
	if !o.LeaseGiven && c.LeaseDuration != 0 {
		return c.LeaseDuration
	}
	return o.LeaseDuration
}

func (o *CoordinatorOptions) validate() error {
	if o.EmbeddedEtcd.Enabled == (len(o.Etcd.Endpoints) > 0) {
		return usagef("give either --etcd-endpoints or --embedded-etcd")
	}
	if err := o.Etcd.validate(); err != nil {
		return err
	}
	if err := o.Sharding.validate("local-workers"); err != nil {
		return err
	}
	if err := o.checkGates(); err != nil {
		return err
	}
	switch {
	case o.CompactionInterval == 0 && o.EmbeddedEtcd.Enabled:
		return usagef("--etcd-compaction-interval: nobody else compacts the embedded etcd, so it can't be 0")
	case o.CompactionInterval != 0 && o.CompactionInterval < upkeep.MinInterval:
		return usagef("--etcd-compaction-interval: %s is neither 0 nor at least %s", o.CompactionInterval, upkeep.MinInterval)
	}
	if o.LeaseDuration < time.Second {
		return usagef("--%s: %s is shorter than a second", leaseFlag, o.LeaseDuration)
	}
	var listeners []listener
	if !strings.HasPrefix(o.Listen, unixScheme) {
		listeners = append(listeners, listener{"listen", o.Listen})
	}
	if o.EmbeddedEtcd.Enabled && o.EmbeddedEtcd.Listen != "" {
		// etcd serves without TLS.
		if err := checkListeners(serving.TLS{}, Process{}, listener{"embedded-etcd-listen", o.EmbeddedEtcd.Listen}); err != nil {
			return err
		}
	}
	return checkListeners(o.TLS, o.Process, listeners...)
}

// listener is a flag with its address.
type listener struct{ flag, address string }

func checkListeners(t serving.TLS, p Process, listeners ...listener) error {
	if err := t.Validate(); err != nil {
		return usageError{err}
	}
	if p.HTTPListen != "" {
		listeners = append(listeners, listener{"http-listen", p.HTTPListen})
	}
	for _, l := range listeners {
		if err := t.CheckAddress(l.flag, l.address); err != nil {
			return usageError{err}
		}
	}
	return nil
}

// setSectionedHelp shows a command's flags by section.
func setSectionedHelp(c *cobra.Command, sets *cliflag.NamedFlagSets) {
	c.SetUsageFunc(func(c *cobra.Command) error {
		fmt.Fprintf(c.OutOrStderr(), "Usage:\n  %s\n", c.UseLine())
		cliflag.PrintSections(c.OutOrStderr(), *sets, helpColumns)
		return nil
	})
	c.SetHelpFunc(func(c *cobra.Command, _ []string) {
		fmt.Fprintf(c.OutOrStdout(), "%s\n\nUsage:\n  %s\n\nExamples:\n%s\n", c.Long, c.UseLine(), c.Example)
		cliflag.PrintSections(c.OutOrStdout(), *sets, helpColumns)
	})
}

// helpColumns is how wide help with sections is.
const helpColumns = 110
