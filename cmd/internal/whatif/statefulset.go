package whatif

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"

	"github.com/shardsched/shardsched/cmd/internal/workload"
	"github.com/shardsched/shardsched/coordinator/objects"
)

// statefulSet plays the StatefulSet controller (k8s.io/kubernetes/pkg/controller/statefulset). With OrderedReady a step makes or deletes
// one pod, and none while a pod of a lower number is not ready.
type statefulSet struct {
	key    Key
	object *appsv1.StatefulSet
	old    *appsv1.StatefulSet // what pods below the partition are made of; nil: not known
	atOnce bool
	steps  int // of the rollout
	rolled bool
	waits  string // why nothing happens; empty: nothing is left to do
}

func (s *statefulSet) wants(*Cluster) int { return int(or(s.object.Spec.Replicas, 1)) }

func (s *statefulSet) lost(*Cluster, *pod) {}

func (s *statefulSet) first() int { return firstOf(s.object) }

func firstOf(set *appsv1.StatefulSet) int {
	if set.Spec.Ordinals != nil {
		return int(set.Spec.Ordinals.Start)
	}
	return 0
}

func (s *statefulSet) parallel() bool {
	return s.object.Spec.PodManagementPolicy == appsv1.ParallelPodManagement
}

// ordinal is the number of a pod; -1: its name has none.
func (s *statefulSet) ordinal(p *pod) int {
	text, ok := strings.CutPrefix(p.obj.Name, s.key.Name+"-")
	n, err := strconv.Atoi(text)
	if !ok || err != nil {
		return -1
	}
	return n
}

func (s *statefulSet) sync(c *Cluster) bool {
	s.waits = ""
	there := map[int]*pod{}
	var condemned []*pod
	first, end := s.first(), s.first()+s.wants(c)
	for _, p := range c.of(s.key) {
		n := s.ordinal(p)
		if there[n] = p; n < first || n >= end {
			condemned = append(condemned, p)
		}
	}
	if s.atOnce && s.replace(c, there, first, end) {
		return true
	}
	did := false
	for i := first; i < end; i++ {
		switch p := there[i]; {
		case p == nil:
			s.makeOne(c, i)
			did = true
			if !s.parallel() {
				return true
			}
		case !p.ready && !s.parallel():
			s.waits = fmt.Sprintf("%s is not ready, and the pods after it wait for it", p.obj.Name)
			return false
		}
	}
	slices.SortFunc(condemned, func(a, b *pod) int { return cmp.Compare(s.ordinal(b), s.ordinal(a)) })
	for _, p := range condemned {
		if !s.parallel() && !p.ready && p != s.firstUnready(c) {
			s.waits = fmt.Sprintf("%s is not ready, and pods go in order", s.firstUnready(c).obj.Name)
			return did
		}
		c.remove(p)
		s.removeClaims(c, p)
		did = true
		if !s.parallel() {
			return true
		}
	}
	return did || s.roll(c, there, end)
}

func (s *statefulSet) firstUnready(c *Cluster) (first *pod) {
	for _, p := range c.of(s.key) {
		if !p.ready && (first == nil || s.ordinal(p) < s.ordinal(first)) {
			first = p
		}
	}
	return first
}

// replace has all pods of an old template go, and others come, in one step.
func (s *statefulSet) replace(c *Cluster, there map[int]*pod, first, end int) bool {
	did := false
	for i := end - 1; i >= s.partition(); i-- {
		if p := there[i]; p != nil && p.stale {
			c.remove(p)
			delete(there, i)
			did = true
		}
	}
	if did {
		for i := first; i < end; i++ {
			if there[i] == nil {
				s.makeOne(c, i)
			}
		}
		s.steps++
	}
	return did
}

// roll deletes one pod of an old template, the highest number first, once those above it are ready.
func (s *statefulSet) roll(c *Cluster, there map[int]*pod, end int) bool {
	if s.onDelete() {
		return false
	}
	for i := end - 1; i >= s.partition(); i-- {
		p := there[i]
		switch {
		case p == nil:
			return false
		case p.stale:
			c.remove(p)
			s.steps++
			return true
		case !p.ready:
			s.waits = fmt.Sprintf("%s is not ready, and the pods below it wait for it", p.obj.Name)
			return false
		}
	}
	return false
}

// onDelete tells whether pods keep an old template until somebody deletes them.
func (s *statefulSet) onDelete() bool {
	return s.object.Spec.UpdateStrategy.Type == appsv1.OnDeleteStatefulSetStrategyType && !s.atOnce
}

// partition is the lowest number of the pods that get a new template.
func (s *statefulSet) partition() int {
	if r := s.object.Spec.UpdateStrategy.RollingUpdate; r != nil && !s.atOnce {
		return s.first() + int(or(r.Partition, 0))
	}
	return s.first()
}

// makeOne makes a pod, and those of its claims that are not there.
func (s *statefulSet) makeOne(c *Cluster, i int) {
	of := s.object
	stale := s.old != nil && s.rolled && i < s.partition()
	if stale {
		of = s.old
	}
	obj, claims := workload.Ordinal(of, i)
	for _, claim := range claims {
		c.add(claim)
	}
	c.create(obj).stale = stale
}

// removeClaims does what the retention policy says of a pod that a smaller set has no place for.
func (s *statefulSet) removeClaims(c *Cluster, p *pod) {
	r := s.object.Spec.PersistentVolumeClaimRetentionPolicy
	if r == nil || r.WhenScaled != appsv1.DeletePersistentVolumeClaimRetentionPolicyType {
		return
	}
	for i := range s.object.Spec.VolumeClaimTemplates {
		c.unset(objects.Ref{Kind: objects.KindPersistentVolumeClaim, Namespace: s.key.Namespace,
			Name: s.object.Spec.VolumeClaimTemplates[i].Name + "-" + p.obj.Name})
	}
}

func (s *statefulSet) rollout(c *Cluster) *Rollout {
	if !s.rolled {
		return nil
	}
	x := &Rollout{Steps: s.steps}
	kept, missing := 0, s.wants(c)
	for _, p := range c.of(s.key) {
		switch {
		case p.stale && s.ordinal(p) < s.partition():
			kept++
		case p.stale:
			x.Old++
		case p.ready:
			x.Updated++
		}
		if p.ready {
			missing--
		}
	}
	x.Complete = x.Old == 0 && missing <= 0
	switch {
	case x.Complete:
	case s.onDelete() && s.waits == "":
		x.Stuck = "its update strategy is OnDelete: pods that are there keep the old template until somebody deletes them"
	default:
		x.Stuck = s.waits
	}
	if kept > 0 && x.Complete {
		x.Note = fmt.Sprintf("partition %d leaves %s of the old one", s.partition()-s.first(), plural(kept, "pod"))
	}
	return x
}

// adoptStatefulSet takes in a StatefulSet of the cluster. Its pods are of its template, unless its status tells of another revision.
func (c *Cluster) adoptStatefulSet(obj *appsv1.StatefulSet) *statefulSet {
	s := &statefulSet{key: keyOf(obj), object: obj}
	if now := obj.Status.UpdateRevision; now != "" {
		for _, p := range c.of(s.key) {
			p.stale = p.obj.Labels[appsv1.StatefulSetRevisionLabel] != now
			s.rolled = s.rolled || p.stale
		}
	}
	c.workloads[s.key] = s
	return s
}
