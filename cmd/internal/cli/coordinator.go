package cli

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/shardsched/shardsched/cmd/internal/serving"
	"github.com/shardsched/shardsched/coordinator/config"
)

// NewCoordinatorCommand is `shardsched coordinator`.
func NewCoordinatorCommand(run func(context.Context, CoordinatorOptions) error) *cobra.Command {
	var o CoordinatorOptions
	c := &cobra.Command{
		Use:     "coordinator",
		GroupID: groupRun,
		Short:   "Run a coordinator: one of several leads, the others stand by",
		Long: `Run a coordinator. Those that share an etcd and a --cluster elect a leader; it
holds the queue, asks the workers that have registered there, and binds. The
others stand by, and send clients to it.`,
		Example: `  shardsched coordinator --standalone --embedded-etcd --data-dir ./state
  shardsched coordinator --standalone --etcd-endpoints http://127.0.0.1:2379 --listen 127.0.0.1:7550 --http-listen 127.0.0.1:7551`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if o.WriteConfigTo != "" {
				return o.Configuration.write(c.OutOrStdout())
			}
			o.LeaseGiven = c.Flags().Changed(leaseFlag)
			if err := o.validate(); err != nil {
				return err
			}
			return run(c.Context(), o)
		},
	}
	fs := c.Flags()
	o.Process.addFlags(fs, defaultCoordinatorHTTP)
	o.Sharding.addFlags(fs, "local-workers", "workers to run in this process beside those that register", 0)
	o.Sharding.addServiceFlags(fs)
	o.Etcd.addFlags(fs)
	fs.BoolVar(&o.EmbeddedEtcd.Enabled, "embedded-etcd", false, "run an etcd in this process")
	o.EmbeddedEtcd.addFlags(fs, defaultEtcdListen)
	o.TLS.AddFlags(fs)
	fs.BoolVar(&o.Standalone, "standalone", false, "without Kubernetes: objects come from clients and are kept in etcd")
	fs.StringVar(&o.Listen, "listen", defaultClientAPI, "`HOST:PORT` of the client API")
	fs.StringVar(&o.Advertise, "advertise", "", "`HOST:PORT` that clients are sent to; empty: --listen")
	o.Configuration.addFlags(fs)
	fs.StringVar(&o.DecisionLog, "decision-log", "", "write every decision to `FILE`, one JSON line each")
	fs.DurationVar(&o.LeaseDuration, leaseFlag, 15*time.Second, "time after which a leader that is not heard of is replaced")
	fs.DurationVar(&o.MaxInUnschedulable, "pod-max-in-unschedulable-pods-duration", 5*time.Minute, "time after which a pod that fits nowhere is tried again without an event")
	return c
}

// leaseFlag is how long the leader's lease lives.
const leaseFlag = "leader-elect-lease-duration"

// lease is the flag's, where it was given; or else the file's, where it has one.
func (o *CoordinatorOptions) lease(c *config.Config) time.Duration {
	if !o.LeaseGiven && c.LeaseDuration != 0 {
		return c.LeaseDuration
	}
	return o.LeaseDuration
}

func (o *CoordinatorOptions) validate() error {
	if !o.Standalone {
		return usagef("--standalone is required: this version takes its objects from clients, not from an API server")
	}
	if o.EmbeddedEtcd.Enabled == (len(o.Etcd.Endpoints) > 0) {
		return usagef("give either --etcd-endpoints or --embedded-etcd")
	}
	if err := o.Etcd.validate(); err != nil {
		return err
	}
	if err := o.Sharding.validate("local-workers"); err != nil {
		return err
	}
	if o.LeaseDuration < time.Second {
		return usagef("--%s: %s is shorter than a second", leaseFlag, o.LeaseDuration)
	}
	if o.MaxInUnschedulable <= 0 {
		return usagef("--pod-max-in-unschedulable-pods-duration: %s is not positive", o.MaxInUnschedulable)
	}
	listeners := []listener{{"listen", o.Listen}}
	if o.EmbeddedEtcd.Enabled {
		// etcd serves without TLS.
		plain := listener{"embedded-etcd-listen", o.EmbeddedEtcd.Listen}
		if err := checkListeners(serving.TLS{}, Process{}, plain, listener{"embedded-etcd-peer-listen", o.EmbeddedEtcd.PeerListen}); err != nil {
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
