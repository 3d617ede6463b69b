package framework

import (
	"errors"
	"iter"
	"slices"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"
)

// Source is what a Snapshot shows views of. It is asked by one goroutine at a time: by any between
// Begin and End, else by the one that writes to it.
type Source interface {
	// Nodes gives all nodes, in the order in which List is to give them, of which a node keeps its
	// place that goes and comes again between two cycles.
	Nodes() iter.Seq[*v1.Node]
	// Node is the node of a name; nil: there is none.
	Node(name string) *v1.Node
	// PodsOn gives the pods of a node, assumed ones included.
	PodsOn(node string) iter.Seq[*v1.Pod]
	// Spread tells the size of an image and on how many nodes it is; ok is false where no node
	// has it.
	Spread(image string) (sizeBytes int64, nodes int, ok bool)
}

// Snapshot shows nodes and their pods. Views are made when they are first asked for, and kept until
// the node changes.
//
// One goroutine writes to the source: it calls Begin, End, Changed and Assume, and between Begin
// and End writes nothing but in Assume. Any goroutine may read.
type Snapshot struct {
	source      Source
	generations Generations
	// changed are nodes to forget the views of. It is the writer's.
	changed map[string]struct{}

	mu   sync.RWMutex
	open bool
	// views are as of now; stale are views of nodes that have changed since.
	views, stale map[string]*NodeInfo
	// list is every node's view, in order, if whole, but for those behind; index is where a node
	// stands in it.
	list   []fwk.NodeInfo
	index  map[string]int
	whole  bool
	behind map[string]struct{}
	// affinity and anti are those of list that have such pods; nil: not looked at yet.
	affinity, anti []fwk.NodeInfo
	// claims counts the pods that use a claim, over views.
	claims map[string]int
	// assumed are pods that have come to nodes since Begin, which are not shown.
	assumed map[types.UID]string
}

var (
	_ fwk.SharedLister      = (*Snapshot)(nil)
	_ fwk.NodeInfoLister    = (*Snapshot)(nil)
	_ fwk.StorageInfoLister = (*Snapshot)(nil)
)

// NewSnapshot shows what a source has. It is not open.
func NewSnapshot(s Source) *Snapshot {
	return &Snapshot{
		source: s, changed: map[string]struct{}{},
		views: map[string]*NodeInfo{}, stale: map[string]*NodeInfo{}, index: map[string]int{}, behind: map[string]struct{}{},
		claims: map[string]int{}, assumed: map[types.UID]string{},
	}
}

// errClosed is what a reader gets outside of a scheduling cycle.
var errClosed = errors.New("the snapshot can be read during a scheduling cycle only, up to Permit: use an informer of " +
	"SharedInformerFactory instead")

// Begin opens it, for a scheduling cycle.
func (s *Snapshot) Begin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open = true
	s.forgetChanged()
}

// Changed tells that a node, or what pods it has, is not what it was.
func (s *Snapshot) Changed(node string) { s.changed[node] = struct{}{} }

// Assume runs write, which puts a pod on a node. The pod is shown from End on: as upstream, Reserve
// and Permit plugins see what Filter plugins have seen.
func (s *Snapshot) Assume(pod types.UID, node string, write func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.assumed[pod] = node
	write()
	s.Changed(node)
	s.forgetChanged()
}

// End closes it, once nobody reads any more.
func (s *Snapshot) End() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open = false
	for _, node := range s.assumed {
		s.Changed(node)
	}
	clear(s.assumed)
	s.forgetChanged()
}

// forgetChanged drops the views of what has changed.
func (s *Snapshot) forgetChanged() {
	for node := range s.changed {
		s.forget(node)
	}
	clear(s.changed)
}

// forget drops a view.
func (s *Snapshot) forget(node string) {
	s.affinity, s.anti = nil, nil
	v := s.views[node]
	if v == nil {
		if s.stale[node] == nil || s.source.Node(node) == nil {
			delete(s.stale, node)
			s.whole = false // not shown yet, perhaps a new one; or gone
		}
		return
	}
	delete(s.views, node)
	s.countClaims(v, -1)
	if s.source.Node(node) == nil {
		s.whole = false
		return
	}
	s.stale[node] = v
	if s.whole {
		s.behind[node] = struct{}{}
	}
}

// NodeInfos is part of fwk.SharedLister.
func (s *Snapshot) NodeInfos() fwk.NodeInfoLister { return s }

// StorageInfos is part of fwk.SharedLister.
func (s *Snapshot) StorageInfos() fwk.StorageInfoLister { return s }

// PodGroupStates is part of fwk.SharedLister: there is none.
func (s *Snapshot) PodGroupStates() fwk.PodGroupStateLister { return noPodGroups{} }

// Get is part of fwk.NodeInfoLister.
func (s *Snapshot) Get(name string) (fwk.NodeInfo, error) {
	s.mu.RLock()
	v, open := s.views[name], s.open
	s.mu.RUnlock()
	if v == nil && open {
		s.mu.Lock()
		defer s.mu.Unlock()
		v, open = s.view(name, nil), s.open
	}
	switch {
	case !open:
		return nil, errClosed
	case v == nil:
		return nil, notFound(name)
	}
	return v, nil
}

// List is part of fwk.NodeInfoLister. The list holds until End.
func (s *Snapshot) List() ([]fwk.NodeInfo, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all()
}

// HavePodsWithAffinityList is part of fwk.NodeInfoLister.
func (s *Snapshot) HavePodsWithAffinityList() ([]fwk.NodeInfo, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.with(&s.affinity, (*NodeInfo).GetPodsWithAffinity)
}

// HavePodsWithRequiredAntiAffinityList is part of fwk.NodeInfoLister.
func (s *Snapshot) HavePodsWithRequiredAntiAffinityList() ([]fwk.NodeInfo, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.with(&s.anti, (*NodeInfo).GetPodsWithRequiredAntiAffinity)
}

// with are the nodes that have some of the pods.
func (s *Snapshot) with(kept *[]fwk.NodeInfo, pods func(*NodeInfo) []fwk.PodInfo) ([]fwk.NodeInfo, error) {
	all, err := s.all()
	if err != nil {
		return nil, err
	}
	if *kept == nil {
		*kept = []fwk.NodeInfo{}
		for _, v := range all {
			if len(pods(v.(*NodeInfo))) > 0 {
				*kept = append(*kept, v)
			}
		}
	}
	return *kept, nil
}

// IsPVCUsedByPods is part of fwk.StorageInfoLister. It is false outside of a cycle.
func (s *Snapshot) IsPVCUsedByPods(key string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, err := s.all(); err != nil {
		return false
	}
	return s.claims[key] > 0
}

// all is every node's view.
func (s *Snapshot) all() ([]fwk.NodeInfo, error) {
	if !s.open {
		return nil, errClosed
	}
	switch {
	case !s.whole:
		s.rebuild()
	case len(s.behind) > 0:
		s.catchUp()
	}
	return s.list, nil
}

// catchUp puts new views into the list where nodes have changed.
func (s *Snapshot) catchUp() {
	s.list = slices.Clone(s.list) // others may be reading the old one
	for name := range s.behind {
		s.list[s.index[name]] = s.view(name, nil)
	}
	clear(s.behind)
}

// rebuild makes the list anew, from the views that there are and new ones.
func (s *Snapshot) rebuild() {
	old := s.views
	s.views, s.list = make(map[string]*NodeInfo, len(old)), make([]fwk.NodeInfo, 0, len(s.list))
	clear(s.index)
	clear(s.claims)
	for node := range s.source.Nodes() {
		v := old[node.Name]
		if v != nil {
			s.keep(v)
		} else {
			v = s.view(node.Name, node)
		}
		s.index[node.Name] = len(s.list)
		s.list = append(s.list, v)
	}
	clear(s.stale)
	clear(s.behind)
	s.affinity, s.anti = nil, nil
	s.whole = true
}

// view is the view of a node, which may be given; nil: there is no such node.
func (s *Snapshot) view(name string, node *v1.Node) *NodeInfo {
	if v := s.views[name]; v != nil || !s.open {
		return v
	}
	if node == nil {
		if node = s.source.Node(name); node == nil {
			return nil
		}
	}
	v := NewNodeInfo(&s.generations, node, s.pods(name))
	v.setImages(s.source.Spread)
	delete(s.stale, name)
	s.keep(v)
	return v
}

// keep keeps a view.
func (s *Snapshot) keep(v *NodeInfo) {
	s.views[v.node.Name] = v
	s.countClaims(v, 1)
}

// pods are the pods of a node, in the views that there were of them before.
func (s *Snapshot) pods(node string) iter.Seq[fwk.PodInfo] {
	var before map[*v1.Pod]fwk.PodInfo
	if old := s.stale[node]; old != nil {
		before = make(map[*v1.Pod]fwk.PodInfo, len(old.pods))
		for _, p := range old.pods {
			before[p.GetPod()] = p
		}
	}
	return func(yield func(fwk.PodInfo) bool) {
		for p := range s.source.PodsOn(node) {
			if _, hidden := s.assumed[p.UID]; hidden {
				continue
			}
			v := before[p]
			if v == nil {
				v = viewOf(p)
			}
			if !yield(v) {
				return
			}
		}
	}
}

// countClaims adds the claims of a view, sign times.
func (s *Snapshot) countClaims(v *NodeInfo, sign int) {
	for key, n := range v.claims {
		s.claims[key] += sign * n
		if s.claims[key] == 0 {
			delete(s.claims, key)
		}
	}
}
