package coordinator

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/shardsched/shardsched/coordinator/objects"
	"github.com/shardsched/shardsched/internal/testkit/build"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// history is a cluster that changes while a scheduler works, and the objects as they are.
type history struct {
	*rand.Rand
	x      *trial
	nodes  map[string]*v1.Node
	pods   map[types.UID]*v1.Pod
	coming build.Cluster // what is still to come
	queued []objects.Event
	names  int
}

func newHistory(t *rapid.T, x *trial) *history {
	r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 8))
	h := &history{Rand: r, x: x, nodes: map[string]*v1.Node{}, pods: map[types.UID]*v1.Pod{}}
	h.coming = build.Crowd(r, build.CrowdSize{Nodes: 2 + r.IntN(10), Present: 10, Pending: 40, Kinds: 4, Claims: true})
	for _, obj := range h.coming.Others {
		if r.IntN(8) > 0 {
			h.other(objects.Added, obj)
		}
	}
	return h
}

func (h *history) other(typ objects.EventType, obj objects.Object) {
	h.queued = append(h.queued, objects.Event{Type: typ, Kind: objects.KindOf(obj), Object: obj})
}

func (h *history) node(typ objects.EventType, n *v1.Node) {
	h.nodes[n.Name] = n
	if typ == objects.Deleted {
		delete(h.nodes, n.Name)
	}
	h.queued = append(h.queued, objects.Event{Type: typ, Kind: objects.KindNode, Node: n})
}

func (h *history) pod(typ objects.EventType, p *v1.Pod) {
	h.pods[p.UID] = p
	if typ == objects.Deleted {
		delete(h.pods, p.UID)
	}
	h.queued = append(h.queued, objects.Event{Type: typ, Kind: objects.KindPod, Pod: p})
}

// someNode and somePod are of those there are; nil: there is none.
func (h *history) someNode() *v1.Node {
	if len(h.nodes) == 0 {
		return nil
	}
	names := slices.Sorted(maps.Keys(h.nodes))
	return h.nodes[names[h.IntN(len(names))]].DeepCopy()
}

func (h *history) somePod() *v1.Pod {
	if len(h.pods) == 0 {
		return nil
	}
	uids := slices.Sorted(maps.Keys(h.pods))
	return h.pods[uids[h.IntN(len(uids))]].DeepCopy()
}

// happen does one thing.
func (h *history) happen() {
	n, p := h.someNode(), h.somePod()
	switch k := h.IntN(20); {
	case k < 4:
		if list := h.coming.Nodes; len(list) > 0 {
			h.node(objects.Added, list[0])
			h.coming.Nodes = list[1:]
		}
	case k < 6:
		if list := h.coming.Present; len(list) > 0 {
			h.pod(objects.Added, list[0])
			h.coming.Present = list[1:]
		}
	case k < 13:
		if list := h.coming.Pending; len(list) > 0 {
			h.pod(objects.Added, list[0])
			h.coming.Pending = list[1:]
		}
	case k == 13 && n != nil:
		h.node(objects.Deleted, n)
		h.coming.Nodes = append(h.coming.Nodes, n) // it may come back
	case k == 14 && n != nil:
		h.relabel(n)
		h.node(objects.Modified, n)
	case k == 15 && p != nil:
		h.pod(objects.Deleted, p)
	case k < 18 && p != nil:
		h.changePod(p)
		h.pod(objects.Modified, p)
	case k == 18:
		h.changeOther()
	}
}

func (h *history) relabel(n *v1.Node) {
	key := []string{v1.LabelTopologyZone, "rack", v1.LabelHostname}[h.IntN(3)]
	if n.Labels == nil {
		n.Labels = map[string]string{}
	}
	switch h.IntN(3) {
	case 0:
		delete(n.Labels, key)
	case 1:
		n.Labels[key] = fmt.Sprintf("z%d", h.IntN(3))
	default:
		n.Labels[key] = n.Name
	}
}

func (h *history) changePod(p *v1.Pod) {
	if n := h.someNode(); n != nil && h.IntN(8) == 0 {
		p.Spec.NodeName = n.Name // another has bound it there
		return
	}
	if h.IntN(3) == 0 && p.Spec.NodeName != "" {
		at := metav1.Unix(1, 0)
		p.DeletionTimestamp = &at
		return
	}
	p.Labels = map[string]string{"app": []string{"a", "b", "c"}[h.IntN(3)], "version": fmt.Sprint(h.IntN(3))}
}

// changeOther changes what pods belong to.
func (h *history) changeOther() {
	h.names++
	switch h.IntN(4) {
	case 0:
		h.other(objects.Modified, build.Namespace("other", "team", []string{"a", "b", "c"}[h.IntN(3)]))
	case 1:
		h.other(objects.Modified, build.Service("default", "web", "app", []string{"a", "b", "c"}[h.IntN(3)]))
	case 2:
		h.other(objects.Deleted, build.Service("default", "web"))
	default:
		h.other(objects.Added, build.Volume(fmt.Sprintf("later-%d", h.names), "local").Obj())
	}
}

// deliver hands over what is queued, and lets the scheduler go on until it rests.
func (h *history) deliver(t *rapid.T, at int) {
	for len(h.queued) > 0 {
		n := min(at, len(h.queued))
		h.x.Deliver(slices.Clone(h.queued[:n]))
		h.queued = h.queued[n:]
	}
	h.x.turn(t)
	for uid, p := range h.pods {
		if _, node, _ := h.x.state.Pod(uid); node != "" && p.Spec.NodeName == "" {
			h.pods[uid] = withNode(p, node)
		}
	}
}

// leave takes the pods away that wait.
func (h *history) leave(t *rapid.T) {
	for _, uid := range slices.Sorted(maps.Keys(h.pods)) {
		if p := h.pods[uid]; p.Spec.NodeName == "" {
			h.pod(objects.Deleted, p)
		}
	}
	h.deliver(t, 1)
}

// load is all objects as they are.
func (h *history) load() *objects.Snapshot {
	out := &objects.Snapshot{}
	for _, name := range slices.Sorted(maps.Keys(h.nodes)) {
		out.Nodes = append(out.Nodes, h.nodes[name])
	}
	for _, uid := range slices.Sorted(maps.Keys(h.pods)) {
		out.Pods = append(out.Pods, h.pods[uid])
	}
	for obj := range h.x.state.Kept() { // claims and volumes are as placements have left them
		out.Cluster = append(out.Cluster, obj)
	}
	slices.SortFunc(out.Cluster, func(a, b objects.Object) int {
		return cmp.Or(cmp.Compare(objects.KindOf(a), objects.KindOf(b)), cmp.Compare(a.GetNamespace(), b.GetNamespace()), cmp.Compare(a.GetName(), b.GetName()))
	})
	objects.Sort(out.Cluster)
	return out
}

// rebuilt is a scheduler that starts from the objects, with the same memory of which node
// was chosen when: that is all that the objects do not tell.
func (h *history) rebuilt(t *rapid.T, cfg SchedulerConfig) *trial {
	y := newTrial(t, cfg, 0)
	y.Load(h.load(), nil)
	y.seq = h.x.seq
	for i := range h.x.state.NumShards() {
		h.x.state.Table(i).Snapshot(func(r *pb.SnapshotRow) bool {
			p := build.Pod("memory").Obj()
			name, last := r.GetNode().GetName(), r.GetTotals().GetLastDecision()
			if err := y.state.Cache.Assume(p, name, &pb.PodUsage{}, last); err != nil {
				t.Fatal(err)
			}
			if _, err := y.state.Cache.Forget(p.UID); err != nil {
				t.Fatal(err)
			}
			return true
		})
	}
	return y
}

// attachedTo is how many volumes of each driver are counted on each node.
func (x *trial) attachedTo() map[string]int64 {
	out := map[string]int64{}
	for _, driver := range []string{"csi.test", "pd.csi.storage.gke.io", "ebs.csi.aws.com"} {
		id := x.state.Storage().AttachedCounter(driver)
		for i := range x.state.NumShards() {
			t := x.state.Table(i)
			for row := range t.All() {
				if n := t.Counter(id, row); n != 0 {
					out[t.Name(row)+" "+driver] = n
				}
			}
		}
	}
	return out
}

// What the deltas led to is what the objects give: a scheduler that is told of everything
// as it happens decides what one does that starts from the objects, whatever they were.
func TestARebuildFromTheObjectsDecidesTheSame(t *testing.T) {
	placed := 0
	rapid.Check(t, func(t *rapid.T) {
		x := newTrial(t, SchedulerConfig{
			Shards:    rapid.IntRange(1, 4).Draw(t, "shards"),
			BatchSize: rapid.SampledFrom([]int{1, 7, 512}).Draw(t, "batch"),
		}, 0)
		defer x.fanout.Close()
		h := newHistory(t, x)
		for range rapid.IntRange(0, 12).Draw(t, "turns") {
			for range rapid.IntRange(1, 20).Draw(t, "steps") {
				h.happen()
			}
			h.deliver(t, rapid.SampledFrom([]int{1, 3, 100}).Draw(t, "delivered together"))
		}
		h.leave(t)
		y := h.rebuilt(t, SchedulerConfig{Shards: rapid.IntRange(1, 4).Draw(t, "shards"), BatchSize: 100})
		defer y.fanout.Close()
		if d := gocmp.Diff(rowsOf(y.state.Cache), rowsOf(x.state.Cache)); d != "" {
			t.Fatalf("rows (-from the objects +by deltas):\n%s", d)
		}
		for _, s := range []*trial{x, y} {
			if err := s.state.Settle(); err != nil {
				t.Fatal(err)
			}
		}
		if d := gocmp.Diff(y.attachedTo(), x.attachedTo()); d != "" {
			t.Fatalf("attached volumes (-from the objects +by deltas):\n%s", d)
		}
		x.decided(t)
		x.lines = nil
		var events []objects.Event
		for _, p := range h.coming.Pending {
			events = append(events, objects.Event{Type: objects.Added, Kind: objects.KindPod, Pod: p})
		}
		for _, s := range []*trial{x, y} {
			s.Deliver(events)
			s.turn(t)
		}
		want, got := y.decided(t), x.decided(t)
		if d := gocmp.Diff(want, got); d != "" {
			t.Fatalf("decisions (-from the objects +by deltas):\n%s", d)
		}
		for _, d := range got {
			if d.Node != "" {
				placed++
			}
		}
	})
	if placed == 0 {
		t.Error("got no pod placed, want some")
	}
}
