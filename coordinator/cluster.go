package coordinator

import (
	"cmp"

	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/shardsched/shardsched/coordinator/cache"
	"github.com/shardsched/shardsched/coordinator/objects"
	"github.com/shardsched/shardsched/coordinator/queue"
)

// clusterSet takes in a new or changed object that is neither node nor pod.
func (s *Scheduler) clusterSet(now objects.Object) {
	ref := objects.RefOf(now)
	old := s.cluster[ref]
	s.cluster[ref] = now
	s.clusterObject(old, now)
}

// clusterGone takes in that such an object is deleted.
func (s *Scheduler) clusterGone(last objects.Object) {
	ref := objects.RefOf(last)
	old, known := s.cluster[ref]
	if !known {
		s.endQuarantine(last)
		return
	}
	delete(s.cluster, ref)
	s.clusterObject(old, nil)
}

// clusterObject takes in one change of an object that is neither node nor pod. old is nil where
// the object is new, and now is nil where it is gone. Pods that wait may fit after the change.
func (s *Scheduler) clusterObject(old, now objects.Object) {
	if err := s.changeCluster(old, now); err != nil {
		s.leaveObjectOut(cmp.Or(now, old), err)
		if now == nil {
			s.endQuarantine(old)
		}
		return
	}
	s.endQuarantine(cmp.Or(now, old))
	s.moveAll(clusterEvents(old, now))
}

// changeCluster brings an object into the state of the cluster as it is now.
func (s *Scheduler) changeCluster(old, now objects.Object) (err error) {
	defer s.recoverInto(&err)
	s.cache.cluster.Set(old, now)
	if _, ok := cmp.Or(now, old).(*policyv1.PodDisruptionBudget); !ok {
		s.nominees.Forget()
	}
	if now != nil {
		s.cache.volumes.Set(now)
	} else {
		s.cache.volumes.Delete(old)
	}
	return cmp.Or(s.cache.limit(old, now), s.cache.budget(old, now))
}

// limit takes over from a CSINode how many volumes each driver attaches.
func (s *state) limit(old, now objects.Object) error {
	either := now
	if either == nil {
		either = old
	}
	if _, ok := either.(*storagev1.CSINode); !ok {
		return nil
	}
	name := either.GetName()
	return s.SetLimits(name, cache.Limits{Volumes: s.volumes.Limits(name), Migrated: s.volumes.MigratedPlugins(name)})
}

// clusterEvents are the queue's events of a change of an object. As upstream, there are none
// for namespaces, Services and workloads.
func clusterEvents(old, now objects.Object) []queue.Event {
	if now == nil {
		if a, ok := old.(*storagev1.VolumeAttachment); ok {
			return []queue.Event{queue.VolumeAttachmentDeleted(a)}
		}
		return nil
	}
	switch now := now.(type) {
	case *v1.PersistentVolumeClaim:
		return changed(old, now, queue.ClaimAdded, queue.ClaimUpdated)
	case *v1.PersistentVolume:
		return changed(old, now, queue.VolumeAdded, queue.VolumeUpdated)
	case *storagev1.StorageClass:
		return changed(old, now, queue.StorageClassAdded, queue.StorageClassUpdated)
	case *storagev1.CSINode:
		return changed(old, now, queue.CSINodeAdded, queue.CSINodeUpdated)
	case *storagev1.CSIDriver:
		return changed(old, now, nil, queue.CSIDriverUpdated)
	case *storagev1.CSIStorageCapacity:
		return changed(old, now, queue.CSIStorageCapacityAdded, queue.CSIStorageCapacityUpdated)
	}
	return nil
}

// changed makes the event of an object that is new or has changed. Where added is nil, no pod
// waits for a new object of the kind.
func changed[T objects.Object](old objects.Object, now T, added func(T) queue.Event, updated func(old, now T) queue.Event) []queue.Event {
	if was, ok := old.(T); ok {
		return []queue.Event{updated(was, now)}
	}
	if added == nil {
		return nil
	}
	return []queue.Event{added(now)}
}
