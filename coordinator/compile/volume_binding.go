package compile

import (
	"fmt"

	v1 "k8s.io/api/core/v1"

	"github.com/shardsched/shardsched/coordinator/storage"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// bindingQuery is what VolumeBinding asks for claims. The error is one of upstream's
// Filter.
func bindingQuery(bound, unbound []*v1.PersistentVolumeClaim, s Storage, kept *affinities) (*pb.VolumeBindingQuery, error) {
	b := &binding{query: &pb.VolumeBindingQuery{}, storage: s, kept: kept, asked: map[*v1.PersistentVolumeClaim]*served{}}
	if err := b.addBound(bound); err != nil {
		return nil, err
	}
	selected, waiting := serving(unbound)
	b.waiting = len(waiting)
	if b.waiting > 1 {
		b.places = map[*v1.PersistentVolume]uint32{}
	}
	for _, c := range selected {
		if err := b.add(c, b.selected); err != nil {
			return nil, err
		}
	}
	for _, c := range waiting {
		if err := b.add(c, b.candidates); err != nil {
			return nil, err
		}
	}
	return b.query, nil
}

// maxLooks bounds what the claims of a pod look at of free volumes and capacities, beside the first claim: as much as a pod
// needs with five claims in a cluster with 4,000 nodes of 16 local volumes. A look takes some 0.5 µs. maxUnbound bounds the
// claims: each row looks, for each claim, at the volumes of those before it.
const maxLooks, maxUnbound = 1 << 18, 128

// errLooks is the error of a pod beyond that.
//
// Differs from upstream: it has no such bound.
var errLooks = fmt.Errorf("the pod's unbound claims, each as often as the pod mounts it, "+
	"have more than %d free volumes and capacities of their storage classes to look at, together", maxLooks)

// errUnbound is the error of a pod with more claims than that.
//
// Differs from upstream: it has no such bound.
var errUnbound = fmt.Errorf("the pod mounts unbound claims more than %d times", maxUnbound)

// served is what an unbound claim asks for, and how many looks it took.
type served struct {
	claim *pb.UnboundClaim
	looks int
}

// add adds a claim, by what fills it in. One that the pod mounts again needs a volume more, as upstream has it, of the same ones.
func (b *binding) add(c *v1.PersistentVolumeClaim, fill func(*v1.PersistentVolumeClaim, *pb.UnboundClaim) error) error {
	a := b.asked[c]
	if a == nil {
		before := b.looks
		a = &served{claim: &pb.UnboundClaim{}}
		if err := fill(c, a.claim); err != nil {
			return err
		}
		if err := b.provision(c, a.claim); err != nil {
			return err
		}
		a.looks = b.looks - before
		b.asked[c] = a
	} else if a.claim.SelectedNode != "" {
		return nil // provisioned once
	} else if b.looks += a.looks; b.looks-b.free > maxLooks {
		return errLooks
	}
	if len(b.query.Claims) == 0 {
		b.free = b.looks
	}
	if b.query.Claims = append(b.query.Claims, a.claim); len(b.query.Claims) > maxUnbound {
		return errUnbound
	}
	return nil
}

// look counts a look, and fails where it is one too many.
func (b *binding) look() error {
	b.looks++
	if len(b.query.Claims) > 0 && b.looks-b.free > maxLooks {
		return errLooks
	}
	return nil
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
	// asked are the unbound claims that were seen, looks is what they looked at, and free the first one's part of that.
	asked       map[*v1.PersistentVolumeClaim]*served
	looks, free int
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

// selected is a claim that is being provisioned for one node.
func (b *binding) selected(c *v1.PersistentVolumeClaim, q *pb.UnboundClaim) error {
	q.SelectedNode = c.Annotations[storage.AnnSelectedNode]
	if q.SelectedNode == "" || !usable(q.SelectedNode) {
		q.SelectedNode = noNode
	}
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
		if err := b.look(); err != nil {
			return err
		}
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
func (b *binding) provision(c *v1.PersistentVolumeClaim, q *pb.UnboundClaim) error {
	class := b.storage.StorageClass(storage.ClassOf(c))
	if !storage.Provisions(class) {
		return nil
	}
	q.Provision = true
	q.Topologies = topologySelector(class.AllowedTopologies)
	size, sized := c.Spec.Resources.Requests[v1.ResourceStorage]
	if !sized || !storage.TellsCapacity(b.storage.CSIDriver(class.Provisioner)) {
		return nil
	}
	q.CheckCapacity = true
	for x := range b.storage.CapacitiesOf(class.Name) {
		if err := b.look(); err != nil {
			return err
		}
		if !storage.HasRoom(x, &size) {
			continue
		}
		switch segment, is := b.kept.segment(x); is {
		case always:
			q.CheckCapacity, q.Capacities = false, nil
			return nil
		case sometimes:
			q.Capacities = append(q.Capacities, segment)
		}
	}
	return nil
}
