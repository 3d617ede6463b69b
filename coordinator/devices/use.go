package devices

import (
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// Device names a device.
type Device struct{ Driver, Pool, Name string }

func (d Device) pool() poolKey { return poolKey{d.Driver, d.Pool} }

// Use is what an allocation takes of a device.
type Use struct {
	Device Device
	// Share is the id of a share of the device; "": the use takes the device whole.
	Share string
	// Capacity is what a share consumes; nil: nothing is said of that.
	Capacity amounts
}

type amounts = map[resourcev1.QualifiedName]resource.Quantity

// usage is what is taken of one device by the allocations that claims have, and by those in flight.
type usage struct {
	// dedicated: a claim has the device whole. Claims are not counted, as upstream counts none: of two
	// claims that have one device, the first that loses it frees it.
	dedicated bool
	// flights is how many allocations in flight take the device whole.
	flights int
	// holder is the claim that took the device whole last.
	holder types.NamespacedName
	shares map[string]*share
	// consumed is what all shares consume, and consumers how many say so of a capacity: a device may have a hundred thousand
	// shares, which are not to be added up at each change.
	consumed  amounts
	consumers map[resourcev1.QualifiedName]int
}

// share is a part of a device.
type share struct {
	capacity amounts
	holders  int
	holder   types.NamespacedName
}

func (u *usage) isWhole() bool { return u.dedicated || u.flights > 0 }

func (u *usage) isFree() bool { return !u.isWhole() && len(u.shares) == 0 }

// usesOf are the uses of an allocation. Admin access takes nothing.
func usesOf(a *resourcev1.AllocationResult) []Use {
	if a == nil {
		return nil
	}
	out := make([]Use, 0, len(a.Devices.Results))
	for i := range a.Devices.Results {
		r := &a.Devices.Results[i]
		if r.AdminAccess != nil && *r.AdminAccess {
			continue
		}
		u := Use{Device: Device{r.Driver, r.Pool, r.Device}}
		if r.ShareID != nil {
			u.Share, u.Capacity = string(*r.ShareID), r.ConsumedCapacity
		}
		out = append(out, u)
	}
	return out
}

// take notes what a claim uses. flying: its allocation is in flight.
func (c *Cache) take(uses []Use, holder types.NamespacedName, flying bool, told *Changes) {
	for _, u := range uses {
		p := c.poolOf(u.Device.pool())
		if p.usage(u.Device.Name).take(&u, holder, flying) {
			told.use(p.place, u.Device)
		}
	}
}

// take tells whether more is in use than before.
func (of *usage) take(u *Use, holder types.NamespacedName, flying bool) bool {
	if u.Share != "" {
		s := of.shares[u.Share]
		if s == nil {
			s = &share{capacity: u.Capacity, holder: holder}
			if of.shares == nil {
				of.shares = map[string]*share{}
			}
			of.shares[u.Share] = s
			of.consume(u.Capacity)
		}
		s.holders++
		return s.holders == 1
	}
	was := of.isWhole()
	of.holder = holder
	if flying {
		of.flights++
	} else {
		of.dedicated = true
	}
	return !was
}

// consume adds what a share consumes.
func (of *usage) consume(more amounts) {
	if of.consumed == nil && len(more) > 0 {
		of.consumed, of.consumers = amounts{}, map[resourcev1.QualifiedName]int{}
	}
	for name, q := range more {
		sum := q.DeepCopy()
		if of.consumers[name] > 0 {
			sum = of.consumed[name]
			sum.Add(q)
		}
		of.consumed[name] = sum
		of.consumers[name]++
	}
}

// release takes back what consume has added.
func (of *usage) release(less amounts) {
	for name, q := range less {
		if of.consumers[name]--; of.consumers[name] == 0 {
			delete(of.consumed, name)
			delete(of.consumers, name)
			continue
		}
		sum := of.consumed[name]
		sum.Sub(q)
		of.consumed[name] = sum
	}
}

// give takes back what take has noted.
func (c *Cache) give(uses []Use, flying bool, told *Changes) {
	for _, u := range uses {
		p := c.pools[u.Device.pool()]
		if p == nil || p.uses[u.Device.Name] == nil {
			continue // another claim has freed it
		}
		of := p.uses[u.Device.Name]
		if of.give(&u, flying) {
			told.use(p.place, u.Device)
		}
		if of.isFree() {
			delete(p.uses, u.Device.Name)
			c.prune(p)
		}
	}
}

// give tells whether less is in use than before.
func (of *usage) give(u *Use, flying bool) bool {
	if u.Share != "" {
		s := of.shares[u.Share]
		if s == nil {
			return false
		}
		if s.holders--; s.holders == 0 {
			delete(of.shares, u.Share)
			of.release(s.capacity)
		}
		return s.holders == 0
	}
	was := of.isWhole()
	if flying {
		of.flights--
	} else {
		of.dedicated = false
	}
	return was && !of.isWhole()
}

// message is what is in use of a device, for the tables. u is nil where nothing is.
func (d Device) message(u *usage) *pb.DeviceUse {
	m := &pb.DeviceUse{Driver: d.Driver, Pool: d.Pool, Device: d.Name}
	if u == nil {
		return m
	}
	m.Dedicated, m.Shares = u.isWhole(), uint32(len(u.shares))
	if len(u.consumed) > 0 {
		m.Consumed = &pb.DeviceAmounts{Amounts: amountList(u.consumed)}
	}
	return m
}

// Holders are the claims that use a device, in any order; of those in flight too.
func (c *Cache) Holders(d Device) []types.NamespacedName {
	p := c.pools[d.pool()]
	if p == nil || p.uses[d.Name] == nil {
		return nil
	}
	of := p.uses[d.Name]
	var out []types.NamespacedName
	if of.isWhole() {
		out = append(out, of.holder)
	}
	for _, s := range of.shares {
		out = append(out, s.holder)
	}
	return out
}
