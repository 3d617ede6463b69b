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
	"strings"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
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
	controllers, demo     bool
	load                  int
	nodeGrace             time.Duration
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
	fs.BoolVar(&o.controllers, "controllers", true, "run upstream's controllers for workloads, budgets, volumes, resource claims, nodes, "+
		"taints, namespaces and garbage, and a hollow kubelet")
	fs.DurationVar(&o.nodeGrace, "node-grace", 40*time.Second, "for how long a node's kubelet may be silent until the node is not ready")
	fs.BoolVar(&o.demo, "demo", false, "make something to look at: a budget, a spread, a preemption and a pod that waits")
	fs.IntVar(&o.load, "load", 0, "pods that come each second, of which each leaves after a minute")
	fs.StringVar(&o.kubeconfig, "kubeconfig", "", "write the administrator's kubeconfig to `FILE`, too")
	onlyBuild := fs.Bool("build", false, "only build all programs, so that tests need not")
	if err := fs.Parse(args); err != nil {
		return err
	}
	if fs.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", fs.Arg(0))
	}
	if o.demo && !o.controllers {
		return errors.New("-demo: it is made of Deployments, which -controllers=false leaves alone")
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
	bed, err := testbed.Start(ctx, testbed.Config{Dir: dir, NodeGrace: o.nodeGrace})
	if err != nil {
		return err
	}
	defer bed.Close()
	if err := bed.CreateAll(ctx, o.hollow()...); err != nil {
		return err
	}
	if o.controllers {
		if _, err := bed.Controllers(ctx, controllers()...); err != nil {
			return err
		}
	}
	schedulers, err := o.schedule(ctx, bed, progress)
	if err != nil {
		return err
	}
	defer end(schedulers)
	if o.demo {
		if err := o.makeDemo(ctx, bed, progress); err != nil {
			return fmt.Errorf("demo: %w", err)
		}
	}
	if err := o.explain(ctx, bed, schedulers, out); err != nil {
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	if o.load > 0 {
		g.Go(func() error { return o.pour(ctx, bed) })
	}
	g.Go(func() error { return watch(ctx, bed) })
	return g.Wait()
}

// controllers are those that a playground runs.
func controllers() []string {
	return []string{"deployment", "replicaset", "statefulset", "daemonset", "job", "cronjob", "disruption", "namespace", "garbagecollector",
		"persistentvolume", "resourceclaim", "nodelifecycle", "tainteviction", "provisioner", "kubelet", "heartbeat"}
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
		s.Args = []string{"--tracing-local"} // for shardsched trace
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
func (o options) explain(ctx context.Context, bed *testbed.Bed, schedulers []*testbed.SchedulerProcess, out io.Writer) error {
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
	fmt.Fprintf(out, "logs and the API server's audit log below %s\n", bed.Dir())
	fmt.Fprint(out, `
Hollow: nodes are objects, no container runs, no Service routes; pods are said to run, and those of Jobs to end after 10 s.
Real: etcd, kube-apiserver, upstream's controllers, the scheduler. A node with the annotation hollow.shardsched.io/silent falls silent.

`)
	fmt.Fprintf(out, "  export KUBECONFIG=%s\n", admin)
	if err := o.exports(ctx, bed, schedulers, out); err != nil {
		return err
	}
	fmt.Fprint(out, o.commands())
	if o.scheduler == "none" {
		fmt.Fprintf(out, "\nNobody schedules. A scheduler acts as system:kube-scheduler, and nothing more, with\n  --kubeconfig %s\n",
			bed.SchedulerKubeconfig)
	}
	fmt.Fprint(out, "\nInterrupt (Ctrl-C) to end everything.\n")
	return nil
}

// exports prints what shardsched's client needs to be found, and to find the coordinators.
func (o options) exports(ctx context.Context, bed *testbed.Bed, schedulers []*testbed.SchedulerProcess, out io.Writer) error {
	if o.scheduler != "shardsched" {
		return nil
	}
	program, err := bed.Shardsched(ctx)
	if err != nil {
		return err
	}
	var addresses []string
	for _, s := range schedulers {
		addresses = append(addresses, s.Listen)
	}
	_, err = fmt.Fprintf(out, "  export SHARDSCHED_ADDRESS=%s\n  export PATH=%s:$PATH\n", strings.Join(addresses, ","), filepath.Dir(program))
	return err
}

// commands are what to type then.
func (o options) commands() string {
	switch {
	case o.demo && o.scheduler == "shardsched":
		return demoCommands + "  shardsched pending\n  shardsched explain pod shop/vip\n  shardsched explain pod shop/picky\n" +
			"  shardsched top nodes --kubeconfig $KUBECONFIG\n  shardsched trace\n  shardsched summary\n"
	case o.demo:
		return demoCommands
	}
	text := "  kubectl run web --image=web\n"
	if o.controllers {
		text = "  kubectl create deployment web --image=web --replicas=100\n"
	}
	text = "  kubectl get nodes\n" + text + "  kubectl get pods -o wide --watch\n  kubectl get events\n"
	if o.scheduler == "shardsched" {
		text += "  shardsched pending\n  shardsched explain deployment web\n  shardsched top nodes --kubeconfig $KUBECONFIG\n" +
			"  shardsched summary\n"
	}
	return text
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
