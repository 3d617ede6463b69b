package observe

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"github.com/shardsched/shardsched/coordinator/cache"
	"github.com/shardsched/shardsched/coordinator/compile"
	"github.com/shardsched/shardsched/coordinator/devices"
	"github.com/shardsched/shardsched/coordinator/queue"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

const (
	// nodesAtOnce is how many nodes one step of a dump lists, each with its pods.
	nodesAtOnce = 128
	// podsAtOnce is how many pending pods one step of a summary or dump looks at: each takes a microsecond.
	podsAtOnce = 2048
)

// Cluster is what summaries and dumps see of nodes and of the pods on them. It is read on the loop.
type Cluster interface {
	NumShards() int
	// Uses adds up every resource that the nodes of a shard have.
	Uses(shard int, of func(resource string) func(allocatable, requested int64))
	Dump() iter.Seq[cache.NodeDump]
	// Claims is what is known of devices and claims; nil: nothing is.
	Claims() *devices.Cache
}

// Queue is what summaries and dumps see of the pods that wait. It is read on the loop.
type Queue interface {
	All() iter.Seq[*queue.Pod]
	NominatedNodes() []string
	Nominated(node string) []*queue.Pod
	Lens() map[string]int
}

// Debugger logs what the loop knows.
type Debugger struct {
	Reads   *Reads
	Cluster Cluster
	Queue   Queue
	// Ours tells whether a pod without a node is this scheduler's.
	Ours func(*v1.Pod) bool
}

// Compare holds the state of the cluster against the nodes and pods that list gives, and logs
// what differs as upstream's cache comparer does. What is on its way between the two differs
// as well.
//
// Differs from upstream: pending pods of other schedulers, which nobody here is to know, are
// not missed; of nodes of which only pods are known only the pods count.
func (x Debugger) Compare(ctx context.Context, list func() ([]*v1.Node, []*v1.Pod, error)) error {
	log := klog.FromContext(ctx)
	log.V(3).Info("Cache comparer started")
	defer log.V(3).Info("Cache comparer finished")
	nodes, pods, err := list()
	if err != nil {
		return fmt.Errorf("compare caches: %w", err)
	}
	d, err := x.dump(ctx)
	if err != nil {
		return err
	}
	if missed, redundant := d.compareNodes(nodes); len(missed)+len(redundant) > 0 {
		log.Info("Cache mismatch", "missedNodes", missed, "redundantNodes", redundant)
	}
	ours := func(p *v1.Pod) bool { return p.Spec.NodeName != "" || x.Ours(p) }
	if missed, redundant := d.comparePods(pods, ours); len(missed)+len(redundant) > 0 {
		log.Info("Cache mismatch", "missedPods", missed, "redundantPods", redundant)
	}
	return nil
}

// Dump logs the state of the cluster and the queue, as upstream's cache dumper does.
func (x Debugger) Dump(ctx context.Context) error {
	d, err := x.dump(ctx)
	if err != nil {
		return err
	}
	nodes := make([]string, len(d.nodes))
	for i := range d.nodes {
		nodes[i] = d.node(&d.nodes[i])
	}
	var pending strings.Builder
	for _, p := range d.pending {
		podLine(&pending, p)
	}
	log := klog.FromContext(ctx)
	log.Info("Dump of cached NodeInfo", "nodes", strings.Join(nodes, "\n\n"))
	log.Info("Dump of scheduling queue", "summary", d.summary, "pods", pending.String())
	return nil
}

// dump is the state and the queue, read in several turns of the loop: it is worded and compared off the loop.
type dump struct {
	nodes     []cache.NodeDump // by name
	pending   []*v1.Pod
	nominated map[string][]*v1.Pod
	summary   string
}

func (x Debugger) dump(ctx context.Context) (*dump, error) {
	d := &dump{nominated: map[string][]*v1.Pod{}}
	var nodes walk[cache.NodeDump]
	var pending walk[*queue.Pod]
	step := func() (last bool) {
		if !nodes.some(x.Cluster.Dump(), nodesAtOnce, func(n cache.NodeDump) { d.nodes = append(d.nodes, n) }) ||
			!pending.some(x.Queue.All(), podsAtOnce, func(p *queue.Pod) { d.pending = append(d.pending, p.Obj) }) {
			return false
		}
		for _, node := range x.Queue.NominatedNodes() {
			for _, p := range x.Queue.Nominated(node) {
				d.nominated[node] = append(d.nominated[node], p.Obj)
			}
		}
		n := x.Queue.Lens()
		d.summary = fmt.Sprintf("activeQ:%v; backoffQ:%v; unschedulablePods:%v",
			n[queue.Active.String()], n[queue.Backoff.String()], n[queue.Unschedulable.String()]+n[queue.Gated.String()])
		return true
	}
	if err := x.Reads.Read(ctx, Read{Step: step, End: func() { nodes.end(); pending.end() }}); err != nil {
		return nil, fmt.Errorf("dump caches: %w", err)
	}
	slices.SortFunc(d.nodes, func(a, b cache.NodeDump) int { return cmp.Compare(a.Name, b.Name) })
	byName := func(a, b *v1.Pod) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	}
	slices.SortFunc(d.pending, byName)
	for i := range d.nodes {
		slices.SortFunc(d.nodes[i].Pods, byName)
	}
	return d, nil
}

func (d *dump) compareNodes(nodes []*v1.Node) (missed, redundant []string) {
	var actual, cached []string
	for _, n := range nodes {
		actual = append(actual, n.Name)
	}
	for i := range d.nodes {
		if d.nodes[i].Object != nil {
			cached = append(cached, d.nodes[i].Name)
		}
	}
	return difference(actual, cached)
}

func (d *dump) comparePods(pods []*v1.Pod, ours func(*v1.Pod) bool) (missed, redundant []string) {
	var actual, cached []string
	for _, p := range pods {
		if ours(p) {
			actual = append(actual, string(p.UID))
		}
	}
	for i := range d.nodes {
		for _, p := range d.nodes[i].Pods {
			cached = append(cached, string(p.UID))
		}
	}
	for _, p := range d.pending {
		cached = append(cached, string(p.UID))
	}
	return difference(actual, cached)
}

// difference tells what only one of two lists has, sorted.
func difference(actual, cached []string) (missed, redundant []string) {
	slices.Sort(actual)
	slices.Sort(cached)
	missed, redundant = []string{}, []string{}
	for len(actual) > 0 || len(cached) > 0 {
		switch {
		case len(cached) == 0 || len(actual) > 0 && actual[0] < cached[0]:
			missed, actual = append(missed, actual[0]), actual[1:]
		case len(actual) == 0 || cached[0] < actual[0]:
			redundant, cached = append(redundant, cached[0]), cached[1:]
		default:
			actual, cached = actual[1:], cached[1:]
		}
	}
	return missed, redundant
}

// node words a node in upstream's way.
func (d *dump) node(n *cache.NodeDump) string {
	var b strings.Builder
	requested, allocatable := &pb.Resources{}, &pb.Resources{}
	for _, p := range n.Pods {
		addResources(requested, compile.Usage(p).GetRequests())
	}
	allowed := int64(0)
	if n.Object != nil {
		wire := compile.Node(n.Object)
		allocatable, allowed = wire.GetAllocatable(), wire.GetAllowedPods()
	}
	fmt.Fprintf(&b, "Node name: %s\nDeleted: %t\nRequested Resources: %s\nAllocatable Resources:%s\nScheduled Pods(number: %d):\n",
		n.Name, n.Object == nil, resourceText(requested, 0), resourceText(allocatable, allowed), len(n.Pods))
	for _, p := range n.Pods {
		podLine(&b, p)
	}
	if nominated := d.nominated[n.Name]; len(nominated) > 0 {
		fmt.Fprintf(&b, "Nominated Pods(number: %d):\n", len(nominated))
		for _, p := range nominated {
			podLine(&b, p)
		}
	}
	return b.String()
}

func addResources(to, r *pb.Resources) {
	to.MilliCpu += r.GetMilliCpu()
	to.MemoryBytes += r.GetMemoryBytes()
	to.EphemeralStorageBytes += r.GetEphemeralStorageBytes()
	for _, s := range r.GetScalars() {
		i := slices.IndexFunc(to.Scalars, func(x *pb.ScalarResource) bool { return x.Name == s.Name })
		if i < 0 {
			to.Scalars = append(to.Scalars, &pb.ScalarResource{Name: s.Name, Quantity: s.Quantity})
			continue
		}
		to.Scalars[i].Quantity += s.Quantity
	}
}

func resourceText(r *pb.Resources, allowedPods int64) string {
	scalars := map[string]int64{}
	for _, s := range r.GetScalars() {
		scalars[s.Name] = s.Quantity
	}
	return fmt.Sprintf("&{MilliCPU:%d Memory:%d EphemeralStorage:%d AllowedPodNumber:%d ScalarResources:%v}",
		r.GetMilliCpu(), r.GetMemoryBytes(), r.GetEphemeralStorageBytes(), allowedPods, scalars)
}

func podLine(b *strings.Builder, p *v1.Pod) {
	fmt.Fprintf(b, "name: %v, namespace: %v, uid: %v, phase: %v, nominated node: %v\n", p.Name, p.Namespace, p.UID, p.Status.Phase,
		p.Status.NominatedNodeName)
}
