package testbed

import (
	"context"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"

	"github.com/shardsched/shardsched/bench/internal/process"
)

// Patience bounds each wait of a Cluster; none takes that long when all is well.
const Patience = 90 * time.Second

// Cluster is a Bed for a test: what goes wrong fails it. One goroutine uses it.
type Cluster struct {
	*Bed
	T testing.TB
}

// New starts a bed for a test. It ends with the test; where that fails, what the
// processes printed last is shown. go test -artifacts keeps everything.
func New(t testing.TB, c Config) *Cluster {
	t.Helper()
	if c.Dir == "" {
		c.Dir = t.ArtifactDir()
	}
	b, err := Start(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		b.Close()
		if t.Failed() {
			t.Log(b.Logs(40))
		}
	})
	return &Cluster{Bed: b, T: t}
}

// With is the same cluster for a subtest; it is cleared when that ends.
func (c *Cluster) With(t testing.TB) *Cluster {
	sub := &Cluster{Bed: c.Bed, T: t}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(c.T.Context(), Patience)
		defer cancel()
		if err := c.Bed.Clear(ctx); err != nil {
			t.Error(err)
		}
	})
	return sub
}

// Context is one that ends after Patience, or with the test.
func (c *Cluster) Context() context.Context {
	ctx, cancel := context.WithTimeout(c.T.Context(), Patience)
	c.T.Cleanup(cancel)
	return ctx
}

func (c *Cluster) must(err error) {
	c.T.Helper()
	if err != nil {
		c.T.Fatal(err)
	}
}

// Create creates objects in their order: see Bed.Create.
func (c *Cluster) Create(objects ...runtime.Object) {
	c.T.Helper()
	c.must(c.Bed.Create(c.Context(), objects...))
}

// CreateAll creates objects, many at a time and in no order.
func (c *Cluster) CreateAll(objects ...runtime.Object) {
	c.T.Helper()
	c.must(c.Bed.CreateAll(c.Context(), objects...))
}

// Delete deletes pods, given as namespace/name, at once, and waits until they are gone.
func (c *Cluster) Delete(keys ...string) {
	c.T.Helper()
	c.must(c.DeletePods(c.Context(), keys...))
}

// Bound waits until a pod has a node and returns that.
func (c *Cluster) Bound(key string) string {
	c.T.Helper()
	return c.Until("are bound", IsBound, key)[0].Spec.NodeName
}

// Unschedulable waits until a pod's condition says that no node fits, and returns why.
func (c *Cluster) Unschedulable(key string) string {
	c.T.Helper()
	return ScheduledCondition(c.Until("are unschedulable", IsUnschedulable, key)[0]).Message
}

// Until waits until a condition has held for each of the pods: see PodWatch.Until.
func (c *Cluster) Until(what string, met func(*v1.Pod) bool, keys ...string) []*v1.Pod {
	c.T.Helper()
	pods, err := c.Pods.Until(c.Context(), what, met, keys...)
	c.must(err)
	return pods
}

// build makes a program before a wait for it begins.
func (c *Cluster) build(p program) {
	c.T.Helper()
	_, err := c.binary(c.T.Context(), p)
	c.must(err)
}

// Upstream starts upstream's kube-scheduler. It ends with the test.
func (c *Cluster) Upstream(s Scheduler) *SchedulerProcess {
	c.T.Helper()
	c.build(s.program(upstreamProgram))
	p, err := c.Bed.Upstream(c.Context(), s)
	c.must(err)
	c.T.Cleanup(func() { Stop(p.Process) })
	return p
}

// Coordinator starts a coordinator of ours. It ends with the test.
func (c *Cluster) Coordinator(s Scheduler) *SchedulerProcess {
	c.T.Helper()
	c.build(s.program(oursProgram))
	p, err := c.Bed.Coordinator(c.Context(), s)
	c.must(err)
	c.T.Cleanup(func() { Stop(p.Process) })
	return p
}

// Worker starts a worker of ours, for the coordinators of the cluster "testbed". It ends
// with the test.
func (c *Cluster) Worker(name string, args ...string) *process.Process {
	c.T.Helper()
	c.build(oursProgram)
	p, err := c.Bed.Worker(c.Context(), name, "", args...)
	c.must(err)
	c.T.Cleanup(func() { Stop(p) })
	return p
}

// Controllers starts controllers by their names: see Bed.Controllers. They end with the test.
func (c *Cluster) Controllers(names ...string) *process.Process {
	c.T.Helper()
	c.build(controllersProgram)
	p, err := c.Bed.Controllers(c.Context(), names...)
	c.must(err)
	c.T.Cleanup(func() { Stop(p) })
	return p
}

// Audited is what was asked of the API server so far: see Bed.Audit.
func (c *Cluster) Audited() []auditv1.Event {
	c.T.Helper()
	events, err := c.Audit(c.Context())
	c.must(err)
	return events
}

// split takes namespace/name apart.
func split(key string) (namespace, name string) {
	namespace, name, _ = strings.Cut(key, "/")
	return namespace, name
}
