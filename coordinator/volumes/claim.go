package volumes

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/shardsched/shardsched/coordinator/storage"
)

// claimKey names a claim.
type claimKey struct{ namespace, name string }

func (k claimKey) String() string { return k.namespace + "/" + k.name }

func keyOf(pvc *v1.PersistentVolumeClaim) claimKey { return claimKey{pvc.Namespace, pvc.Name} }

// claim is a PersistentVolumeClaim, or a name that pods on nodes use as one.
type claim struct {
	assumable[*v1.PersistentVolumeClaim]
	key claimKey
	// users are the pods on nodes that name it, each with its volumes that do: one, and one that is ephemeral.
	users map[*podUse][]int
	// volume and class are what it is filed under while there are users.
	volume, class string
}

// volume is a PersistentVolume.
type volume struct {
	assumable[*v1.PersistentVolume]
	name string
	// The rest is of the latest object, and kept for taking it out of the indexes again.
	class   string
	size    resource.Quantity
	label   nodeLabel
	ref     claimKey // of the claimRef; empty: none
	offered bool     // it is in its class's classVolumes
}

// claimOf finds a claim, or makes room for one that is only named so far.
func (c *Cache) claimOf(key claimKey) *claim {
	x := c.claims[key]
	if x == nil {
		x = &claim{key: key}
		c.claims[key] = x
	}
	return x
}

// forgetClaim drops a claim that neither exists nor is used.
func (c *Cache) forgetClaim(x *claim) {
	if x.api == nil && len(x.users) == 0 {
		delete(c.claims, x.key)
	}
}

func (c *Cache) setClaim(now *v1.PersistentVolumeClaim) {
	x := c.claimOf(keyOf(now))
	api, latest := x.api, x.latest()
	x.set(now)
	c.view.setClaim(now)
	if readAlike(api, now) && readAlike(latest, x.latest()) {
		return // whoever owns a claim may write to it all the time
	}
	c.version++
	c.watch(x)
	c.recount(x)
	c.offerAgain(x.key)
}

// readAlike tells whether two states of a claim, the first of which may be nil, are the same to all that look at claims: to
// the filters, to what the claim attaches, and to whether a volume that names it is there to be taken.
func readAlike(a, b *v1.PersistentVolumeClaim) bool {
	if a == nil {
		return false
	}
	for _, key := range [...]string{storage.AnnBindCompleted, storage.AnnSelectedNode, v1.BetaStorageClassAnnotation} {
		was, had := a.Annotations[key]
		is, has := b.Annotations[key]
		if had != has || was != is {
			return false
		}
	}
	return a.UID == b.UID && a.Status.Phase == b.Status.Phase && (a.DeletionTimestamp == nil) == (b.DeletionTimestamp == nil) &&
		equality.Semantic.DeepEqual(a.OwnerReferences, b.OwnerReferences) && equality.Semantic.DeepEqual(a.Spec, b.Spec)
}

func (c *Cache) deleteClaim(key claimKey) {
	x := c.claims[key]
	if x == nil || x.api == nil {
		return
	}
	x.assumable = assumable[*v1.PersistentVolumeClaim]{}
	c.view.deleteClaim(key)
	c.watch(x)
	c.recount(x)
	c.forgetClaim(x)
	c.offerAgain(key)
}

func (c *Cache) setVolume(now *v1.PersistentVolume) {
	v := c.volumes[now.Name]
	if v == nil {
		v = &volume{name: now.Name}
		c.volumes[now.Name] = v
	}
	v.set(now)
	c.view.setVolume(now)
	c.file(v)
	c.recountVolume(now.Name)
}

func (c *Cache) deleteVolume(name string) {
	v := c.volumes[name]
	if v == nil {
		return
	}
	delete(c.volumes, name)
	c.unfile(v)
	v.assumed = nil // a placement may still point to it
	c.view.deleteVolume(name)
	c.recountVolume(name)
}

// file puts a volume into the indexes by its latest object.
func (c *Cache) file(v *volume) {
	c.unfile(v)
	pv := v.latest()
	v.class, v.size, v.label = storage.ClassOfVolume(pv), pv.Spec.Capacity[v1.ResourceStorage], requiredLabel(pv)
	if ref := pv.Spec.ClaimRef; ref != nil {
		v.ref = claimKey{ref.Namespace, ref.Name}
		c.reserved[v.ref] = append(c.reserved[v.ref], v)
	}
	c.offer(v)
}

// unfile takes a volume out of the indexes.
func (c *Cache) unfile(v *volume) {
	c.withdraw(v)
	if v.ref == (claimKey{}) {
		return
	}
	list := slices.DeleteFunc(c.reserved[v.ref], func(x *volume) bool { return x == v })
	if len(list) == 0 {
		delete(c.reserved, v.ref)
	} else {
		c.reserved[v.ref] = list
	}
	v.ref = claimKey{}
}

// offer puts a volume that an unbound claim may take among its class's volumes.
func (c *Cache) offer(v *volume) {
	if !c.takeable(v.latest()) {
		return
	}
	s := c.byClass[v.class]
	if s == nil {
		s = &classVolumes{byLabel: map[nodeLabel]*ordered{}, keys: map[string]int{}}
		c.byClass[v.class] = s
	}
	s.insert(v)
	v.offered = true
}

func (c *Cache) withdraw(v *volume) {
	if !v.offered {
		return
	}
	v.offered = false
	s := c.byClass[v.class]
	s.remove(v)
	if len(s.all.list) == 0 {
		delete(c.byClass, v.class)
	}
}

// offerAgain looks again at the volumes that name a claim that has changed.
func (c *Cache) offerAgain(key claimKey) {
	for _, v := range c.reserved[key] {
		c.withdraw(v)
		c.offer(v)
	}
}

// takeable tells whether any unbound claim can take a volume.
func (c *Cache) takeable(pv *v1.PersistentVolume) bool {
	if pv.DeletionTimestamp != nil {
		return false
	}
	ref := pv.Spec.ClaimRef
	if ref == nil {
		return pv.Status.Phase == v1.VolumeAvailable
	}
	x := c.claims[claimKey{ref.Namespace, ref.Name}]
	if x == nil || x.api == nil {
		return false
	}
	return storage.NamesClaim(pv, x.api) && !storage.IsBound(x.api)
}
