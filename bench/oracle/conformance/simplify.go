package conformance

import (
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
)

// simplify takes from each object what it can do without.
func (k *shrinker) simplify() {
	for i := range k.best.Rounds {
		for j := range k.best.Rounds[i] {
			for n := 0; ; {
				s := k.best.clone()
				e := &s.Rounds[i][j]
				if !e.without(n) {
					break
				}
				if k.accept(s) {
					k.steps++
				} else {
					n++
				}
			}
		}
	}
}

// without makes the event's object one without its n-th part; false where it has fewer.
func (e *Event) without(n int) bool {
	if e.Type == Removed {
		return false
	}
	t := trimmer{left: n}
	if e.Node != nil {
		e.Node = e.Node.DeepCopy()
		t.node(e.Node)
	} else {
		e.Pod = e.Pod.DeepCopy()
		t.pod(e.Pod)
	}
	return t.left < 0
}

// trimmer counts parts down, and takes the one away at which it arrives.
type trimmer struct{ left int }

func (t *trimmer) hit() bool {
	t.left--
	return t.left == -1
}

func trimList[T any](t *trimmer, list *[]T) {
	for i := range *list {
		if t.hit() {
			*list = slices.Delete(*list, i, i+1)
			return
		}
	}
}

func trimMap[M ~map[K]V, K ~string, V any](t *trimmer, m M) {
	for _, key := range slices.Sorted(maps.Keys(m)) {
		if t.hit() {
			delete(m, key)
			return
		}
	}
}

// trimValue clears a field that is set.
func trimValue[T comparable](t *trimmer, v *T) {
	var zero T
	if *v != zero && t.hit() {
		*v = zero
	}
}

func (t *trimmer) node(n *v1.Node) {
	if n.Status.Capacity != nil && t.hit() {
		n.Status.Capacity = nil
	}
	trimList(t, &n.Spec.Taints)
	trimList(t, &n.Status.Images)
	trimMap(t, n.Labels)
	trimMap(t, n.Status.Allocatable)
	trimValue(t, &n.Spec.Unschedulable)
}

func (t *trimmer) pod(p *v1.Pod) {
	trimValue(t, &p.Spec.Affinity)
	trimValue(t, &p.Spec.Resources)
	trimValue(t, &p.Status.Resources)
	trimValue(t, &p.Spec.Priority)
	trimList(t, &p.Spec.InitContainers)
	trimList(t, &p.Spec.Containers)
	trimList(t, &p.Spec.Tolerations)
	trimList(t, &p.Spec.Volumes)
	trimList(t, &p.Status.ContainerStatuses)
	trimList(t, &p.Status.InitContainerStatuses)
	trimMap(t, p.Spec.NodeSelector)
	trimMap(t, p.Spec.Overhead)
	trimMap(t, p.Labels)
	for i := range p.Spec.InitContainers {
		t.container(&p.Spec.InitContainers[i])
	}
	for i := range p.Spec.Containers {
		t.container(&p.Spec.Containers[i])
	}
	for i := range p.Status.ContainerStatuses {
		t.status(&p.Status.ContainerStatuses[i])
	}
	for i := range p.Status.InitContainerStatuses {
		t.status(&p.Status.InitContainerStatuses[i])
	}
	if r := p.Spec.Resources; r != nil {
		trimMap(t, r.Requests)
		trimMap(t, r.Limits)
	}
	if r := p.Status.Resources; r != nil {
		trimMap(t, r.Requests)
	}
	trimMap(t, p.Status.AllocatedResources)
	if p.Spec.Affinity != nil && p.Spec.Affinity.NodeAffinity != nil {
		t.affinity(p.Spec.Affinity.NodeAffinity)
	}
}

func (t *trimmer) container(c *v1.Container) {
	trimMap(t, c.Resources.Requests)
	trimMap(t, c.Resources.Limits)
	trimList(t, &c.Ports)
	trimValue(t, &c.Image)
	trimValue(t, &c.RestartPolicy)
}

func (t *trimmer) status(s *v1.ContainerStatus) {
	trimValue(t, &s.Resources)
	trimMap(t, s.AllocatedResources)
	if s.Resources != nil {
		trimMap(t, s.Resources.Requests)
	}
}

func (t *trimmer) affinity(a *v1.NodeAffinity) {
	trimValue(t, &a.RequiredDuringSchedulingIgnoredDuringExecution)
	trimList(t, &a.PreferredDuringSchedulingIgnoredDuringExecution)
	for i := range a.PreferredDuringSchedulingIgnoredDuringExecution {
		t.term(&a.PreferredDuringSchedulingIgnoredDuringExecution[i].Preference)
	}
	if s := a.RequiredDuringSchedulingIgnoredDuringExecution; s != nil {
		trimList(t, &s.NodeSelectorTerms)
		for i := range s.NodeSelectorTerms {
			t.term(&s.NodeSelectorTerms[i])
		}
	}
}

func (t *trimmer) term(x *v1.NodeSelectorTerm) {
	trimList(t, &x.MatchExpressions)
	trimList(t, &x.MatchFields)
}
