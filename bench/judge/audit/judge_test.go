package audit

import (
	"bytes"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/shardsched/shardsched/internal/testkit/build"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// record is a history under construction.
type record struct {
	t *testing.T
	h History
}

func (r *record) write(key string, value []byte) *record {
	r.h.Revision++
	r.h.Changes = append(r.h.Changes, Change{Revision: r.h.Revision, Key: key, Value: value})
	return r
}

func (r *record) object(key string, obj runtime.Object, kind string) *record {
	r.t.Helper()
	obj.GetObjectKind().SetGroupVersionKind(v1.SchemeGroupVersion.WithKind(kind))
	var b bytes.Buffer
	if err := protobuf.NewSerializer(scheme.Scheme, scheme.Scheme).Encode(obj, &b); err != nil {
		r.t.Fatal(err)
	}
	return r.write(key, b.Bytes())
}

func (r *record) node(b *build.NodeBuilder) *record {
	n := b.Obj()
	return r.object(nodesAt+n.Name, n, "Node")
}

func (r *record) pod(b *build.PodBuilder) *record {
	p := b.Obj()
	return r.object(podsAt+p.Namespace+"/"+p.Name, p, "Pod")
}

// bind writes the pod without a node, then with it.
func (r *record) bind(name, node string, words func(*build.PodBuilder)) *record {
	b := build.Pod(name)
	words(b)
	return r.pod(b).pod(b.Node(node))
}

func (r *record) reason(uid, pod, message string) *record {
	raw, err := proto.Marshal(&pb.QueueEntry{Pod: pod, Message: message})
	if err != nil {
		r.t.Fatal(err)
	}
	return r.write(queueAt+uid, raw)
}

func cpu(q string) func(*build.PodBuilder) { return func(b *build.PodBuilder) { b.CPU(q) } }

// one is a cluster of one node: 2 CPUs, 4 GiB, 2 GPUs, 3 pods.
func one(r *record) *record {
	return r.node(build.Node("n1").CPU("2").Memory("4Gi").Resource("example.com/gpu", "2").Pods("3"))
}

func TestPlantedFaultsAreFound(t *testing.T) {
	cases := []struct {
		name  string
		plant func(*record)
		acked []string
		want  []string // parts of the faults, in order; none: no fault
	}{
		{"all is well: one pod bound, one waiting for a reason", func(r *record) {
			one(r).bind("a", "n1", cpu("1500m")).pod(build.Pod("b").CPU("1")).reason("pod-b", "default/b", "0/1 nodes are available: 1 Insufficient cpu.")
		}, []string{"default/a", "default/b"}, nil},
		{"an exact fit is not over", func(r *record) { one(r).bind("a", "n1", cpu("2")) }, []string{"default/a"}, nil},
		{"a lost pod", func(r *record) { one(r) }, []string{"default/a"}, []string{"pod default/a: was acknowledged and is not there"}},
		{"a pod that went away again", func(r *record) {
			one(r).pod(build.Pod("a")).write(podsAt+"default/a", nil)
		}, []string{"default/a"}, []string{"was acknowledged and is not there"}},
		{"a pod bound to two nodes, one after the other", func(r *record) {
			one(r).node(build.Node("n2").CPU("2")).bind("a", "n1", cpu("1")).pod(build.Pod("a").CPU("1").Node("n2"))
		}, []string{"default/a"}, []string{"bound twice: was on n1, now on n2", "its node was written 2 times"}},
		{"a pod bound to one node by two leaders", func(r *record) {
			one(r).bind("a", "n1", cpu("1")).pod(build.Pod("a").CPU("1").Node("n1").Label("by", "another"))
		}, []string{"default/a"}, []string{"written again after it was bound to n1"}},
		{"a pod taken off its node", func(r *record) {
			one(r).bind("a", "n1", cpu("1")).pod(build.Pod("a").CPU("1")).reason("pod-a", "default/a", "no")
		}, []string{"default/a"}, []string{"was on n1 and is taken off it", "would fit n1"}},
		{"CPU over allocatable, at the bind and at the end", func(r *record) {
			one(r).bind("a", "n1", cpu("1500m")).bind("b", "n1", cpu("501m"))
		}, nil, []string{"cpu: 2001 used of 2000 allocatable, since default/b is on it", "at the end, cpu: 2001"}},
		{"memory over allocatable", func(r *record) {
			one(r).bind("a", "n1", func(b *build.PodBuilder) { b.Memory("4Gi").Container("c2").Memory("1") })
		}, nil, []string{"memory: 4294967297 used of 4294967296", "at the end, memory"}},
		{"an extended resource over allocatable", func(r *record) {
			one(r).bind("a", "n1", func(b *build.PodBuilder) { b.Request("example.com/gpu", "3") })
		}, nil, []string{"example.com/gpu: 3 used of 2", "at the end, example.com/gpu"}},
		{"an extended resource that the node does not have", func(r *record) {
			one(r).bind("a", "n1", func(b *build.PodBuilder) { b.Request("example.com/fpga", "1") })
		}, nil, []string{"example.com/fpga: 1 used of 0", "at the end, example.com/fpga"}},
		{"too many pods", func(r *record) {
			one(r).bind("a", "n1", cpu("0")).bind("b", "n1", cpu("0")).bind("c", "n1", cpu("0")).bind("d", "n1", cpu("0"))
		}, nil, []string{"pods: 4 used of 3 allocatable, since default/d is on it", "at the end, pods"}},
		{"over for a while only: a pod goes after another took its room", func(r *record) {
			one(r).bind("a", "n1", cpu("2")).bind("b", "n1", cpu("2")).write(podsAt+"default/a", nil)
		}, nil, []string{"cpu: 4000 used of 2000 allocatable, since default/b is on it"}},
		{"room that was freed may be taken", func(r *record) {
			one(r).bind("a", "n1", cpu("2")).write(podsAt+"default/a", nil).bind("b", "n1", cpu("2"))
		}, nil, nil},
		{"an init container's peak counts", func(r *record) {
			one(r).bind("a", "n1", func(b *build.PodBuilder) { b.CPU("1").Sidecar("s", "cpu", "500m").Init("i", "cpu", "1600m") })
		}, nil, []string{"cpu: 2100 used of 2000", "at the end"}},
		{"two pods on one host port", func(r *record) {
			port := func(b *build.PodBuilder) { b.HostPort("", v1.ProtocolTCP, 80) }
			one(r).bind("a", "n1", port).bind("b", "n1", port)
		}, nil, []string{"host port :80/TCP is taken by default/a, since default/b is on it"}},
		{"a host port on one address against every address", func(r *record) {
			one(r).bind("a", "n1", func(b *build.PodBuilder) { b.HostPort("10.0.0.1", v1.ProtocolTCP, 80) }).
				bind("b", "n1", func(b *build.PodBuilder) { b.HostPort("0.0.0.0", "", 80) })
		}, nil, []string{"host port :80/TCP is taken by default/a"}},
		{"other addresses, protocols and numbers do not conflict", func(r *record) {
			one(r).bind("a", "n1", func(b *build.PodBuilder) {
				b.HostPort("10.0.0.1", v1.ProtocolTCP, 80).HostPort("", v1.ProtocolTCP, 81)
			}).bind("b", "n1", func(b *build.PodBuilder) {
				b.HostPort("10.0.0.2", v1.ProtocolTCP, 80).HostPort("", v1.ProtocolUDP, 81)
			})
		}, nil, nil},
		{"a node that is not there", func(r *record) { one(r).bind("a", "n9", cpu("0")) }, []string{"default/a"},
			[]string{"bound to n9, but it is not there", "pods: 1 used of 0", "at the end, pods"}},
		{"a taint that is not tolerated", func(r *record) {
			r.node(build.Node("n1").Taint("gpu=yes:NoSchedule")).bind("a", "n1", cpu("0"))
		}, []string{"default/a"}, []string{"its taint gpu=yes:NoSchedule is not tolerated"}},
		{"a selector that does not match", func(r *record) {
			one(r).bind("a", "n1", func(b *build.PodBuilder) { b.Required(build.Labels(build.Match("zone", v1.NodeSelectorOpIn, "a"))) })
		}, nil, []string{"selector or affinity refuses it"}},
		{"pending without an entry", func(r *record) { one(r).pod(build.Pod("a").CPU("9")) }, []string{"default/a"},
			[]string{"its queue entry states no reason"}},
		{"pending with the entry of an earlier pod of that name", func(r *record) {
			one(r).pod(build.Pod("a").CPU("9").UID("new")).reason("old", "default/a", "0/1 nodes are available")
		}, []string{"default/a"}, []string{"its queue entry states no reason"}},
		{"pending with an entry that says nothing", func(r *record) {
			one(r).pod(build.Pod("a").CPU("9")).reason("pod-a", "default/a", "")
		}, []string{"default/a"}, []string{"its queue entry states no reason"}},
		{"pending with a reason, though a node would take it", func(r *record) {
			one(r).pod(build.Pod("a").CPU("1")).reason("pod-a", "default/a", "0/1 nodes are available")
		}, []string{"default/a"}, []string{"is not bound (0/1 nodes are available), but would fit n1"}},
		{"a pod that can't be read", func(r *record) { one(r).write(podsAt+"default/a", []byte("{}")) }, nil,
			[]string{"pod default/a: can't be read"}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			r := &record{t: t}
			c.plant(r)
			faults, _ := Judge(&r.h, c.acked)
			expect(t, faults, c.want)
		})
	}
}

// expect compares faults with parts of them.
func expect(t *testing.T, got []Fault, want []string) {
	t.Helper()
	matches := len(got) == len(want)
	for i := 0; matches && i < len(want); i++ {
		matches = strings.Contains(got[i].String(), want[i])
	}
	if !matches {
		t.Errorf("faults:\n got %q\nwant %q (parts)", got, want)
	}
}
