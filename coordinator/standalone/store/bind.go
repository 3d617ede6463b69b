package store

import (
	"context"
	"fmt"
	"strconv"

	"go.etcd.io/etcd/api/v3/mvccpb"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/shardsched/shardsched/coordinator/lease"
	"github.com/shardsched/shardsched/coordinator/objects"
)

// Bind writes bindings; the errors are in the order of bs, nil where etcd has committed
// the pod's node. Otherwise a binding is certainly not there, and why is one of lease.ErrDeposed,
// objects.ErrNotFound (deleted, or replaced by another pod of its name), objects.ErrAlreadyBound and
// objects.ErrConflict (changed since it was read). A pod that is on that very node already is
// bound: a binding may be asked for again. Only objects.ErrUnknown leaves it open: ctx or the
// leadership ended before etcd answered, and the pod must stay assumed until a watch or a
// new leader has seen it. With each pod goes its queue entry.
//
// Bindings share transactions; one that is refused does not keep the others from being
// committed. Bind may be called concurrently.
func (s *Store) Bind(ctx context.Context, f lease.Fence, bs []objects.Binding) []error {
	errs := make([]error, len(bs))
	ws := make([]write, 0, len(bs))
	index := make([]int, 0, len(bs))
	now := metav1.NewTime(s.now())
	seen := make(map[string]bool, len(bs))
	for i := range bs {
		w, err := s.binding(&bs[i], now)
		if err == nil && seen[w.key] {
			err = fmt.Errorf("%w: the pod is twice in one call", objects.ErrConflict)
		}
		seen[w.key] = true
		if err != nil {
			errs[i] = bindError(&bs[i], err)
			continue
		}
		ws, index = append(ws, w), append(index, i)
	}
	for j, o := range s.commitAll(ctx, opBind, f, ws) {
		b := &bs[index[j]]
		switch {
		case o.err != nil:
			errs[index[j]] = bindError(b, o.err)
		case o.conflict:
			if err := bindConflict(b, o.current); err != nil {
				errs[index[j]] = bindError(b, err)
			}
		}
	}
	return errs
}

func bindError(b *objects.Binding, err error) error {
	return fmt.Errorf("bind pod %s/%s to %s: %w", b.Pod.Namespace, b.Pod.Name, b.Node, err)
}

// binding is the write that puts a pod on its node.
func (s *Store) binding(b *objects.Binding, now metav1.Time) (write, error) {
	if b.Pod.Spec.NodeName != "" {
		return write{}, fmt.Errorf("%w to %s", objects.ErrAlreadyBound, b.Pod.Spec.NodeName)
	}
	seen, err := strconv.ParseInt(b.Pod.ResourceVersion, 10, 64)
	if err != nil || seen <= 0 {
		return write{}, fmt.Errorf("resourceVersion %q is not that of a stored pod", b.Pod.ResourceVersion)
	}
	bound := *b.Pod // shared but for what is set below
	bound.Spec.NodeName = b.Node
	bound.Status.Conditions = scheduled(b.Pod.Status.Conditions, s.decidedBy, now)
	bound.Status.NominatedNodeName = ""
	if b.ClaimStatus != nil {
		bound.Status.ExtendedResourceClaimStatus = b.ClaimStatus
	}
	raw, err := encode(&bound)
	if err != nil {
		return write{}, err
	}
	w := write{key: s.keys.object(objects.RefOf(b.Pod)), value: raw, seen: seen}
	if b.Pod.UID != "" {
		w.also = s.keys.entry(b.Pod.UID)
	}
	return w, nil
}

// scheduled returns a copy of the conditions with PodScheduled true, and who decided it.
func scheduled(before []v1.PodCondition, by string, now metav1.Time) []v1.PodCondition {
	after := make([]v1.PodCondition, 0, len(before)+1)
	for _, c := range before {
		if c.Type != v1.PodScheduled {
			after = append(after, c)
		}
	}
	return append(after, v1.PodCondition{Type: v1.PodScheduled, Status: v1.ConditionTrue, Message: by, LastTransitionTime: now})
}

// bindConflict tells what came before a binding; nil: it is there already.
func bindConflict(b *objects.Binding, current *mvccpb.KeyValue) error {
	if current == nil {
		return objects.ErrNotFound
	}
	obj, err := decode(current)
	if err != nil {
		return err
	}
	pod, ok := obj.(*v1.Pod)
	switch {
	case !ok:
		return fmt.Errorf("%w: there is a %s under its key", objects.ErrConflict, objects.KindOf(obj))
	case pod.UID != b.Pod.UID:
		return fmt.Errorf("%w: uid %s was replaced by %s", objects.ErrNotFound, b.Pod.UID, pod.UID)
	case pod.Spec.NodeName == b.Node:
		return nil
	case pod.Spec.NodeName != "":
		return fmt.Errorf("%w to %s", objects.ErrAlreadyBound, pod.Spec.NodeName)
	}
	return fmt.Errorf("%w: revision %s is now %s", objects.ErrConflict, b.Pod.ResourceVersion, pod.ResourceVersion)
}
