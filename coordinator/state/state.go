package state

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
	"github.com/shardsched/shardsched/coordinator/devices"
	"github.com/shardsched/shardsched/coordinator/groups"
	"github.com/shardsched/shardsched/coordinator/objects"
	"github.com/shardsched/shardsched/coordinator/queue"
	"github.com/shardsched/shardsched/coordinator/volumes"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
	"github.com/shardsched/shardsched/scorer/scan"
)

// State is all that the loop knows of the cluster. Its methods that change it turn a panic into an error, but for those that
// fill and drop counters: these have to succeed, or the term ends.
type State struct {
	*cache.Cache
	hooks    Hooks
	counters *count.Registry
	cluster  *cluster.Cluster
	volumes  *volumes.Cache
	budgets  *cluster.Budgets
	// devices know claims of devices; nil: nobody does. claimChanges are those since the last TakeClaimChanges, and
	// claimsVersion moves with whatever devices know.
	devices       *devices.Cache
	claimChanges  []devices.ClaimChange
	claimsVersion uint64
	// objects are all but nodes and pods.
	objects map[objects.Ref]objects.Object
	// counted says that the status of budgets is computed here.
	counted bool
	// observed are the terms of the pods of the batch. mayBring is how many more new terms the batch may bring.
	terms    []*count.Carried
	mayBring int
	// nominated are the terms of nominated pods. They are valid while the queue's nominations and the version of the storage
	// are these.
	nominated            []*count.Carried
	nominations, storage uint64
	counting             counting
	groups               *groups.Groups // nil: there are no pod groups
}

// Hooks are what the state calls; nil: nothing.
type Hooks struct {
	// Changed is told of each node that has changed, or whose pods have.
	Changed func(node string)
	// Pending are the pods that wait for a node.
	Pending func() iter.Seq[*queue.Pod]
	// Mend is called for a node whose row no longer agrees with its pods, because the tables refused a change. Where it is
	// nil the refusal is an error.
	Mend func(node string, why error)
	// Panicked is told of each panic that was turned into an error.
	Panicked func()
}

// New makes an empty state, whose counters are filled at once (see Bound) and whose budgets are counted here.
func New(shards int) *State {
	s := &State{
		Cache: cache.New(shards), counters: count.New(), cluster: cluster.New(), objects: map[objects.Ref]objects.Object{},
		counting: counting{Bounds: Unbounded(), postponed: map[uint32]struct{}{}},
	}
	s.volumes = volumes.New(s.counters)
	s.counters.UseTopologies(s.HasTopology)
	s.UseCounters(s.counters)
	s.UseDepartures(s)
	s.SetHooks(Hooks{})
	s.FollowBudgets(true)
	return s
}

// SetHooks says what the state calls from now on.
func (s *State) SetHooks(h Hooks) {
	if h.Changed == nil {
		h.Changed = func(string) {}
	}
	if h.Panicked == nil {
		h.Panicked = func() {}
	}
	s.hooks = h
}

// Counters, Cluster and Volumes are parts of compile.ClusterState.
func (s *State) Counters() *count.Registry { return s.counters }
func (s *State) Cluster() *cluster.Cluster { return s.cluster }
func (s *State) Volumes() compile.Volumes  { return s.volumes }

// Storage is what is known of volumes, and Budgets of PodDisruptionBudgets.
func (s *State) Storage() *volumes.Cache   { return s.volumes }
func (s *State) Budgets() *cluster.Budgets { return s.budgets }

// UseGroups has the members of pod groups followed. It is called before any pod is added.
func (s *State) UseGroups(g *groups.Groups) { s.groups = g }

// RecoverInto turns a panic into an error. It is deferred.
func (s *State) RecoverInto(err *error) {
	if v := recover(); v != nil {
		s.hooks.Panicked()
		*err = scan.Recovered(v)
	}
}

// Departure is part of cache.Departures.
func (s *State) Departure(p *v1.Pod, _ string) ([]*pb.CounterValue, []*pb.SharedCount) {
	leaving, shared := s.volumes.Departure(p)
	if counted := s.counters.Departing(p); len(counted) > 0 {
		leaving = slices.Concat(leaving, counted) // no counter is of both
		slices.SortFunc(leaving, func(a, b *pb.CounterValue) int { return cmp.Compare(a.Counter, b.Counter) })
	}
	return leaving, shared
}

// mended has the row mended that has refused a change. It returns the error where mend is nil.
func (s *State) mended(node string, refused error) error {
	if refused == nil || s.hooks.Mend == nil {
		return refused
	}
	s.hooks.Mend(node, refused)
	return nil
}

// tell is Cache.Retell, with the row mended.
func (s *State) tell(uid types.UID) error {
	p, node, _ := s.Pod(uid)
	if p != nil {
		s.groups.Recounted(p)
	}
	return s.mended(node, s.Retell(uid))
}

// count is Cache.ChangeCounters, with the row mended.
func (s *State) count(node string, changes []*pb.CounterValue) error {
	return s.mended(node, s.ChangeCounters(node, changes))
}

// retell tells the tables of pods whose volumes have changed.
func (s *State) retell() error {
	for _, uid := range s.volumes.TakeRetold() {
		if err := s.tell(uid); err != nil {
			return err
		}
	}
	return nil
}

// retellIn tells the tables of all pods of some namespaces.
func (s *State) retellIn(namespaces []string) error {
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
func (s *State) Assume(p *v1.Pod, nodeName string, usage *pb.PodUsage, decision uint64) (err error) {
	defer s.RecoverInto(&err)
	s.follow(p, true)
	if err := s.Cache.Assume(p, nodeName, usage, decision); err != nil {
		return err
	}
	s.groups.Assumed(p, nodeName)
	s.hooks.Changed(nodeName)
	return s.mount(nodeName, p)
}

// SetNode is Cache.SetNode.
func (s *State) SetNode(n *v1.Node) (old *v1.Node, err error) {
	defer s.RecoverInto(&err)
	s.volumes.Set(n)
	s.hooks.Changed(n.Name)
	old, err = s.Cache.SetNode(n)
	for _, key := range s.TakeTopologies() {
		s.counters.Appeared(key)
	}
	return old, err
}

// RemoveNode is Cache.RemoveNode.
func (s *State) RemoveNode(n *v1.Node) (old *v1.Node, err error) {
	defer s.RecoverInto(&err)
	s.volumes.Delete(n)
	s.hooks.Changed(n.Name)
	return s.Cache.RemoveNode(n.Name)
}

// Redo is Cache.Redo.
func (s *State) Redo(node string) (err error) {
	defer s.RecoverInto(&err)
	return s.Cache.Redo(node)
}

// SetPod is Cache.SetPod.
func (s *State) SetPod(p *v1.Pod) (old *v1.Pod, err error) {
	defer s.RecoverInto(&err)
	before, was, _ := s.Pod(p.UID)
	s.groups.PodSet(p, false)
	s.follow(p, true)
	old, err = s.Cache.SetPod(p)
	if was != p.Spec.NodeName {
		err = cmp.Or(s.mended(was, err), s.mended(p.Spec.NodeName, err))
	} else {
		err = s.mended(was, err)
	}
	if err != nil {
		return old, err
	}
	s.hooks.Changed(was)
	s.hooks.Changed(p.Spec.NodeName)
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
func (s *State) mount(nodeName string, p *v1.Pod) error {
	if err := s.count(nodeName, s.added(nodeName, p)); err != nil {
		return err
	}
	return s.retell()
}

func (s *State) added(nodeName string, p *v1.Pod) []*pb.CounterValue {
	defer s.Untold(p, "its volumes")
	return s.volumes.PodAdded(nodeName, p)
}

func (s *State) removed(nodeName string, p *v1.Pod) []*pb.CounterValue {
	defer s.Untold(p, "its volumes")
	return s.volumes.PodRemoved(nodeName, p)
}

func (s *State) unmount(nodeName string, p *v1.Pod) error {
	if err := s.count(nodeName, s.removed(nodeName, p)); err != nil {
		return err
	}
	return s.retell()
}

// Forget takes back the promise of a node to a pod, as Cache.Forget.
func (s *State) Forget(p *v1.Pod) (forgotten bool, err error) { return s.forget(p, s.Cache.Forget) }

// Undo takes an Assume back as if it had never been, as Cache.Undo.
func (s *State) Undo(p *v1.Pod, before uint64) (undone bool, err error) {
	return s.forget(p, func(uid types.UID) (bool, error) { return s.Cache.Undo(uid, before) })
}

func (s *State) forget(p *v1.Pod, take func(types.UID) (bool, error)) (forgotten bool, err error) {
	defer s.RecoverInto(&err)
	object, nodeName, _ := s.Pod(p.UID)
	forgotten, err = take(p.UID)
	if err = s.mended(nodeName, err); err != nil || !forgotten {
		return forgotten, err
	}
	s.groups.Forgotten(object)
	s.hooks.Changed(nodeName)
	s.follow(object, false)
	return true, s.unmount(nodeName, object)
}

// RemovePod is Cache.RemovePod. The pod may be pending.
func (s *State) RemovePod(p *v1.Pod) (old *v1.Pod, nodeName string, err error) {
	defer s.RecoverInto(&err)
	s.groups.PodGone(p)
	s.volumes.Delete(p)
	s.budgets.RemovePod(p)
	if err := s.changeDevices(p, nil); err != nil {
		return nil, "", err
	}
	old, nodeName, err = s.Cache.RemovePod(p.UID)
	if err = s.mended(nodeName, err); err != nil || old == nil {
		return old, nodeName, err
	}
	s.hooks.Changed(nodeName)
	return old, nodeName, s.unmount(nodeName, old)
}

// DropPod is RemovePod without the changes of counters, volumes and budgets.
func (s *State) DropPod(uid types.UID) (err error) {
	defer s.RecoverInto(&err)
	_, _, err = s.Cache.RemovePod(uid)
	return err
}

// Without takes a pod off its node until put is called; nil: it is still there. put has to be called after an error, too.
func (s *State) Without(p *v1.Pod) (put func() error, err error) {
	defer s.RecoverInto(&err)
	object, nodeName, _ := s.Pod(p.UID)
	back, err := s.Cache.Without(p.UID)
	if object == nil {
		return back, err
	}
	err = cmp.Or(s.mended(nodeName, err), s.unmount(nodeName, object))
	return func() (err error) {
		defer s.RecoverInto(&err)
		if err := s.mended(nodeName, back()); err != nil {
			return err
		}
		return s.mount(nodeName, object)
	}, err
}

// Settle brings new and changed counters to the tables. It is called after pods were compiled and before
// they are evaluated, but pods whose counters are postponed wait longer.
func (s *State) Settle() error {
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

// Sweep drops counters that no class has asked for in a long time.
func (s *State) Sweep() {
	s.counters.Sweep()
	s.dropSome()
	s.makeRoom()
}
