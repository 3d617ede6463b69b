package store

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"go.etcd.io/etcd/api/v3/mvccpb"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/klog/v2"

	"github.com/shardsched/shardsched/coordinator/lease"
	"github.com/shardsched/shardsched/coordinator/objects"
)

// Evict carries a preemption out: nominations that yield are cleared, then the victims get their
// condition DisruptionTarget, so that whoever watches them sees why, and then they are deleted, with
// their queue entries and after them the claims that were made for them. A pod that is gone, or
// whose name another has, is no error.
//
// A victim that has a controller is made again under its name, for nobody else does: with another UID, pending, and with the
// annotation objects.PreemptedBy. Where the leader dies before that, the pod is missing until its workload is applied again.
//
// An error says that what was not begun is not written. Evict may be called again.
func (s *Store) Evict(ctx context.Context, f lease.Fence, e *objects.Eviction) error {
	if _, err := s.settle(ctx, opEvict, f, refsOf(e.Lower), func(i int, current *mvccpb.KeyValue) (*write, error) {
		return s.change(current, e.Lower[i], func(p *v1.Pod) bool {
			was := p.Status.NominatedNodeName
			p.Status.NominatedNodeName = ""
			return was == e.Node && p.Spec.NodeName == ""
		})
	}); err != nil {
		return err
	}
	refs := refsOf(e.Victims)
	if _, err := s.settle(ctx, opEvict, f, refs, func(i int, current *mvccpb.KeyValue) (*write, error) {
		return s.change(current, e.Victims[i], func(p *v1.Pod) bool { return disrupt(p, e.Message(), metav1.NewTime(s.now())) })
	}); err != nil {
		return err
	}
	gone := make([]*v1.Pod, len(refs))
	if _, err := s.settle(ctx, opEvict, f, refs, func(i int, current *mvccpb.KeyValue) (*write, error) {
		p, err := podAt(current, e.Victims[i])
		if gone[i] = p; p == nil || err != nil {
			return nil, err
		}
		return &write{key: string(current.Key), seen: current.ModRevision, also: s.keys.entry(p.UID)}, nil
	}); err != nil {
		return err
	}
	gone = slices.DeleteFunc(gone, func(p *v1.Pod) bool { return p == nil })
	if _, err := s.dropClaims(ctx, f, gone); err != nil {
		return err
	}
	s.makeAgain(ctx, f, gone, e.Preemptor)
	return nil
}

// makeAgain makes victims again that have a controller. What can not be made is logged: the preemption is carried out.
func (s *Store) makeAgain(ctx context.Context, f lease.Fence, gone []*v1.Pod, by *v1.Pod) {
	for _, victim := range gone {
		if metav1.GetControllerOfNoCopy(victim) == nil {
			continue
		}
		if _, _, err := s.Apply(ctx, f, []runtime.Object{again(victim, by)}, false); err != nil {
			klog.FromContext(ctx).Error(err, "A preempted pod is not made again: apply its workload", "pod", klog.KObj(victim))
		}
	}
}

// again is a pod as its controller would make it anew.
func again(victim, by *v1.Pod) *v1.Pod {
	p := &v1.Pod{TypeMeta: victim.TypeMeta, Spec: *victim.Spec.DeepCopy()}
	p.Namespace, p.Name, p.GenerateName = victim.Namespace, victim.Name, victim.GenerateName
	p.Labels, p.Annotations = maps.Clone(victim.Labels), maps.Clone(victim.Annotations)
	p.OwnerReferences = slices.Clone(victim.OwnerReferences)
	p.Spec.NodeName = ""
	metav1.SetMetaDataAnnotation(&p.ObjectMeta, objects.PreemptedBy, by.Namespace+"/"+by.Name)
	return p
}

func refsOf(pods []*v1.Pod) []objects.Ref {
	refs := make([]objects.Ref, len(pods))
	for i, p := range pods {
		refs[i] = objects.RefOf(p)
	}
	return refs
}

// podAt is the pod under a key; nil: it is not there, or is another than the one that is meant.
func podAt(current *mvccpb.KeyValue, meant *v1.Pod) (*v1.Pod, error) {
	if current == nil {
		return nil, nil
	}
	obj, err := decode(current)
	if err != nil {
		return nil, err
	}
	p, ok := obj.(*v1.Pod)
	if !ok {
		return nil, fmt.Errorf("%w: there is a %s under its key", objects.ErrConflict, objects.KindOf(obj))
	}
	if p.UID != meant.UID {
		return nil, nil
	}
	return p, nil
}

// change is the write of what edit makes of a pod; nil: it is gone, or edit has nothing to say.
func (s *Store) change(current *mvccpb.KeyValue, meant *v1.Pod, edit func(*v1.Pod) bool) (*write, error) {
	p, err := podAt(current, meant)
	if p == nil || err != nil || !edit(p) {
		return nil, err
	}
	raw, err := encode(p)
	return &write{key: string(current.Key), value: raw, seen: current.ModRevision}, err
}

// disrupt gives a pod the condition of one that has to leave, and tells whether that is new.
func disrupt(p *v1.Pod, message string, now metav1.Time) bool {
	c := v1.PodCondition{
		Type: v1.DisruptionTarget, Status: v1.ConditionTrue, Reason: v1.PodReasonPreemptionByScheduler,
		Message: message, LastTransitionTime: now,
	}
	for i := range p.Status.Conditions {
		old := &p.Status.Conditions[i]
		if old.Type != c.Type {
			continue
		}
		if old.Status == c.Status {
			c.LastTransitionTime = old.LastTransitionTime
		}
		same := old.Status == c.Status && old.Reason == c.Reason && old.Message == c.Message
		*old = c
		return !same
	}
	p.Status.Conditions = append(p.Status.Conditions, c)
	return true
}
