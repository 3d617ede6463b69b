package store

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"go.etcd.io/etcd/api/v3/mvccpb"
	v1 "k8s.io/api/core/v1"
	"k8s.io/api/scheduling/v1alpha2"

	"github.com/shardsched/shardsched/coordinator/lease"
	"github.com/shardsched/shardsched/coordinator/objects"
)

// Delete removes objects, with a pod its queue entry, and after it the claims that were made for it. A resource claim that pods use
// is marked, and goes with the last of them. It tells which of the objects were there
// and a revision at which all are gone or marked. References are validated before the first
// write; one that could not name an object is an *InvalidError. When it fails later, what is
// true in the answer is gone, and the rest is open.
//
// Differs from upstream: a PodGroup is gone at once. There a finalizer keeps it until no pod that has not ended names it.
func (s *Store) Delete(ctx context.Context, f lease.Fence, refs []objects.Ref) ([]bool, int64, error) {
	if err := checkRefs(refs); err != nil {
		return nil, 0, err
	}
	keys := make([]string, len(refs))
	pending := make([]int, len(refs))
	for i, r := range refs {
		keys[i], pending[i] = s.keys.object(r), i
	}
	current, revision, err := s.getAll(ctx, f, keys)
	if err != nil {
		return nil, 0, fmt.Errorf("delete: %w", err)
	}
	deleted := make([]bool, len(refs))
	var pods []*v1.Pod
	var podGroups []*v1alpha2.PodGroup
	for round := 0; len(pending) > 0; round++ {
		ws, index := s.deletions(refs, keys, current, pending)
		pending = pending[:0]
		for j, o := range s.commitAll(ctx, opDelete, f, ws) {
			i := index[j]
			switch {
			case o.conflict && round < replans:
				current[i] = o.current
				pending = append(pending, i)
			case o.conflict:
				err = worse(err, fmt.Errorf("delete %s: %w", refs[i], objects.ErrConflict))
			case o.err != nil:
				err = worse(err, fmt.Errorf("delete %s: %w", refs[i], o.err))
			default:
				deleted[i] = true
				pods, podGroups = appendPod(pods, current[i]), appendPodGroup(podGroups, current[i])
				revision = max(revision, o.revision)
			}
		}
		if err != nil {
			return deleted, revision, err
		}
	}
	claimed, err := s.dropClaims(ctx, f, pods)
	if err != nil {
		return deleted, max(revision, claimed), err
	}
	freed, err := s.freePodGroupClaims(ctx, f, podGroups)
	return deleted, max(revision, claimed, freed), err
}

// appendPod adds what is stored, if it is a pod that can be read.
func appendPod(pods []*v1.Pod, kv *mvccpb.KeyValue) []*v1.Pod {
	if obj, err := objects.Decode(kv.Value); err == nil {
		if pod, ok := obj.(*v1.Pod); ok {
			return append(pods, pod)
		}
	}
	return pods
}

func appendPodGroup(list []*v1alpha2.PodGroup, kv *mvccpb.KeyValue) []*v1alpha2.PodGroup {
	if obj, err := objects.Decode(kv.Value); err == nil {
		if g, ok := obj.(*v1alpha2.PodGroup); ok {
			return append(list, g)
		}
	}
	return list
}

func checkRefs(refs []objects.Ref) error {
	invalid := &InvalidError{}
	seen := make(map[objects.Ref]bool, len(refs))
	for i, r := range refs {
		errs := objects.ValidateRef(r)
		if seen[r] && len(errs) == 0 {
			errs = field.ErrorList{field.Duplicate(field.NewPath("name"), r.Name)}
		}
		seen[r] = true
		if len(errs) > 0 {
			invalid.Objects = append(invalid.Objects, InvalidObject{i, r, errs})
		}
	}
	if len(invalid.Objects) > 0 {
		return invalid
	}
	return nil
}

// deletions are the writes for those of the pending that are there.
func (s *Store) deletions(refs []objects.Ref, keys []string, current []*mvccpb.KeyValue, pending []int) (ws []write, index []int) {
	for _, i := range pending {
		kv := current[i]
		if kv == nil {
			continue
		}
		w := write{key: keys[i], seen: kv.ModRevision}
		if refs[i].Kind == objects.KindResourceClaim {
			if marked := s.markDeleted(kv); marked != nil {
				w = *marked
			}
		}
		// What can not be read can be deleted all the same.
		for _, pod := range appendPod(nil, kv) {
			if pod.UID != "" {
				w.also = s.keys.entry(pod.UID)
			}
		}
		ws, index = append(ws, w), append(index, i)
	}
	return ws, index
}
