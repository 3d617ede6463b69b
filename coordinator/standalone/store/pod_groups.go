package store

import (
	"context"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"k8s.io/api/scheduling/v1alpha2"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/shardsched/shardsched/coordinator/lease"
	"github.com/shardsched/shardsched/coordinator/objects"
)

// TellPodGroups writes the conditions of PodGroups. Of one that is gone, or was made anew, nothing is written. With an error some may not
// be written; it is as Update's.
func (s *Store) TellPodGroups(ctx context.Context, f lease.Fence, list []objects.PodGroupCondition) error {
	refs := make([]objects.Ref, len(list))
	for i := range list {
		refs[i] = objects.RefOf(list[i].PodGroup)
	}
	_, err := s.settle(ctx, opUpdate, f, refs, func(i int, current *mvccpb.KeyValue) (*write, error) {
		if current == nil {
			return nil, nil
		}
		obj, err := decode(current)
		if err != nil {
			return nil, err
		}
		g, ok := obj.(*v1alpha2.PodGroup)
		if !ok || g.UID != list[i].PodGroup.UID {
			return nil, nil
		}
		c, changed := list[i].After(list[i].Of(g), metav1.NewTime(s.now()))
		if !changed {
			return nil, nil
		}
		meta.SetStatusCondition(&g.Status.Conditions, c)
		raw, err := encode(g)
		return &write{key: string(current.Key), value: raw, seen: current.ModRevision}, err
	})
	return err
}
