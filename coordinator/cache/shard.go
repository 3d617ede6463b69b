package cache

import (
	"math"
	"sync/atomic"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
	"github.com/shardsched/shardsched/scorer"
)

// How many deltas a shard keeps for the workers at least: its share of allKept, but no more than are
// worth it. What is spared is a snapshot of all its rows, so that is one for every usefulRows rows, or
// keptDeltas; and of a large shard one for every rowsPerDelta rows, whatever its share is. A worker that is
// further behind gets a snapshot.
const (
	allKept      = 1 << 16
	leastKept    = 1024
	keptDeltas   = 8192
	usefulRows   = 2
	rowsPerDelta = 8
	// nodeWeight is how many deltas one that sets a node counts for: it is that much larger. One that sets
	// a counter counts for one more with every columnEntries rows and pods that it names.
	nodeWeight    = 8
	columnEntries = 16
	// A slice counts for one more with every deviceEntries devices.
	deviceEntries = 4
)

// Watcher is told of the changes of tables. It must not keep or change a delta.
type Watcher interface {
	// Changing comes right before a change, and Changed after it, unless it was refused.
	Changing(t *scorer.Table, d *pb.Delta)
	Changed(t *scorer.Table, d *pb.Delta)
}

// shard is a table with the log that leads to it: log[i] leads from generation
// first+i to first+i+1. There is a log only where somebody reads it.
type shard struct {
	table *scorer.Table
	// watcher is told of every change; nil: nobody is.
	watcher Watcher
	log     []*pb.Delta
	first   uint64
	// weight is the log's, share what is this shard's of what all of them keep.
	weight, share int
	// unread is the weight of what came since somebody has read.
	unread atomic.Int64
	free   []uint32
	next   uint32
}

func newShard(i uint32, shards int) *shard {
	s := &shard{table: scorer.NewTable(i), share: max(allKept/shards, leastKept)}
	s.unread.Store(math.MaxInt32)
	return s
}

// kept is the weight that the log keeps at least.
func (s *shard) kept() int {
	rows := s.table.Nodes()
	return max(min(s.share, max(keptDeltas, rows/usefulRows)), rows/rowsPerDelta)
}

func weightOf(d *pb.Delta) int {
	switch change := d.GetChange().(type) {
	case *pb.Delta_SetNode:
		return nodeWeight
	case *pb.Delta_SetCounter:
		return 1 + (len(change.SetCounter.Rows)+len(change.SetCounter.PodRows))/columnEntries
	case *pb.Delta_SetSlice:
		return 1 + len(change.SetSlice.GetDevices())/deviceEntries
	case *pb.Delta_SetSharedSlice:
		return 1 + len(change.SetSharedSlice.GetDevices())/deviceEntries
	}
	return 1
}

// Watch has a watcher told of every change from now on; nil: nobody.
func (c *Cache) Watch(w Watcher) {
	for _, s := range c.shards {
		s.watcher = w
	}
}

func (s *shard) apply(d *pb.Delta) error {
	if s.watcher != nil {
		s.watcher.Changing(s.table, d)
	}
	if err := s.table.Apply(d); err != nil {
		return err
	}
	if s.watcher != nil {
		s.watcher.Changed(s.table, d)
	}
	weight := weightOf(d)
	if s.unread.Load() > int64(s.kept()) { // whoever reads next is further behind
		s.log, s.weight, s.first = nil, 0, s.table.Generation()
		return nil
	}
	s.unread.Add(int64(weight))
	s.log = append(s.log, d)
	if s.weight += weight; s.weight >= 2*s.kept() {
		s.trim()
	}
	return nil
}

// trim forgets the oldest deltas. The rest moves to memory of its own: a slice
// that since gave out may still be read.
func (s *shard) trim() {
	n := 0
	for kept := s.kept(); s.weight > kept; n++ {
		s.weight -= weightOf(s.log[n])
	}
	s.log = append(make([]*pb.Delta, 0, 2*(len(s.log)-n)), s.log[n:]...)
	s.first += uint64(n)
}

// since may be called on any goroutine while nothing is applied.
func (s *shard) since(after uint64) ([]*pb.Delta, bool) {
	s.unread.Store(0)
	if after < s.first || after > s.table.Generation() {
		return nil, false
	}
	return s.log[after-s.first:], true
}

func (s *shard) take() uint32 {
	if n := len(s.free); n > 0 {
		row := s.free[n-1]
		s.free = s.free[:n-1]
		return row
	}
	s.next++
	return s.next - 1
}

func (s *shard) release(row uint32) { s.free = append(s.free, row) }
