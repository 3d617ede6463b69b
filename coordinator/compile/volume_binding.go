package compile

import (
	v1 "k8s.io/api/core/v1"

	"github.com/shardsched/shardsched/coordinator/storage"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// bindingQuery is what VolumeBinding asks for claims. The error is one of upstream's
// Filter.
func bindingQuery(bound, unbound []*v1.PersistentVolumeClaim, s Storage, kept *affinities) (*pb.VolumeBindingQuery, error) {
	b := &binding{query: &pb.VolumeBindingQuery{}, storage: s, kept: kept}
	if err := b.addBound(bound); err != nil {
		return nil, err
	}
	selected, waiting := serving(unbound)
	b.waiting = len(waiting)
	if b.waiting > 1 {
		b.places = map[*v1.PersistentVolume]uint32{}
	}
	for _, c := range selected {
		b.addSelected(c)
	}
	for _, c := range waiting {
		if err := b.addWaiting(c); err != nil {
			return nil, err
		}
	}
	return b.query, nil
}

// binding makes a VolumeBindingQuery.
type binding struct {
	query   *pb.VolumeBindingQuery
	storage Storage
	kept    *affinities
	// waiting is how many claims look for a volume.
	waiting int
	// places are the indexes of volumes in query.Volumes, where several claims look for
	// one.
	places map[*v1.PersistentVolume]uint32
}

// addBound takes the affinities of the claims' volumes, up to the first volume that is
// missing: upstream looks no further.
//
// Differs from upstream: a volume that has no CSI form is an error even where no node
// needs it.
func (b *binding) addBound(claims []*v1.PersistentVolumeClaim) error {
	for _, c := range claims {
		pv := b.storage.Volume(c.Spec.VolumeName)
		if pv == nil {
			b.query.MissingVolume = true
			return nil
		}
		plugin, translated, err := migrated(pv)
		if err != nil {
			return err
		}
		own := volumeSelector(pv.Spec.NodeAffinity)
		if plugin != "" {
			b.query.Migratable = append(b.query.Migratable, &pb.MigratableVolume{
				Plugin: plugin, InTree: own, Csi: volumeSelector(translated.Spec.NodeAffinity),
			})
		} else if own != nil {
			b.query.Bound = append(b.query.Bound, own)
		}
	}
	return nil
}

// serving parts unbound claims in those that a node was selected for, in the pod's order,
// and the others, the smallest first.
func serving(claims []*v1.PersistentVolumeClaim) (selected, waiting []*v1.PersistentVolumeClaim) {
	for _, c := range claims {
		if _, ok := c.Annotations[storage.AnnSelectedNode]; ok {
			selected = append(selected, c)
		} else {
			waiting = append(waiting, c)
		}
	}
	storage.SortBySize(waiting, func(c *v1.PersistentVolumeClaim) *v1.PersistentVolumeClaim { return c })
	return selected, waiting
}

// addSelected adds a claim that is being provisioned for one node.
func (b *binding) addSelected(c *v1.PersistentVolumeClaim) {
	q := &pb.UnboundClaim{SelectedNode: c.Annotations[storage.AnnSelectedNode]}
	if q.SelectedNode == "" || !usable(q.SelectedNode) {
		q.SelectedNode = noNode
	}
	b.provision(c, q)
	b.query.Claims = append(b.query.Claims, q)
}

// addWaiting adds a claim that takes a volume, or is provisioned.
func (b *binding) addWaiting(c *v1.PersistentVolumeClaim) error {
	q := &pb.UnboundClaim{}
	if err := b.candidates(c, q); err != nil {
		return err
	}
	b.provision(c, q)
	b.query.Claims = append(b.query.Claims, q)
	return nil
}

// candidates lists the volumes that a claim may take: first those that name it, then the
// others, each by size.
//
// Of the volumes with one affinity only as many are listed as there are claims that look
// for one: a claim never gets to the next.
func (b *binding) candidates(c *v1.PersistentVolumeClaim, q *pb.UnboundClaim) error {
	m, err := storage.NewMatcher(c)
	if err != nil {
		return err
	}
	var others []uint32
	b.kept.round++
	for pv := range b.storage.VolumesOf(storage.ClassOf(c)) {
		if pv.DeletionTimestamp != nil || !m.Fits(pv) {
			continue
		}
		switch {
		case storage.NamesClaim(pv, c):
			q.Volumes = append(q.Volumes, b.place(pv))
		case isFree(pv) && m.Selects(pv) && b.kept.list(b.kept.of(pv)) < b.waiting:
			others = append(others, b.place(pv))
		}
	}
	q.Prebound = uint32(len(q.Volumes))
	q.Volumes = append(q.Volumes, others...)
	return nil
}

// place is the index of a volume in the query.
func (b *binding) place(pv *v1.PersistentVolume) uint32 {
	i, ok := b.places[pv]
	if ok {
		return i
	}
	i = uint32(len(b.query.Volumes))
	b.query.Volumes = append(b.query.Volumes, b.kept.of(pv).candidate)
	if b.places != nil {
		b.places[pv] = i
	}
	return i
}

// isFree tells whether a volume is there for any claim to take.
func isFree(pv *v1.PersistentVolume) bool {
	return pv.Spec.ClaimRef == nil && pv.Status.Phase == v1.VolumeAvailable
}

// provision tells where a volume can be made for a claim.
func (b *binding) provision(c *v1.PersistentVolumeClaim, q *pb.UnboundClaim) {
	class := b.storage.StorageClass(storage.ClassOf(c))
	if !storage.Provisions(class) {
		return
	}
	q.Provision = true
	q.Topologies = topologySelector(class.AllowedTopologies)
	size, sized := c.Spec.Resources.Requests[v1.ResourceStorage]
	if !sized || !storage.TellsCapacity(b.storage.CSIDriver(class.Provisioner)) {
		return
	}
	q.CheckCapacity = true
	for x := range b.storage.CapacitiesOf(class.Name) {
		if !storage.HasRoom(x, &size) {
			continue
		}
		switch segment, is := segmentSelector(x.NodeTopology); is {
		case always:
			q.CheckCapacity, q.Capacities = false, nil
			return
		case sometimes:
			q.Capacities = append(q.Capacities, segment)
		}
	}
}
