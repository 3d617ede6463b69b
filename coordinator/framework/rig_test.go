package framework

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	configv1 "k8s.io/kube-scheduler/config/v1"
	fwk "k8s.io/kube-scheduler/framework"
	clocktesting "k8s.io/utils/clock/testing"
)

// plugin is a small plugin, whose points are the embedded ones' below.
type plugin string

func (p plugin) Name() string { return string(p) }

// sorter and binder are what each profile must have.
type sorter struct{ plugin }

func (sorter) Less(a, b fwk.QueuedPodInfo) bool { return a.GetAttempts() < b.GetAttempts() }

type binder struct{ plugin }

func (binder) Bind(context.Context, fwk.CycleState, *v1.Pod, string) *fwk.Status { return nil }

// newProfile makes a profile of plugins, at every point that they implement and in this order.
func newProfile(t *testing.T, env *Environment, plugins ...fwk.Plugin) *Profile {
	t.Helper()
	r := Registry{}
	c := ProfileConfig{Name: "p"}
	for _, p := range append(plugins, sorter{"Sort"}, binder{"Bind"}) {
		c.Plugins.MultiPoint.Enabled = append(c.Plugins.MultiPoint.Enabled, configv1.Plugin{Name: p.Name()})
		if err := r.Register(p.Name(), func(_ context.Context, _ runtime.Object, h fwk.Handle) (fwk.Plugin, error) {
			if w, ok := p.(interface{ use(fwk.Handle) }); ok {
				w.use(h)
			}
			return p, nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	p, err := NewProfile(t.Context(), c, r, env)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func newClock() *clocktesting.FakeClock { return clocktesting.NewFakeClock(time.Unix(1000, 0)) }

func newPod(name string) *v1.Pod {
	return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "x", UID: types.UID(name)}}
}

// newPodOf asks for so much cpu.
func newPodOf(name string, milli int64) *v1.Pod {
	p := newPod(name)
	p.Spec.Containers = []v1.Container{{Name: "c", Resources: v1.ResourceRequirements{
		Requests: v1.ResourceList{v1.ResourceCPU: *resource.NewMilliQuantity(milli, resource.DecimalSI)},
	}}}
	return p
}

// cluster is a Source. Its maps are read and written without a lock, on purpose: -race tells
// whether a Snapshot keeps readers and the writer apart.
type cluster struct {
	order []string
	nodes map[string]*v1.Node
	pods  map[string][]*v1.Pod
}

func newCluster(nodes int) *cluster {
	c := &cluster{nodes: map[string]*v1.Node{}, pods: map[string][]*v1.Pod{}}
	for i := range nodes {
		c.add(fmt.Sprint("n", i))
	}
	return c
}

func (c *cluster) add(name string) {
	c.order = append(c.order, name)
	c.nodes[name] = &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

func (c *cluster) drop(name string) {
	c.order = slices.DeleteFunc(c.order, func(n string) bool { return n == name })
	delete(c.nodes, name)
	delete(c.pods, name)
}

func (c *cluster) Nodes() iter.Seq[*v1.Node] {
	return func(yield func(*v1.Node) bool) {
		for _, name := range c.order {
			if !yield(c.nodes[name]) {
				return
			}
		}
	}
}
func (c *cluster) Node(name string) *v1.Node            { return c.nodes[name] }
func (c *cluster) PodsOn(node string) iter.Seq[*v1.Pod] { return slices.Values(c.pods[node]) }
func (c *cluster) Spread(string) (int64, int, bool)     { return 0, 0, false }

// views are those of all nodes.
func views(t *testing.T, s fwk.SharedLister) []fwk.NodeInfo {
	t.Helper()
	list, err := s.NodeInfos().List()
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// log is a list of texts that any goroutine adds to.
type log struct {
	mu    sync.Mutex
	lines []string
}

func (l *log) add(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, fmt.Sprintf(format, args...))
}

func (l *log) take() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := l.lines
	l.lines = nil
	return out
}

func equal[T comparable](t *testing.T, what string, got, want []T) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}
