package audit

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/shardsched/shardsched/internal/testkit/build"
)

// registryRecord is the history of an API server's etcd under construction. A revision takes a second.
type registryRecord struct{ record }

func (r *registryRecord) node(b *build.NodeBuilder) *registryRecord {
	n := b.Obj()
	r.object(registryNodes+n.Name, n, "Node")
	return r
}

func (r *registryRecord) pod(b *build.PodBuilder) *registryRecord {
	p := b.Obj()
	r.object(registryPods+p.Namespace+"/"+p.Name, p, "Pod")
	return r
}

func (r *registryRecord) gone(key string) *registryRecord {
	r.write(key, nil)
	return r
}

// wait lets seconds pass.
func (r *registryRecord) wait(seconds int) *registryRecord {
	for range seconds {
		r.write("namespaces/default", []byte("x"))
	}
	return r
}

// bind writes the pod without a node, then with it.
func (r *registryRecord) bind(name, node string, words func(*build.PodBuilder)) *registryRecord {
	b := build.Pod(name)
	words(b)
	return r.pod(b).pod(b.Node(node))
}

func (r *registryRecord) two() *registryRecord {
	return r.node(build.Node("n1").CPU("2").Memory("4Gi").Pods("3")).node(build.Node("n2").CPU("1").Memory("1Gi").Pods("3"))
}

// why gives a pod the condition that it is not scheduled.
func why(b *build.PodBuilder, reason, message string) *build.PodBuilder {
	p := b.Obj()
	p.Status.Conditions = []v1.PodCondition{{Type: v1.PodScheduled, Status: v1.ConditionFalse, Reason: reason, Message: message}}
	return b
}

// apart keeps pods with the label app=x from sharing a node with this one.
func apart(b *build.PodBuilder) {
	b.Label("app", "x").CPU("100m").Apart(build.Around(v1.LabelHostname, "app=x"))
}

func TestFaultsPlantedInARegistryAreFound(t *testing.T) {
	const lag = 3 * time.Second
	no := v1.PodReasonUnschedulable
	cases := []struct {
		name    string
		plant   func(*registryRecord)
		created []string
		want    []string // parts of the faults, in order; none: no fault
	}{
		{"all is well: bound and running, pending, deleted by its owner", func(r *registryRecord) {
			r.two().bind("a", "n1", cpu("2")).pod(build.Pod("a").CPU("2").Node("n1").Phase(v1.PodRunning)).
				pod(why(build.Pod("b").CPU("2"), no, "0/2 nodes are available")).pod(build.Pod("gone")).gone(registryPods + "default/gone")
		}, []string{"default/a", "default/b", "default/gone"}, nil},
		{"a lost pod", func(r *registryRecord) { r.two() }, []string{"default/a"}, []string{"default/a: was created and is not there"}},
		{"a pod that went away again", func(r *registryRecord) {
			r.two().pod(build.Pod("a")).gone(registryPods + "default/a")
		}, []string{"default/a"}, []string{"was created and is not there"}},
		{"a pod bound to two nodes, one after the other", func(r *registryRecord) {
			r.two().bind("a", "n1", cpu("1")).pod(build.Pod("a").CPU("1").Node("n2"))
		}, []string{"default/a"}, []string{"bound twice: was on n1, now on n2", "was bound 2 times"}},
		{"a pod taken off its node", func(r *registryRecord) {
			r.two().bind("a", "n1", cpu("1")).pod(why(build.Pod("a").CPU("1"), no, "no"))
		}, []string{"default/a"}, []string{"was on n1 and is taken off it", "would fit n1"}},
		{"CPU over allocatable", func(r *registryRecord) {
			r.two().bind("a", "n1", cpu("1500m")).bind("b", "n1", cpu("501m"))
		}, nil, []string{"node n1: cpu: 2001 used of 2000 allocatable, since default/b is bound to it"}},
		{"memory over allocatable", func(r *registryRecord) {
			r.two().bind("a", "n2", func(b *build.PodBuilder) { b.Memory("1025Mi") })
		}, nil, []string{"memory: 1074790400 used of 1073741824"}},
		{"too many pods", func(r *registryRecord) {
			r.two().bind("a", "n1", cpu("0")).bind("b", "n1", cpu("0")).bind("c", "n1", cpu("0")).bind("d", "n1", cpu("0"))
		}, nil, []string{"pods: 4 used of 3 allocatable, since default/d is bound to it"}},
		{"over for a while only: a pod goes after another took its room", func(r *registryRecord) {
			r.two().bind("a", "n1", cpu("2")).bind("b", "n1", cpu("2")).gone(registryPods + "default/a")
		}, nil, []string{"cpu: 4000 used of 2000"}},
		{"room that was freed may be taken: a pod deleted, one succeeded", func(r *registryRecord) {
			r.two().bind("a", "n1", cpu("2")).gone(registryPods+"default/a").bind("b", "n1", cpu("2")).
				pod(build.Pod("b").CPU("2").Node("n1").Phase(v1.PodSucceeded)).bind("c", "n1", cpu("2"))
		}, nil, nil},
		{"room of a pod that is only being deleted is not free", func(r *registryRecord) {
			r.two().bind("a", "n1", cpu("2")).pod(build.Pod("a").CPU("2").Node("n1").Terminating()).bind("b", "n1", cpu("1"))
		}, nil, []string{"cpu: 3000 used of 2000"}},
		{"two pods on one host port", func(r *registryRecord) {
			port := func(b *build.PodBuilder) { b.HostPort("", v1.ProtocolTCP, 80) }
			r.two().bind("a", "n1", port).bind("b", "n1", port).bind("c", "n2", port)
		}, nil, []string{"node n1: host port :80/TCP is taken by default/a, since default/b is on it"}},
		{"two pods on one node that are to be apart", func(r *registryRecord) {
			r.two().bind("a", "n1", apart).bind("b", "n2", apart).bind("c", "n1", func(b *build.PodBuilder) { b.Label("app", "x") })
		}, nil, []string{"default/a is on it, and they are to be on different nodes, since default/c is on it"}},
		{"a node that was never there", func(r *registryRecord) { r.two().bind("a", "n9", cpu("0")) }, nil, []string{"node n9: it is not there"}},
		{"a taint that is not tolerated", func(r *registryRecord) {
			r.node(build.Node("n1").Pods("3").Taint("gpu=yes:NoSchedule")).bind("a", "n1", cpu("0"))
		}, nil, []string{"its taint gpu=yes:NoSchedule is not tolerated"}},
		{"a node that was deleted, cordoned or shrunk within the lag", func(r *registryRecord) {
			r.two().gone(registryNodes+"n2").bind("a", "n2", cpu("1")).
				node(build.Node("n1").CPU("1").Memory("4Gi").Pods("3")).bind("b", "n1", cpu("2"))
		}, nil, nil},
		{"a node that was cordoned longer ago than the lag", func(r *registryRecord) {
			r.two().node(build.Node("n2").CPU("1").Pods("3").Unschedulable()).wait(2).bind("a", "n2", cpu("1"))
		}, nil, []string{"node n2: it is unschedulable"}},
		{"a node that shrank within the lag, and was too small before as well", func(r *registryRecord) {
			r.two().node(build.Node("n1").CPU("1").Pods("3")).bind("b", "n1", cpu("3"))
		}, nil, []string{"cpu: 3000 used of 1000"}},
		{"what a node has by then counts, not only what it had", func(r *registryRecord) {
			r.two().node(build.Node("n2").CPU("4").Pods("3")).bind("a", "n2", cpu("4"))
		}, nil, nil},
		{"a shrunk node with more on it than it has is nobody's fault", func(r *registryRecord) {
			r.two().bind("a", "n1", cpu("2")).node(build.Node("n1").CPU("1").Pods("3")).pod(build.Pod("a").CPU("2").Node("n1").Phase(v1.PodRunning))
		}, nil, nil},
		{"a bound pod that is told to be unschedulable afterwards", func(r *registryRecord) {
			r.two().bind("a", "n1", cpu("1")).pod(why(build.Pod("a").CPU("1").Node("n1"), no, "0/2 nodes")).
				pod(why(build.Pod("a").CPU("1").Node("n1").Phase(v1.PodRunning), no, "0/2 nodes"))
		}, []string{"default/a"}, []string{"is on n1 and its condition says that it is not: 0/2 nodes"}},
		{"a pod that keeps the condition when it is bound", func(r *registryRecord) {
			r.two().pod(why(build.Pod("a").CPU("1"), no, "0/2")).pod(why(build.Pod("a").CPU("1").Node("n1"), no, "0/2"))
		}, nil, []string{"is on n1 and its condition says that it is not"}},
		{"pending without a condition", func(r *registryRecord) { r.two().pod(build.Pod("a").CPU("9")) }, []string{"default/a"},
			[]string{"no condition says why"}},
		{"pending because the scheduler failed", func(r *registryRecord) {
			r.two().pod(why(build.Pod("a").CPU("9"), "SchedulerError", "oh"))
		}, []string{"default/a"}, []string{"is not bound: SchedulerError (oh)"}},
		{"pending with a condition, though a node would take it", func(r *registryRecord) {
			r.two().pod(why(build.Pod("a").CPU("1"), no, "0/2 nodes"))
		}, []string{"default/a"}, []string{"is not bound (0/2 nodes), but would fit n1"}},
		{"pending because every node has a pod that it must not be beside", func(r *registryRecord) {
			b := build.Pod("c")
			apart(b)
			r.two().bind("a", "n1", apart).bind("b", "n2", apart).pod(why(b, no, "0/2 nodes"))
		}, []string{"default/c"}, nil},
		{"a pod that can't be read", func(r *registryRecord) { r.write(registryPods+"default/a", []byte("{}")) }, nil,
			[]string{"pod default/a: can't be read"}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			r := &registryRecord{record{t: t}}
			c.plant(r)
			for i := range r.h.Changes {
				r.h.Changes[i].At = time.Unix(r.h.Changes[i].Revision, 0)
			}
			faults, _ := JudgeRegistry(&r.h, lag, Claims{Created: c.created, Deleted: map[string]bool{"default/gone": true}})
			expect(t, faults, c.want)
		})
	}
}
