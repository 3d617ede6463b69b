package main

import (
	"context"
	_ "embed"
	"fmt"
	"io"
	"strings"
	"text/template"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/shardsched/shardsched/bench/cluster/controlplane/testbed"
)

// demoObjects is a template of demoSizes: first what fills the cluster, then, behind a line of dashes and "then", what comes to a
// full one.
//
//go:embed demo.yaml
var demoObjects string

// demoSizes are requests for CPU, and numbers of pods.
type demoSizes struct {
	Web, Fill, VIP string
	Fills          int
}

// demoCommands are what to type to see the demo.
const demoCommands = `  kubectl -n shop get pods -o wide                                     # web is spread over the zones
  kubectl -n shop get poddisruptionbudgets                             # web may lose one pod at a time
  kubectl -n shop get events --field-selector reason=Preempted         # vip has pushed a pod out, not one of web
  kubectl -n shop get pods --field-selector status.phase=Pending       # picky wants disk=ssd; one of fill has lost its place
  kubectl label node node-000 disk=ssd                                 # and picky has a node
`

// sizes make a node hold two pods of fill, so that vip fits nowhere unless one of them leaves.
func (o options) sizes() (demoSizes, error) {
	cpu, err := resource.ParseQuantity(o.cpu)
	if err != nil {
		return demoSizes{}, fmt.Errorf("-node-cpu: %w", err)
	}
	of := func(parts int64) string {
		return resource.NewMilliQuantity(cpu.MilliValue()*parts/32, resource.DecimalSI).String()
	}
	return demoSizes{Web: of(1), Fill: of(12), VIP: of(16), Fills: 2 * o.nodes}, nil
}

// makeDemo creates the demo's objects: the second part when the first is scheduled.
func (o options) makeDemo(ctx context.Context, bed *testbed.Bed, progress io.Writer) error {
	sizes, err := o.sizes()
	if err != nil {
		return err
	}
	var text strings.Builder
	if err := template.Must(template.New("demo").Parse(demoObjects)).Execute(&text, sizes); err != nil {
		return err
	}
	first, then, _ := strings.Cut(text.String(), "\n--- # then\n")
	if err := create(ctx, bed, first); err != nil {
		return err
	}
	if o.scheduler != "none" {
		fmt.Fprintln(progress, "filling the cluster")
		if err := settled(ctx, bed); err != nil {
			return err
		}
	}
	return create(ctx, bed, then)
}

// create creates what a text holds.
func create(ctx context.Context, bed *testbed.Bed, text string) error {
	for document := range strings.SplitSeq(text, "\n---\n") {
		obj, _, err := scheme.Codecs.UniversalDeserializer().Decode([]byte(document), nil, nil)
		if err != nil {
			return err
		}
		if err := bed.Create(ctx, obj); err != nil {
			return err
		}
	}
	return nil
}

// demoSettles is how long the first part may take to be scheduled.
const demoSettles = time.Minute

// settled waits until all pods of the Deployments web and fill are there and have nodes.
func settled(ctx context.Context, bed *testbed.Bed) error {
	ctx, cancel := context.WithTimeout(ctx, demoSettles)
	defer cancel()
	for {
		deployments, err := bed.Admin.AppsV1().Deployments("shop").List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		want, have := 0, 0
		for _, d := range deployments.Items {
			want += int(*d.Spec.Replicas)
		}
		pods, err := bed.Admin.CoreV1().Pods("shop").List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for _, p := range pods.Items {
			if p.Spec.NodeName != "" && p.Status.Phase == v1.PodRunning {
				have++
			}
		}
		if have >= want {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%d of %d pods run: %w", have, want, ctx.Err())
		case <-time.After(200 * time.Millisecond):
		}
	}
}
