package cache

import (
	"reflect"

	v1 "k8s.io/api/core/v1"

	"github.com/shardsched/shardsched/coordinator/count"
)

// kind is pods that look alike to counters, as those of one workload do: what becomes of them when a counter comes is found out
// once, and they are found by their labels together.
type kind struct {
	looks
	pods podList
	// found is where the indexes by label have it, by their numbers; nil: nowhere.
	found []*labelled
	// ofKinds is its place in the list of all kinds.
	ofKinds int32
}

func ofKinds(k *kind) *int32 { return &k.ofKinds }

// looks is all of a pod that Counters.Contributions looks at, by where it is in memory: kube's source lets equal pods have it in
// common. Where they have not, each is a kind by itself.
type looks struct {
	namespace string
	labels    uintptr
	carried   *count.Carried
	first     *v1.Volume // of so many
	volumes   int
	leaves    bool
}

func (p *pod) looks() looks {
	o := p.object
	x := looks{
		namespace: o.Namespace, labels: reflect.ValueOf(o.Labels).Pointer(), carried: p.carried,
		volumes: len(o.Spec.Volumes), leaves: o.DeletionTimestamp != nil,
	}
	if x.volumes > 0 {
		x.first = &o.Spec.Volumes[0]
	}
	return x
}

// kinds are those of all pods.
type kinds struct {
	byLooks map[looks]*kind
	all     places[kind]
}

// join makes a pod one of its kind.
func (c *Cache) join(p *pod) {
	x := p.looks()
	k := c.kinds.byLooks[x]
	if k != nil {
		p.kind = k
		k.pods.add(p, ofKind)
		k.count(+1)
		return
	}
	k = &kind{looks: x, pods: podList{p}}
	p.kind, p.ofKind = k, 0
	c.kinds.byLooks[x] = k
	c.kinds.all.add(k, ofKinds)
	for _, index := range c.labelled {
		index.add(k)
	}
}

// leave takes a pod out of its kind, of which it may be the last.
func (c *Cache) leave(p *pod) {
	k := p.kind
	p.kind = nil
	k.pods.remove(p, ofKind)
	k.count(-1)
	if len(k.pods) == 0 {
		delete(c.kinds.byLooks, k.looks)
		c.kinds.all.remove(k, ofKinds)
	}
}
