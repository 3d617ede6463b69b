package cache

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// deviceSet is the devices of one node, or those that all share: what the tables are told of them.
type deviceSet struct {
	slices map[deviceName]*pb.DeviceSlice
	uses   map[deviceName]*pb.DeviceUse
}

// deviceName names a slice, or a device, of a pool.
type deviceName struct{ driver, pool, name string }

func (n deviceName) compare(o deviceName) int {
	return cmp.Or(strings.Compare(n.driver, o.driver), strings.Compare(n.pool, o.pool), strings.Compare(n.name, o.name))
}

func nameOfSlice(s *pb.DeviceSlice) deviceName {
	return deviceName{s.GetDriver(), s.GetPool(), s.GetName()}
}
func nameOfUse(u *pb.DeviceUse) deviceName {
	return deviceName{u.GetDriver(), u.GetPool(), u.GetDevice()}
}

// SetSlice adds or replaces a slice of a pool that is wholly one node's. It is kept for a node that is not known, or no
// longer, until the node comes.
func (c *Cache) SetSlice(node string, s *pb.DeviceSlice) error {
	if err := c.tellNode(node, &pb.Delta{Change: &pb.Delta_SetSlice{SetSlice: s}}); err != nil {
		return fmt.Errorf("slice %s of node %s: %w", s.GetName(), node, err)
	}
	set := c.devicesOf(node)
	if set.slices == nil {
		set.slices = map[deviceName]*pb.DeviceSlice{}
	}
	set.slices[nameOfSlice(s)] = s
	return nil
}

// RemoveSlice takes a slice from a node, if it is there.
func (c *Cache) RemoveSlice(node, driver, pool, name string) error {
	key := deviceName{driver, pool, name}
	set := c.devices[node]
	if set == nil || set.slices[key] == nil {
		return nil
	}
	gone := &pb.DeviceSlice{Driver: driver, Pool: pool, Name: name}
	if err := c.tellNode(node, &pb.Delta{Change: &pb.Delta_RemoveSlice{RemoveSlice: gone}}); err != nil {
		return fmt.Errorf("slice %s of node %s: %w", name, node, err)
	}
	delete(set.slices, key)
	c.dropDevices(node)
	return nil
}

// UseDevices says what is in use of devices of a node now, whatever was before. It is kept as slices are.
func (c *Cache) UseDevices(node string, uses ...*pb.DeviceUse) error {
	if len(uses) == 0 {
		return nil
	}
	if err := c.tellNode(node, useDelta(uses)); err != nil {
		return fmt.Errorf("devices of node %s: %w", node, err)
	}
	set := c.devicesOf(node)
	for _, u := range uses {
		set.use(u)
	}
	c.dropDevices(node)
	return nil
}

func useDelta(uses []*pb.DeviceUse) *pb.Delta {
	return &pb.Delta{Change: &pb.Delta_UseDevices{UseDevices: &pb.DeviceUses{Uses: uses}}}
}

func (s *deviceSet) use(u *pb.DeviceUse) {
	if !u.GetDedicated() && u.GetShares() == 0 && u.GetConsumed() == nil {
		delete(s.uses, nameOfUse(u))
		return
	}
	if s.uses == nil {
		s.uses = map[deviceName]*pb.DeviceUse{}
	}
	s.uses[nameOfUse(u)] = u
}

// SetSharedSlice adds or replaces a slice of a pool that is no single node's, in all tables.
func (c *Cache) SetSharedSlice(s *pb.DeviceSlice) error {
	if c.sharedSlices == nil {
		c.sharedSlices = map[deviceName]struct{}{}
	}
	c.sharedSlices[nameOfSlice(s)] = struct{}{}
	if err := c.tellAll(&pb.Delta{Change: &pb.Delta_SetSharedSlice{SetSharedSlice: s}}); err != nil {
		return fmt.Errorf("shared slice %s: %w", s.GetName(), err)
	}
	return nil
}

// RemoveSharedSlice takes a shared slice from all tables, if it is there.
func (c *Cache) RemoveSharedSlice(driver, pool, name string) error {
	key := deviceName{driver, pool, name}
	if _, there := c.sharedSlices[key]; !there {
		return nil
	}
	delete(c.sharedSlices, key)
	gone := &pb.DeviceSlice{Driver: driver, Pool: pool, Name: name}
	if err := c.tellAll(&pb.Delta{Change: &pb.Delta_RemoveSharedSlice{RemoveSharedSlice: gone}}); err != nil {
		return fmt.Errorf("shared slice %s: %w", name, err)
	}
	return nil
}

// UseSharedDevices says what is in use of shared devices now, whatever was before.
func (c *Cache) UseSharedDevices(uses ...*pb.DeviceUse) error {
	if len(uses) == 0 {
		return nil
	}
	if err := c.tellAll(&pb.Delta{Change: &pb.Delta_UseSharedDevices{UseSharedDevices: &pb.DeviceUses{Uses: uses}}}); err != nil {
		return fmt.Errorf("shared devices: %w", err)
	}
	return nil
}

// tellAll makes a change of all tables. What one refuses all refuse, unless the pool is that of a row.
func (c *Cache) tellAll(d *pb.Delta) error {
	for _, s := range c.shards {
		if err := s.apply(d); err != nil {
			return err
		}
	}
	return nil
}

// tellNode makes a change of a node's row, if there is one.
func (c *Cache) tellNode(name string, d *pb.Delta) error {
	n := c.nodes[name]
	if n == nil || n.object == nil {
		return d.Validate()
	}
	d.Row = n.row.Index
	return c.shards[n.row.Shard].apply(d)
}

func (c *Cache) devicesOf(node string) *deviceSet {
	set := c.devices[node]
	if set == nil {
		if c.devices == nil {
			c.devices = map[string]*deviceSet{}
		}
		set = &deviceSet{}
		c.devices[node] = set
	}
	return set
}

func (c *Cache) dropDevices(node string) {
	if set := c.devices[node]; set != nil && len(set.slices)+len(set.uses) == 0 {
		delete(c.devices, node)
	}
}

// restoreDevices gives a node that has come its devices.
func (c *Cache) restoreDevices(n *node) error {
	set := c.devices[n.name]
	if set == nil {
		return nil
	}
	for _, key := range slices.SortedFunc(maps.Keys(set.slices), deviceName.compare) {
		if err := c.tellNode(n.name, &pb.Delta{Change: &pb.Delta_SetSlice{SetSlice: set.slices[key]}}); err != nil {
			return fmt.Errorf("slice %s of node %s: %w", key.name, n.name, err)
		}
	}
	if len(set.uses) == 0 {
		return nil
	}
	var uses []*pb.DeviceUse
	for _, key := range slices.SortedFunc(maps.Keys(set.uses), deviceName.compare) {
		uses = append(uses, set.uses[key])
	}
	if err := c.tellNode(n.name, useDelta(uses)); err != nil {
		return fmt.Errorf("devices of node %s: %w", n.name, err)
	}
	return nil
}
