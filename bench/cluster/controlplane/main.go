// Command controlplane runs a Kubernetes control plane on loopback for people to try
// things on: a real etcd and kube-apiserver, hollow nodes, controllers, and a scheduler.
//
//	cd bench && go run ./cluster/controlplane                    # shardsched schedules
//	cd bench && go run ./cluster/controlplane -scheduler upstream
//	cd bench && go run ./cluster/controlplane -scheduler none    # run your own: it prints how
//
// Interrupt it to end everything; nothing is kept.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/shardsched/shardsched/bench/cluster/controlplane/testbed"
	"github.com/shardsched/shardsched/internal/testkit/build"
)

// options are the flags.
type options struct {
	nodes, zones          int
	cpu, memory           string
	scheduler, config     string
	coordinators, workers int
	kubeconfig            string
	controllers           bool
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := command(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	switch {
	case errors.Is(err, flag.ErrHelp):
		os.Exit(2)
	case err != nil && ctx.Err() == nil:
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func command(ctx context.Context, args []string, out, progress io.Writer) error {
	var o options
	fs := flag.NewFlagSet("controlplane", flag.ContinueOnError)
	fs.SetOutput(progress)
	fs.IntVar(&o.nodes, "nodes", 10, "hollow nodes to make")
	fs.IntVar(&o.zones, "zones", 3, "zones that they are spread over")
	fs.StringVar(&o.cpu, "node-cpu", "8", "CPU of each node")
	fs.StringVar(&o.memory, "node-memory", "32Gi", "memory of each node")
	fs.StringVar(&o.scheduler, "scheduler", "shardsched", "who schedules: shardsched, upstream, or none")
	fs.StringVar(&o.config, "config", "", "the scheduler's KubeSchedulerConfiguration `FILE`; client and leader election may be left out")
	fs.IntVar(&o.coordinators, "coordinators", 2, "coordinators of shardsched: one leads, the others stand by")
	fs.IntVar(&o.workers, "workers", 2, "workers of shardsched")
	fs.BoolVar(&o.controllers, "controllers", true, "run upstream's controllers for workloads, volumes, namespaces and garbage, and a "+
		"hollow kubelet")
	fs.StringVar(&o.kubeconfig, "kubeconfig", "", "write the administrator's kubeconfig to `FILE`, too")
	onlyBuild := fs.Bool("build", false, "only build all programs, so that tests need not")
	if err := fs.Parse(args); err != nil {
		return err
	}
	if fs.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", fs.Arg(0))
	}
	if *onlyBuild {
		return testbed.Build(ctx)
	}
	return o.run(ctx, out, progress)
}

// run returns when the context ends or a server does.
func (o options) run(ctx context.Context, out, progress io.Writer) (err error) {
	dir, err := os.MkdirTemp("", "shardsched-controlplane-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	fmt.Fprintln(progress, "building and starting etcd and kube-apiserver; the first time takes some minutes")
	bed, err := testbed.Start(ctx, testbed.Config{Dir: dir})
	if err != nil {
		return err
	}
	defer bed.Close()
	if err := bed.CreateAll(ctx, o.hollow()...); err != nil {
		return err
	}
	if o.controllers {
		if _, err := bed.Controllers(ctx, "deployment", "replicaset", "statefulset", "namespace", "garbagecollector", "persistentvolume",
			"provisioner", "kubelet"); err != nil {
			return err
		}
	}
	schedulers, err := o.schedule(ctx, bed, progress)
	if err != nil {
		return err
	}
	if err := o.explain(bed, schedulers, out); err != nil {
		return err
	}
	defer end(schedulers)
	return watch(ctx, bed)
}

// hollow are the nodes.
func (o options) hollow() (nodes []runtime.Object) {
	for i := range o.nodes {
		name := fmt.Sprintf("node-%03d", i)
		nodes = append(nodes, build.Node(name).CPU(o.cpu).Memory(o.memory).Label("kubernetes.io/hostname", name).
			Zone(fmt.Sprintf("zone-%c", 'a'+i%max(o.zones, 1))).Obj())
	}
	return nodes
}

// schedule starts the scheduler that is wished for.
func (o options) schedule(ctx context.Context, bed *testbed.Bed, progress io.Writer) (all []*testbed.SchedulerProcess, err error) {
	var s testbed.Scheduler
	if o.config != "" {
		text, err := os.ReadFile(o.config)
		if err != nil {
			return nil, err
		}
		s.Config = string(text)
	}
	switch o.scheduler {
	case "none":
		return nil, nil
	case "upstream":
		fmt.Fprintln(progress, "building and starting kube-scheduler")
		p, err := bed.Upstream(ctx, s)
		return append(all, p), err
	case "shardsched":
	default:
		return nil, fmt.Errorf("-scheduler: there is no %q", o.scheduler)
	}
	fmt.Fprintln(progress, "building and starting shardsched")
	for i := range o.workers {
		if _, err := bed.Worker(ctx, fmt.Sprintf("worker-%d", i), ""); err != nil {
			return nil, err
		}
	}
	for i := range o.coordinators {
		s.Name = fmt.Sprintf("coordinator-%d", i)
		p, err := bed.Coordinator(ctx, s)
		if err != nil {
			return nil, err
		}
		all = append(all, p)
	}
	return all, nil
}

// explain says what runs, and what to do with it.
func (o options) explain(bed *testbed.Bed, schedulers []*testbed.SchedulerProcess, out io.Writer) error {
	admin := bed.AdminKubeconfig
	if o.kubeconfig != "" {
		text, err := os.ReadFile(admin)
		if err != nil {
			return err
		}
		if err := os.WriteFile(o.kubeconfig, text, 0o600); err != nil {
			return err
		}
		if admin, err = filepath.Abs(o.kubeconfig); err != nil {
			return err
		}
	}
	version, err := bed.Admin.Discovery().ServerVersion()
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "\nkube-apiserver %s on https://%s, etcd on %s, %d hollow nodes\n", version, bed.APIServer.Address,
		bed.EtcdEndpoint(), o.nodes)
	for _, s := range schedulers {
		fmt.Fprintf(out, "%s on https://%s", s.Name, s.HTTPS)
		if s.Listen != "" {
			fmt.Fprintf(out, ", client API on %s", s.Listen)
		}
		fmt.Fprintln(out)
	}
	fmt.Fprintf(out, "logs and the API server's audit log below %s\n\n", bed.Dir())
	fmt.Fprintf(out, "  export KUBECONFIG=%s\n  kubectl get nodes\n", admin)
	if o.controllers {
		fmt.Fprint(out, "  kubectl create deployment web --image=web --replicas=100\n")
	} else {
		fmt.Fprint(out, "  kubectl run web --image=web\n")
	}
	fmt.Fprint(out, "  kubectl get pods -o wide --watch\n  kubectl get events\n")
	switch o.scheduler {
	case "none":
		fmt.Fprintf(out, "\nNobody schedules. A scheduler acts as system:kube-scheduler, and nothing more, with\n  --kubeconfig %s\n",
			bed.SchedulerKubeconfig)
	case "shardsched":
		fmt.Fprintf(out, "  shardsched explain --address %s pod default/web-…\n", schedulers[0].Listen)
	}
	fmt.Fprint(out, "\nInterrupt (Ctrl-C) to end everything.\n")
	return nil
}

// watch returns when the context ends, or tells that a server did.
func watch(ctx context.Context, bed *testbed.Bed) error {
	select {
	case <-ctx.Done():
		return nil
	case <-bed.Etcd.Process().Done():
		return fmt.Errorf("etcd ended: %w\n%s", bed.Etcd.Process().Err(), bed.Logs(20))
	case <-bed.APIServer.Process().Done():
		return fmt.Errorf("kube-apiserver ended: %w\n%s", bed.APIServer.Process().Err(), bed.Logs(20))
	}
}

// end lets schedulers give back their leases first.
func end(schedulers []*testbed.SchedulerProcess) {
	for _, s := range schedulers {
		s.Terminate()
	}
	for _, s := range schedulers {
		testbed.Stop(s.Process)
	}
}
