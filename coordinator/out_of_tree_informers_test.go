package coordinator

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/shardsched/shardsched/coordinator/objects"
	"github.com/shardsched/shardsched/coordinator/outoftree"
)

// Without an API server, informers show what the scheduler has, and the clientset says what it is.
func TestInformersOfGuestsWithoutAnAPIServer(t *testing.T) {
	g := newTestPlugin()
	runScenarioWith(t, func(cfg *SchedulerConfig) {
		withPlugins(t, "", g)(cfg)
		made := cfg.OutOfTree.Registry["Guest"]
		cfg.OutOfTree.Registry["Guest"] = func(ctx context.Context, args runtime.Object, h fwk.Handle) (fwk.Plugin, error) {
			_, err := h.SharedInformerFactory().Core().V1().Pods().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
				AddFunc:    func(o any) { g.note("added %s", o.(*v1.Pod).Name) },
				UpdateFunc: func(_, o any) { g.note("updated %s on %q", o.(*v1.Pod).Name, o.(*v1.Pod).Spec.NodeName) },
				DeleteFunc: func(o any) { g.note("deleted %s", o.(*v1.Pod).Name) },
			})
			if err != nil {
				return nil, err
			}
			return made(ctx, args, h)
		}
	}, clusterOf(nodesOf("4", "n"), func() *v1.Pod { p := cores("there", "1"); p.Spec.NodeName = "n"; return p }()), nil, func(x *scenario) {
		if got := g.take(); !slices.Equal(got, []string{"added there"}) {
			t.Errorf("got %q at first, want the pod that is there", got)
		}
		list, err := g.handle.SharedInformerFactory().Core().V1().Nodes().Lister().List(labels.Everything())
		if err != nil || len(list) != 1 || list[0].Name != "n" {
			t.Errorf("got nodes %v, %v, want n", list, err)
		}
		x.deliver(objects.Added, cores("p", "1"))
		x.confirm(cores("p", "1"), "n")
		x.deliver(objects.Deleted, cores("p", "1"))
		var seen []string
		for _, c := range g.take() {
			if slices.Contains([]string{"added p", `updated p on "n"`, "deleted p"}, c) {
				seen = append(seen, c)
			}
		}
		if want := []string{"added p", `updated p on "n"`, "deleted p"}; !slices.Equal(seen, want) {
			t.Errorf("got %q, want %q", seen, want)
		}
		_, err = g.handle.ClientSet().CoreV1().ConfigMaps("default").Get(x.ctx, "any", metav1.GetOptions{})
		if !errors.Is(err, outoftree.ErrNoServer) {
			t.Errorf("got %v from the clientset, want %v", err, outoftree.ErrNoServer)
		}
	})
}

// Resources that only plugins wait for are watched for them, by the names that they have registered.
func TestGuestsWaitForResourcesOfTheirOwn(t *testing.T) {
	const foos = "foos.v1.example.com"
	g := newTestPlugin()
	g.says["Filter"] = no("no foo")
	g.says["PostFilter"] = no("")
	g.events = []fwk.ClusterEventWithHint{{
		Event: fwk.ClusterEvent{Resource: foos, ActionType: fwk.Add},
		QueueingHintFn: func(_ klog.Logger, p *v1.Pod, old, now any) (fwk.QueueingHint, error) {
			if old == nil && now == p.Name {
				return fwk.Queue, nil
			}
			return fwk.QueueSkip, nil
		},
	}}
	var tell func(string, any, any)
	var watched []string
	runScenarioWith(t, func(cfg *SchedulerConfig) {
		withPlugins(t, "", g)(cfg)
		cfg.OutOfTree.Watch = func(resources []string, f func(string, any, any)) error {
			watched, tell = resources, f
			return nil
		}
	}, clusterOf(nodesOf("4", "n")), nil, func(x *scenario) {
		if !slices.Equal(watched, []string{foos}) {
			t.Fatalf("got %q watched, want %s", watched, foos)
		}
		x.deliver(objects.Added, cores("p", "1"))
		x.deliver(objects.Added, cores("q", "1"))
		g.tell("Filter", nil)
		x.deliver(objects.Added, nodesOf("4", "o")[0])
		x.wantPods("nodes are no foos", "p unschedulable", "q unschedulable")
		tell(foos, "p", "p")
		synctest.Wait()
		x.wantPods("an update is no addition", "p unschedulable", "q unschedulable")
		tell(foos, nil, "q")
		synctest.Wait()
		x.wantPods("one's foo is there", "p unschedulable", "q promised "+x.nodeOf("q"))
	})
}
