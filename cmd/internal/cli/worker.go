package cli

import (
	"context"
	"time"

	"github.com/spf13/cobra"
)

// NewWorkerCommand is `shardsched worker`.
func NewWorkerCommand(run func(context.Context, WorkerOptions) error) *cobra.Command {
	var o WorkerOptions
	c := &cobra.Command{
		Use:     "worker",
		GroupID: groupRun,
		Short:   "Run a worker: it evaluates pods against shards of the cluster",
		Long: `Run a worker. It registers in etcd, is given shards by the leading coordinator,
and holds nothing that it can't be given again: stop it at any time. On SIGTERM
it takes its registration back and finishes what it was asked.`,
		Example: `  shardsched worker --etcd-endpoints http://127.0.0.1:2379
  shardsched worker --etcd-endpoints http://127.0.0.1:2379 --listen 127.0.0.1:0 --http-listen 127.0.0.1:0`,
		Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			err := o.validate()
			if err == nil && o.LogFormat != logText {
				err = logAs(o.LogFormat, c.Flags())
			}
			if err != nil {
				return err
			}
			return run(c.Context(), o)
		},
	}
	fs := c.Flags()
	o.Process.addFlags(fs, defaultWorkerHTTP)
	addLogFormat(fs, &o.LogFormat)
	fs.StringVar(&o.Cluster, "cluster", defaultCluster, "name of the cluster to work for")
	o.Etcd.addFlags(fs)
	o.TLS.AddFlags(fs)
	fs.StringVar(&o.Listen, "listen", defaultWorkerListen, "`HOST:PORT` of the gRPC server; port 0: a free one")
	fs.StringVar(&o.Advertise, "advertise", "", "`HOST:PORT` that coordinators dial; empty: --listen")
	fs.StringVar(&o.ID, "id", "", "name of this worker; empty: the host's name and a random part")
	fs.IntVar(&o.Cores, "cores", 0, "shards evaluated at once, and the worker's weight when shards are given out; 0: all cores")
	fs.Int64Var(&o.CacheBytes, "cache-bytes", defaultCacheBytes, "memory for shards; the one not used for longest goes first")
	o.Tracing.AddExporterFlags(fs)
	fs.DurationVar(&o.LeaseDuration, "lease-duration", 15*time.Second, "time after which a worker that is not heard of loses its shards")
	fs.DurationVar(&o.DrainTimeout, "drain-timeout", 10*time.Second, "time that answers under way may take after SIGTERM")
	return c
}

func (o *WorkerOptions) validate() error {
	switch {
	case len(o.Etcd.Endpoints) == 0:
		return usagef("--etcd-endpoints is required: it is where coordinators look for workers")
	case o.Cores < 0 || o.Cores > 4096:
		return usagef("--cores: %d is not between 0 and 4096", o.Cores)
	case o.CacheBytes <= 0:
		return usagef("--cache-bytes: %d is not positive", o.CacheBytes)
	case o.LeaseDuration < time.Second:
		return usagef("--lease-duration: %s is shorter than a second", o.LeaseDuration)
	case o.DrainTimeout < 0:
		return usagef("--drain-timeout: %s is negative", o.DrainTimeout)
	}
	if err := validateLogFormat(o.LogFormat); err != nil {
		return err
	}
	if err := o.Etcd.validate(); err != nil {
		return err
	}
	if err := validateCluster(o.Cluster); err != nil {
		return err
	}
	return checkListeners(o.TLS, o.Process, listener{"listen", o.Listen})
}
