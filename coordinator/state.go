package coordinator

import (
	"cmp"
	"fmt"
	"iter"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"

	"github.com/shardsched/shardsched/coordinator/cache"
	"github.com/shardsched/shardsched/coordinator/cluster"
	"github.com/shardsched/shardsched/coordinator/compile"
	"github.com/shardsched/shardsched/coordinator/count"
	"github.com/shardsched/shardsched/coordinator/outoftree"
	"github.com/shardsched/shardsched/coordinator/queue"
	"github.com/shardsched/shardsched/coordinator/volumes"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// state is all that the loop knows of the cluster: nodes and pods, what makes pods belong
// together, storage, and the counters that tell the tables of it. It keeps the parts in step:
// what a pod on a node counts for is counted wherever it counts.
type state struct {
	*cache.Cache
	counters  *count.Registry
	cluster   *cluster.Cluster
	volumes   *volumes.Cache
	outOfTree *outoftree.Plugins // are told of nodes that change; nil: there are none
	budgets   *cluster.Budgets
	// counted says that budgets' status is worked out here; pending are the pods that wait for a node.
	counted bool
	pending func() iter.Seq[*queue.Pod]
	// observed are the terms of the pods of the batch; mayBring is how many terms the batch may bring more.
	observed []*count.Carried
	mayBring int
	// nominated are the terms of nominated pods, as of so many changes of nominations and a version of the storage.
	nominated            []*count.Carried
	nominations, storage uint64
	counting             counting
	// mend is told of a node whose row is not what its pods are, for the tables refused a change; nil: that is
	// an error.
	mend func(node string, why error)
}

func newState(shards int) *state {
	w := &state{Cache: cache.New(shards), counters: count.New(), cluster: cluster.New(), counting: unboundedCounting()}
	w.volumes = volumes.New(w.counters)
	w.counters.UseTopologies(w.HasTopology)
	w.UseCounters(w.counters)
	w.UseDepartures(w)
	w.followBudgets(true)
	return w
}

// Counters, Cluster and Volumes are parts of compile.World.
func (w *state) Counters() *count.Registry { return w.counters }
func (w *state) Cluster() *cluster.Cluster { return w.cluster }
func (w *state) Volumes() compile.Volumes  { return w.volumes }

// Departure is part of cache.Departures.
func (w *state) Departure(p *v1.Pod, _ string) ([]*pb.CounterValue, []*pb.SharedCount) {
	leaving, shared := w.volumes.Departure(p)
	if counted := w.counters.Departing(p); len(counted) > 0 {
		leaving = slices.Concat(leaving, counted) // no counter is of both
		slices.SortFunc(leaving, func(a, b *pb.CounterValue) int { return cmp.Compare(a.Counter, b.Counter) })
	}
	return leaving, shared
}

// mended is nil where somebody mends the row that the tables refused a change of.
func (w *state) mended(node string, refused error) error {
	if refused == nil || w.mend == nil {
		return refused
	}
	w.mend(node, refused)
	return nil
}

// tell is Cache.Retell.
func (w *state) tell(uid types.UID) error {
	_, node, _ := w.Pod(uid)
	return w.mended(node, w.Retell(uid))
}

// count is Cache.ChangeCounters.
func (w *state) count(node string, changes []*pb.CounterValue) error {
	return w.mended(node, w.ChangeCounters(node, changes))
}

// retell tells the tables of pods whose volumes are others now.
func (w *state) retell() error {
	for _, uid := range w.volumes.TakeRetold() {
		if err := w.tell(uid); err != nil {
			return err
		}
	}
	return nil
}

// retellIn tells the tables of all pods of some namespaces.
func (w *state) retellIn(namespaces []string) error {
	var pods []types.UID
	for _, ns := range namespaces {
		for p := range w.In(ns) {
			pods = append(pods, p.UID)
		}
	}
	slices.Sort(pods)
	for _, uid := range pods {
		if err := w.tell(uid); err != nil {
			return err
		}
	}
	return nil
}

// Assume is Cache.Assume.
func (w *state) Assume(p *v1.Pod, nodeName string, usage *pb.PodUsage, decision uint64) error {
	w.follow(p, true)
	if err := w.Cache.Assume(p, nodeName, usage, decision); err != nil {
		return err
	}
	w.outOfTree.Changed(nodeName)
	return w.mount(nodeName, p)
}

// SetNode is Cache.SetNode.
func (w *state) SetNode(n *v1.Node) (*v1.Node, error) {
	w.volumes.Set(n)
	w.outOfTree.Changed(n.Name)
	old, err := w.Cache.SetNode(n)
	for _, key := range w.TakeTopologies() {
		w.counters.Appeared(key)
	}
	return old, err
}

// RemoveNode is Cache.RemoveNode.
func (w *state) RemoveNode(n *v1.Node) (*v1.Node, error) {
	w.volumes.Delete(n)
	w.outOfTree.Changed(n.Name)
	return w.Cache.RemoveNode(n.Name)
}

// SetPod is Cache.SetPod.
func (w *state) SetPod(p *v1.Pod) (*v1.Pod, error) {
	before, was, _ := w.Pod(p.UID)
	w.follow(p, true)
	old, err := w.Cache.SetPod(p)
	if was != p.Spec.NodeName {
		err = cmp.Or(w.mended(was, err), w.mended(p.Spec.NodeName, err))
	} else {
		err = w.mended(was, err)
	}
	if err != nil {
		return old, err
	}
	w.outOfTree.Changed(was)
	w.outOfTree.Changed(p.Spec.NodeName)
	switch {
	case before == nil:
		err = w.mount(p.Spec.NodeName, p)
	case was != p.Spec.NodeName || !equality.Semantic.DeepEqual(before.Spec.Volumes, p.Spec.Volumes):
		if err = w.unmount(was, before); err == nil {
			err = w.mount(p.Spec.NodeName, p)
		}
	}
	return old, err
}

// mount counts the volumes of a pod that is on a node.
func (w *state) mount(nodeName string, p *v1.Pod) error {
	if err := w.count(nodeName, w.added(nodeName, p)); err != nil {
		return err
	}
	return w.retell()
}

func (w *state) added(nodeName string, p *v1.Pod) []*pb.CounterValue {
	defer w.Untold(p, "its volumes")
	return w.volumes.PodAdded(nodeName, p)
}

func (w *state) removed(nodeName string, p *v1.Pod) []*pb.CounterValue {
	defer w.Untold(p, "its volumes")
	return w.volumes.PodRemoved(nodeName, p)
}

func (w *state) unmount(nodeName string, p *v1.Pod) error {
	if err := w.count(nodeName, w.removed(nodeName, p)); err != nil {
		return err
	}
	return w.retell()
}

// Forget is Cache.Forget for a pod that is promised a node.
func (w *state) Forget(p *v1.Pod) (bool, error) {
	object, nodeName, _ := w.Pod(p.UID)
	forgotten, err := w.Cache.Forget(p.UID)
	if err = w.mended(nodeName, err); err != nil || !forgotten {
		return forgotten, err
	}
	w.outOfTree.Changed(nodeName)
	w.follow(object, false)
	return true, w.unmount(nodeName, object)
}

// RemovePod is Cache.RemovePod. The pod may be pending.
func (w *state) RemovePod(p *v1.Pod) (*v1.Pod, string, error) {
	w.volumes.Delete(p)
	w.budgets.RemovePod(p)
	old, nodeName, err := w.Cache.RemovePod(p.UID)
	if err = w.mended(nodeName, err); err != nil || old == nil {
		return old, nodeName, err
	}
	w.outOfTree.Changed(nodeName)
	return old, nodeName, w.unmount(nodeName, old)
}

// Without takes a pod off its node until put is called, which is to be called after an error, too.
func (w *state) Without(p *v1.Pod) (put func() error, err error) {
	object, nodeName, _ := w.Pod(p.UID)
	back, err := w.Cache.Without(p.UID)
	if object == nil {
		return back, err
	}
	return func() error {
		if err := w.mended(nodeName, back()); err != nil {
			return err
		}
		return w.mount(nodeName, object)
	}, cmp.Or(w.mended(nodeName, err), w.unmount(nodeName, object))
}

// settle brings the counters that came into use, or have changed, to the tables. It is
// called before anything that was compiled is evaluated, unless that awaits counters that are postponed.
func (w *state) settle() error {
	if err := w.fillNew(w.counters.TakeNew()); err != nil {
		return err
	}
	for _, x := range w.volumes.TakeChanges() {
		if err := w.count(x.Node, x.Counters); err != nil {
			return fmt.Errorf("count volumes: %w", err)
		}
	}
	return w.retell()
}

// batchTerms is how many affinity terms that no other pod carries the pods of a batch may bring: each is
// held against all pods of the batch. Pods of one workload bring the same, and workloads one to three.
const batchTerms = 32

// observe makes known what a pod carries, before pods are compiled that it may come to share a node
// with, until the next batch has observed its own. It is false where the pod brings more terms than most
// that nobody carries; they count once the pod is placed.
func (w *state) observe(p *v1.Pod, most int) bool {
	w.volumes.Observe(p)
	c, brings, few := w.counters.CarryFew(p, most)
	if c != nil {
		w.observed = append(w.observed, c)
		w.mayBring -= min(brings, w.mayBring)
	}
	return few
}

// beginObserving opens a batch. What the batch before has observed counts until end is called, so that
// terms of both do not go and come.
func (w *state) beginObserving() (end func()) {
	before := w.observed
	w.observed, w.mayBring = nil, batchTerms
	return func() {
		for _, c := range before {
			w.counters.Release(c)
		}
	}
}

// sweep has counters go that nobody has asked for in a long time.
func (w *state) sweep() {
	w.counters.Sweep()
	w.dropSome()
	w.makeRoom()
}
