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

// state is all that the loop knows of the cluster: nodes and pods, the objects that select pods,
// storage, and the counters by which the tables know of them. It keeps these parts in step:
// each change of a pod reaches every part that counts the pod.
type state struct {
	*cache.Cache
	counters  *count.Registry
	cluster   *cluster.Cluster
	volumes   *volumes.Cache
	outOfTree *outoftree.Plugins // they are told of nodes that change; nil: there are none
	budgets   *cluster.Budgets
	// counted says that the status of budgets is computed here. pending are the pods that wait for a node.
	counted bool
	pending func() iter.Seq[*queue.Pod]
	// observed are the terms of the pods of the batch. mayBring is how many more new terms the batch may bring.
	observed []*count.Carried
	mayBring int
	// nominated are the terms of nominated pods. They are valid while the queue's nominations and the version of the storage
	// are these.
	nominated            []*count.Carried
	nominations, storage uint64
	counting             counting
	// mend is called for a node whose row no longer agrees with its pods, because the tables refused a change; nil: the
	// refusal is an error.
	mend func(node string, why error)
}

func newState(shards int) *state {
	s := &state{Cache: cache.New(shards), counters: count.New(), cluster: cluster.New(), counting: unboundedCounting()}
	s.volumes = volumes.New(s.counters)
	s.counters.UseTopologies(s.HasTopology)
	s.UseCounters(s.counters)
	s.UseDepartures(s)
	s.followBudgets(true)
	return s
}

// Counters, Cluster and Volumes are parts of compile.World.
func (s *state) Counters() *count.Registry { return s.counters }
func (s *state) Cluster() *cluster.Cluster { return s.cluster }
func (s *state) Volumes() compile.Volumes  { return s.volumes }

// Departure is part of cache.Departures.
func (s *state) Departure(p *v1.Pod, _ string) ([]*pb.CounterValue, []*pb.SharedCount) {
	leaving, shared := s.volumes.Departure(p)
	if counted := s.counters.Departing(p); len(counted) > 0 {
		leaving = slices.Concat(leaving, counted) // no counter is of both
		slices.SortFunc(leaving, func(a, b *pb.CounterValue) int { return cmp.Compare(a.Counter, b.Counter) })
	}
	return leaving, shared
}

// mended has the row mended that has refused a change. It returns the error where mend is nil.
func (s *state) mended(node string, refused error) error {
	if refused == nil || s.mend == nil {
		return refused
	}
	s.mend(node, refused)
	return nil
}

// tell is Cache.Retell, with the row mended.
func (s *state) tell(uid types.UID) error {
	_, node, _ := s.Pod(uid)
	return s.mended(node, s.Retell(uid))
}

// count is Cache.ChangeCounters, with the row mended.
func (s *state) count(node string, changes []*pb.CounterValue) error {
	return s.mended(node, s.ChangeCounters(node, changes))
}

// retell tells the tables of pods whose volumes have changed.
func (s *state) retell() error {
	for _, uid := range s.volumes.TakeRetold() {
		if err := s.tell(uid); err != nil {
			return err
		}
	}
	return nil
}

// retellIn tells the tables of all pods of some namespaces.
func (s *state) retellIn(namespaces []string) error {
	var pods []types.UID
	for _, ns := range namespaces {
		for p := range s.In(ns) {
			pods = append(pods, p.UID)
		}
	}
	slices.Sort(pods)
	for _, uid := range pods {
		if err := s.tell(uid); err != nil {
			return err
		}
	}
	return nil
}

// Assume is Cache.Assume.
func (s *state) Assume(p *v1.Pod, nodeName string, usage *pb.PodUsage, decision uint64) error {
	s.follow(p, true)
	if err := s.Cache.Assume(p, nodeName, usage, decision); err != nil {
		return err
	}
	s.outOfTree.Changed(nodeName)
	return s.mount(nodeName, p)
}

// SetNode is Cache.SetNode.
func (s *state) SetNode(n *v1.Node) (*v1.Node, error) {
	s.volumes.Set(n)
	s.outOfTree.Changed(n.Name)
	old, err := s.Cache.SetNode(n)
	for _, key := range s.TakeTopologies() {
		s.counters.Appeared(key)
	}
	return old, err
}

// RemoveNode is Cache.RemoveNode.
func (s *state) RemoveNode(n *v1.Node) (*v1.Node, error) {
	s.volumes.Delete(n)
	s.outOfTree.Changed(n.Name)
	return s.Cache.RemoveNode(n.Name)
}

// SetPod is Cache.SetPod.
func (s *state) SetPod(p *v1.Pod) (*v1.Pod, error) {
	before, was, _ := s.Pod(p.UID)
	s.follow(p, true)
	old, err := s.Cache.SetPod(p)
	if was != p.Spec.NodeName {
		err = cmp.Or(s.mended(was, err), s.mended(p.Spec.NodeName, err))
	} else {
		err = s.mended(was, err)
	}
	if err != nil {
		return old, err
	}
	s.outOfTree.Changed(was)
	s.outOfTree.Changed(p.Spec.NodeName)
	switch {
	case before == nil:
		err = s.mount(p.Spec.NodeName, p)
	case was != p.Spec.NodeName || !equality.Semantic.DeepEqual(before.Spec.Volumes, p.Spec.Volumes):
		if err = s.unmount(was, before); err == nil {
			err = s.mount(p.Spec.NodeName, p)
		}
	}
	return old, err
}

// mount counts the volumes of a pod that is on a node.
func (s *state) mount(nodeName string, p *v1.Pod) error {
	if err := s.count(nodeName, s.added(nodeName, p)); err != nil {
		return err
	}
	return s.retell()
}

func (s *state) added(nodeName string, p *v1.Pod) []*pb.CounterValue {
	defer s.Untold(p, "its volumes")
	return s.volumes.PodAdded(nodeName, p)
}

func (s *state) removed(nodeName string, p *v1.Pod) []*pb.CounterValue {
	defer s.Untold(p, "its volumes")
	return s.volumes.PodRemoved(nodeName, p)
}

func (s *state) unmount(nodeName string, p *v1.Pod) error {
	if err := s.count(nodeName, s.removed(nodeName, p)); err != nil {
		return err
	}
	return s.retell()
}

// Forget takes back the promise of a node to a pod, as Cache.Forget.
func (s *state) Forget(p *v1.Pod) (bool, error) {
	object, nodeName, _ := s.Pod(p.UID)
	forgotten, err := s.Cache.Forget(p.UID)
	if err = s.mended(nodeName, err); err != nil || !forgotten {
		return forgotten, err
	}
	s.outOfTree.Changed(nodeName)
	s.follow(object, false)
	return true, s.unmount(nodeName, object)
}

// RemovePod is Cache.RemovePod. The pod may be pending.
func (s *state) RemovePod(p *v1.Pod) (*v1.Pod, string, error) {
	s.volumes.Delete(p)
	s.budgets.RemovePod(p)
	old, nodeName, err := s.Cache.RemovePod(p.UID)
	if err = s.mended(nodeName, err); err != nil || old == nil {
		return old, nodeName, err
	}
	s.outOfTree.Changed(nodeName)
	return old, nodeName, s.unmount(nodeName, old)
}

// Without takes a pod off its node until put is called. put has to be called after an error, too.
func (s *state) Without(p *v1.Pod) (put func() error, err error) {
	object, nodeName, _ := s.Pod(p.UID)
	back, err := s.Cache.Without(p.UID)
	if object == nil {
		return back, err
	}
	return func() error {
		if err := s.mended(nodeName, back()); err != nil {
			return err
		}
		return s.mount(nodeName, object)
	}, cmp.Or(s.mended(nodeName, err), s.unmount(nodeName, object))
}

// settle brings new and changed counters to the tables. It is called after pods were compiled and before
// they are evaluated, but pods whose counters are postponed wait longer.
func (s *state) settle() error {
	if err := s.fillNew(s.counters.TakeNew()); err != nil {
		return err
	}
	for _, x := range s.volumes.TakeChanges() {
		if err := s.count(x.Node, x.Counters); err != nil {
			return fmt.Errorf("count volumes: %s", err)
		}
	}
	return s.retell()
}

// batchTerms is how many new affinity terms, which no other pod carries, a batch may bring. Each is matched with all pods of
// the batch, so the work grows with both. Pods of one workload bring the same terms: usually one to three.
const batchTerms = 32

// observe registers the terms that a pod carries, until the next batch has registered its own. It comes before the batch is
// compiled, because the pod may share a node with any pod of it. It is false where the pod brings more than most new terms;
// these count once the pod is placed.
func (s *state) observe(p *v1.Pod, most int) bool {
	s.volumes.Observe(p)
	c, brings, few := s.counters.CarryFew(p, most)
	if c != nil {
		s.observed = append(s.observed, c)
		s.mayBring -= min(brings, s.mayBring)
	}
	return few
}

// beginObserving opens a batch. The terms of the batch before stay registered until end is called, so that
// terms of both batches are not dropped and made again.
func (s *state) beginObserving() (end func()) {
	before := s.observed
	s.observed, s.mayBring = nil, batchTerms
	return func() {
		for _, c := range before {
			s.counters.Release(c)
		}
	}
}

// sweep drops counters that no class has asked for in a long time.
func (s *state) sweep() {
	s.counters.Sweep()
	s.dropSome()
	s.makeRoom()
}
