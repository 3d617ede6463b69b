package cluster

import (
	"hash/maphash"
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"

	"github.com/shardsched/shardsched/coordinator/objects"
	"github.com/shardsched/shardsched/coordinator/selector"
	"github.com/shardsched/shardsched/internal/lru"
)

// Cluster is the objects that decide which pods belong together.
type Cluster struct {
	namespaces  namespaces
	services    map[string]*services // by namespace
	controllers map[controller]*selected
	version     uint64 // counts the changes of Services
	defaults    *lru.Cache[defaultKey, keptDefault]
	seed        maphash.Seed // nobody can make answers push each other out
	scratch     []byte
}

// New makes a cluster without objects.
func New() *Cluster {
	return &Cluster{
		namespaces:  newNamespaces(),
		services:    map[string]*services{},
		controllers: map[controller]*selected{},
		defaults:    lru.New[defaultKey, keptDefault](defaultBudget/lru.EntryBytes, defaultBudget, nil),
		seed:        maphash.MakeSeed(),
	}
}

// Set takes in that an object is new (old is nil), has changed, or is gone (now is nil). It
// passes over kinds that it does not keep.
func (c *Cluster) Set(old, now objects.Object) {
	either := now
	if either == nil {
		either = old
	}
	switch either.(type) {
	case *v1.Namespace:
		c.namespaces.set(either.GetName(), now)
	case *v1.Service:
		c.setService(either.GetNamespace(), either.GetName(), now)
	case *v1.ReplicationController, *appsv1.ReplicaSet, *appsv1.StatefulSet:
		key := controllerOf(either)
		if now == nil {
			delete(c.controllers, key)
			return
		}
		c.controllers[key] = selectedBy(now)
	}
}

// keptNamespaceLists bounds the selectors whose namespaces are kept, namespaceListBudget their bytes.
const keptNamespaceLists, namespaceListBudget = 4096, 32 << 20

// namespaces are the namespaces by name.
type namespaces struct {
	version uint64
	labels  map[string]map[string]string
	// matching keeps the answers for selectors and more names, by their texts.
	matching *lru.Cache[string, []string]
}

func newNamespaces() namespaces {
	return namespaces{labels: map[string]map[string]string{}, matching: newNamespaceLists()}
}

func newNamespaceLists() *lru.Cache[string, []string] {
	return lru.New[string, []string](keptNamespaceLists, namespaceListBudget, nil)
}

func (n *namespaces) set(name string, now objects.Object) {
	old, known := n.labels[name]
	if now == nil {
		delete(n.labels, name)
	} else {
		n.labels[name] = now.GetLabels()
		if known && maps.Equal(old, now.GetLabels()) {
			return
		}
	}
	n.version++
	if n.matching.Len() > 0 {
		n.matching = newNamespaceLists()
	}
}

// NamespacesVersion moves whenever a namespace comes, goes or changes its labels.
func (c *Cluster) NamespacesVersion() uint64 { return c.namespaces.version }

// NamespaceLabels are the labels of a namespace, nil where it does not exist.
func (c *Cluster) NamespaceLabels(name string) map[string]string { return c.namespaces.labels[name] }

// Namespaces are the names of the namespaces whose labels a selector matches, and some more, sorted, each once. Whoever
// asks for the same has the same list, until a namespace comes, goes or changes its labels: nobody may change it.
func (c *Cluster) Namespaces(s *selector.Selector, more []string) []string {
	n := &c.namespaces
	var text []byte
	for _, name := range more {
		text = selector.AppendText(append(text, 1), name)
	}
	key := string(append(append(text, 0), s.Text()...))
	if list, ok := n.matching.Get(key); ok {
		return list
	}
	list := slices.Clone(more)
	for name, labels := range n.labels {
		if s.Matches(labels) {
			list = append(list, name)
		}
	}
	slices.Sort(list)
	list = slices.Clip(slices.Compact(list))
	n.matching.Add(key, list, int64(len(key)+cap(list)*16))
	return list
}
