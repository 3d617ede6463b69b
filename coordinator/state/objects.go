package state

import (
	"cmp"
	"iter"
	"maps"

	"k8s.io/api/scheduling/v1alpha2"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/shardsched/shardsched/coordinator/cache"
	"github.com/shardsched/shardsched/coordinator/objects"
)

// Keep keeps a new or changed object that is neither node nor pod, and gives it as it was; nil: it is new. Change is to follow.
func (s *State) Keep(now objects.Object) (old objects.Object) {
	ref := objects.RefOf(now)
	old = s.objects[ref]
	s.objects[ref] = now
	return old
}

// Drop drops such an object, and gives it as it was; nil: it was not kept.
func (s *State) Drop(last objects.Object) (old objects.Object) {
	ref := objects.RefOf(last)
	old = s.objects[ref]
	delete(s.objects, ref)
	return old
}

// Kept yields the objects that are kept.
func (s *State) Kept() iter.Seq[objects.Object] { return maps.Values(s.objects) }

// Change takes in a change of an object that is neither node nor pod. old is nil where the object is new, and now is nil where
// it is gone.
func (s *State) Change(old, now objects.Object) (err error) {
	defer s.RecoverInto(&err)
	s.cluster.Set(old, now)
	s.podGroup(old, now)
	if now != nil {
		s.volumes.Set(now)
	} else {
		s.volumes.Delete(old)
	}
	return cmp.Or(s.changeDevices(old, now), s.limit(old, now), s.budget(old, now))
}

// podGroup takes in a change of a PodGroup.
func (s *State) podGroup(old, now objects.Object) {
	if x, ok := now.(*v1alpha2.PodGroup); ok {
		s.groups.Set(x)
	} else if x, ok := old.(*v1alpha2.PodGroup); ok {
		s.groups.Remove(types.NamespacedName{Namespace: x.Namespace, Name: x.Name})
	}
}

// limit takes over from a CSINode how many volumes each driver attaches.
func (s *State) limit(old, now objects.Object) error {
	either := cmp.Or(now, old)
	if _, ok := either.(*storagev1.CSINode); !ok {
		return nil
	}
	name := either.GetName()
	return s.SetLimits(name, cache.Limits{Volumes: s.volumes.Limits(name), Migrated: s.volumes.MigratedPlugins(name)})
}
