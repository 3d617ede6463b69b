// Command controllers does what a test or a playground needs of a cluster's other
// programs: upstream's own controllers for Deployments, ReplicaSets, StatefulSets, DaemonSets, Jobs, CronJobs,
// PodDisruptionBudgets, volumes, ResourceClaims, namespaces, garbage, silent nodes and NoExecute taints, and stand-ins for
// what there is no machine for.
//
//	kubelet      pods with a node are running at once, and gone at once when deleted, or as late
//	             as their annotation hollow.shardsched.io/stops-after says; pods of Jobs have done their work after 10 s, or as
//	             long as their annotation hollow.shardsched.io/works-for says
//	heartbeat    nodes are alive, but for those with the annotation hollow.shardsched.io/silent
//	provisioner  claims of classes with the provisioner hollow.shardsched.io get volumes
//
// It prints "controllers run" when they do.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := command(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

// controllers by name. Each sets up its informers and returns what runs it.
func controllers() map[string]func(context.Context, cluster) (run func(context.Context), err error) {
	return map[string]func(context.Context, cluster) (func(context.Context), error){
		"deployment":       deployments,
		"replicaset":       replicaSets,
		"statefulset":      statefulSets,
		"namespace":        namespaces,
		"garbagecollector": garbage,
		"persistentvolume": volumes,
		"resourceclaim":    resourceClaims,
		"provisioner":      provisioner,
		"kubelet":          kubelet,
		"disruption":       disruptions,
		"daemonset":        daemonSets,
		"job":              jobs,
		"cronjob":          cronJobs,
		"nodelifecycle":    nodeLifecycles,
		"tainteviction":    taintEvictions,
		"heartbeat":        heartbeats,
	}
}

// defaultNodeGrace is nodeGrace where no flag sets it; upstream waits 50 s.
const defaultNodeGrace = 40 * time.Second

// cluster is what controllers work on.
type cluster struct {
	config  *rest.Config
	client  kubernetes.Interface
	objects informers.SharedInformerFactory
	// nodeGrace is for how long the kubelet of a node may be silent until the node is not ready.
	nodeGrace time.Duration
	// started is closed when the informers run.
	started chan struct{}
}

func command(ctx context.Context, args []string) error {
	fs := flag.NewFlagSet("controllers", flag.ContinueOnError)
	kubeconfig := fs.String("kubeconfig", "", "`FILE` that says which cluster, and who")
	names := fs.String("controllers", "", "`NAME,…` of those to run")
	nodeGrace := fs.Duration("node-grace", defaultNodeGrace, "for how long a node's kubelet may be silent until the node is not ready")
	if err := fs.Parse(args); err != nil {
		return err
	}
	if *nodeGrace < time.Second {
		return fmt.Errorf("--node-grace: got %v, want 1s or more", *nodeGrace)
	}
	c, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	if err != nil {
		return err
	}
	c.QPS = -1
	all := cluster{config: c, nodeGrace: *nodeGrace, started: make(chan struct{})}
	if all.client, err = kubernetes.NewForConfig(protobuf(c)); err != nil {
		return err
	}
	all.objects = informers.NewSharedInformerFactory(all.client, 0)
	known := controllers()
	var runs []func(context.Context)
	for name := range strings.SplitSeq(*names, ",") {
		start := known[name]
		if start == nil {
			return fmt.Errorf("--controllers: there is no %q", name)
		}
		run, err := start(ctx, all)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		runs = append(runs, run)
	}
	return all.run(ctx, runs)
}

// protobuf is the configuration of a client that knows all its types.
func protobuf(c *rest.Config) *rest.Config {
	c = rest.CopyConfig(c)
	c.ContentType = runtime.ContentTypeProtobuf
	c.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	return c
}

func (c cluster) run(ctx context.Context, runs []func(context.Context)) error {
	c.objects.StartWithContext(ctx)
	close(c.started)
	synced := c.objects.WaitForCacheSyncWithContext(ctx)
	if synced.Err != nil {
		return errors.Join(synced.Err, ctx.Err())
	}
	var all sync.WaitGroup
	for run := range slices.Values(runs) {
		all.Go(func() { run(ctx) })
	}
	fmt.Println("controllers run")
	all.Wait()
	c.objects.Shutdown()
	return nil
}
