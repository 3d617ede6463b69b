package cluster

import (
	"hash/maphash"
	"maps"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/shardsched/shardsched/coordinator/objects"
	"github.com/shardsched/shardsched/coordinator/selector"
)

// services are the Services of one namespace that have a selector.
type services struct {
	byName  map[string]*service
	index   selector.Index[*service]
	version uint64 // no other Services, of any namespace, have it, nor have these had it before
}

type service struct {
	labels   map[string]string
	selector *selector.Selector
}

// defaultKey finds the answer for pods of a controller, nil: of none, whose Services have a version and see the same of
// them: a hash of it.
type defaultKey struct {
	services uint64
	by       *selected
	hash     uint64
}

type keptDefault struct {
	sight    string // guards against equal hashes
	selector *selector.Selector
}

// controller names a pod's controller.
type controller struct {
	kind            objects.Kind
	namespace, name string
}

// selected is what a controller selects its pods by.
type selected struct {
	// labels take the place of equal keys of the Services; nil: they do not.
	labels map[string]string
	// selector is Everything where there is nothing that could be read.
	selector *selector.Selector
}

const (
	// defaultBudget is how many bytes of answers are kept for all namespaces.
	defaultBudget = 32 << 20
	// maxKeptDefault is how many bytes an answer may take to be kept.
	maxKeptDefault = 64 << 10
)

func (c *Cluster) setService(namespace, name string, now objects.Object) {
	in := c.services[namespace]
	var old *service
	if in != nil {
		old = in.byName[name]
	}
	var labels map[string]string
	if now != nil {
		labels = now.(*v1.Service).Spec.Selector
	}
	if old == nil && len(labels) == 0 || old != nil && maps.Equal(old.labels, labels) {
		return // one without labels matches, if anything, without a consequence
	}
	if in == nil {
		in = &services{byName: map[string]*service{}}
		c.services[namespace] = in
	}
	if old != nil {
		in.index.Remove(old.selector, old)
		delete(in.byName, name)
	}
	if len(labels) > 0 {
		s := &service{labels: labels, selector: selector.Equal(labels)}
		in.byName[name] = s
		in.index.Add(s.selector, s)
	}
	c.version++
	in.version = c.version
	if len(in.byName) == 0 {
		delete(c.services, namespace)
	}
}

func controllerOf(o objects.Object) controller {
	return controller{objects.KindOf(o), o.GetNamespace(), o.GetName()}
}

func selectedBy(o objects.Object) *selected {
	read := func(s *metav1.LabelSelector) *selected {
		parsed, err := selector.New(s)
		if err != nil || parsed.MatchesNothing() {
			parsed = selector.Equal(nil) // as upstream, it adds nothing
		}
		return &selected{selector: parsed}
	}
	switch o := o.(type) {
	case *v1.ReplicationController:
		return &selected{labels: o.Spec.Selector, selector: selector.Equal(o.Spec.Selector)}
	case *appsv1.ReplicaSet:
		return read(o.Spec.Selector)
	}
	return read(o.(*appsv1.StatefulSet).Spec.Selector)
}

// controlling finds a pod's controller, nil where there is none that is known.
func (c *Cluster) controlling(p *v1.Pod) *selected {
	owner := metav1.GetControllerOfNoCopy(p)
	if owner == nil {
		return nil
	}
	var kind objects.Kind
	switch {
	case owner.Kind == "ReplicaSet" && owner.APIVersion == "apps/v1":
		kind = objects.KindReplicaSet
	case owner.Kind == "StatefulSet" && owner.APIVersion == "apps/v1":
		kind = objects.KindStatefulSet
	case owner.Kind == "ReplicationController" && owner.APIVersion == "v1":
		kind = objects.KindReplicationController
	default:
		return nil
	}
	return c.controllers[controller{kind, p.Namespace, owner.Name}]
}

// DefaultSelector is the selector of the pods that a pod is to be spread with by default;
// nil where there is none.
func (c *Cluster) DefaultSelector(p *v1.Pod) *selector.Selector {
	by := c.controlling(p)
	in := c.services[p.Namespace]
	switch {
	case in == nil && by == nil:
		return nil
	case in == nil:
		return unlessEmpty(by.selector)
	}
	c.scratch = in.index.Sight(p.Labels, c.scratch[:0])
	key := defaultKey{in.version, by, maphash.Bytes(c.seed, c.scratch)}
	if kept, ok := c.defaults.Get(key); ok && kept.sight == string(c.scratch) {
		return unlessEmpty(kept.selector)
	}
	found := in.demand(p.Labels, by)
	bytes := len(c.scratch) + found.MemoryBytes()
	if by != nil {
		bytes += 2 * by.selector.MemoryBytes() // and its labels
	}
	if bytes <= maxKeptDefault {
		c.defaults.Add(key, keptDefault{string(c.scratch), found}, int64(bytes))
	}
	return unlessEmpty(found)
}

// demand is what the Services of a pod and its controller demand together.
func (in *services) demand(pod map[string]string, by *selected) *selector.Selector {
	labels := map[string]string{}
	in.index.Matching(pod, func(m *service) { maps.Copy(labels, m.labels) })
	if by == nil {
		return selector.Equal(labels)
	}
	maps.Copy(labels, by.labels)
	if by.labels != nil {
		return selector.Equal(labels)
	}
	return selector.Equal(labels).And(by.selector)
}

// unlessEmpty is a selector, nil where it demands nothing.
func unlessEmpty(s *selector.Selector) *selector.Selector {
	if s.Empty() {
		return nil
	}
	return s
}
