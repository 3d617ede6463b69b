package worker

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
	"github.com/shardsched/shardsched/scorer"
	"github.com/shardsched/shardsched/scorer/scan"
)

// heldShard is one shard. Whoever holds mu reads and writes its table and memory; bytes
// belongs to the shardCache, and term never changes.
type heldShard struct {
	term uint64

	mu     sync.Mutex
	table  *scorer.Table
	memory int64 // of the table
	// generation is the table's, for those who do not hold mu.
	generation atomic.Uint64

	bytes int64
}

func newHeldShard(term uint64, table *scorer.Table) *heldShard {
	bytes := table.MemoryBytes()
	s := &heldShard{term: term, table: table, memory: bytes, bytes: bytes}
	s.generation.Store(table.Generation())
	return s
}

// shardCache holds shards by last use, within a budget of bytes. It is safe for
// concurrent use; its own lock is never held while a shard's is waited for.
type shardCache struct {
	budget  int64
	metrics *metrics

	mu    sync.Mutex
	held  *simplelru.LRU[uint32, *heldShard]
	bytes int64
}

func newShardCache(budget int64, m *metrics) *shardCache {
	// The LRU counts entries; what bounds it is trim.
	const unbounded = int(^uint(0) >> 1)
	lru, err := simplelru.NewLRU[uint32, *heldShard](unbounded, nil)
	if err != nil {
		panic(err) // only a size below one is refused
	}
	return &shardCache{budget: budget, metrics: m, held: lru}
}

// get returns the shard that the leader of that term sent, or nil.
func (c *shardCache) get(key uint32, term uint64) *heldShard {
	c.mu.Lock()
	defer c.mu.Unlock()
	s, ok := c.held.Get(key)
	if !ok || s.term != term {
		return nil
	}
	return s
}

// put makes s, of which nobody else knows yet, the shard of that key, unless a newer
// one is there already: of a newer leader, or of the same at a later generation,
// where a snapshot was long on its way.
func (c *shardCache) put(key uint32, s *heldShard) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if old, ok := c.held.Peek(key); ok {
		if old.term > s.term || old.term == s.term && old.generation.Load() > s.generation.Load() {
			return
		}
		c.bytes -= old.bytes
	}
	c.held.Add(key, s)
	c.bytes += s.bytes
	c.trim()
}

// resize notes that the shard's table now takes that much memory.
func (c *shardCache) resize(key uint32, s *heldShard, bytes int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now, ok := c.held.Peek(key); !ok || now != s {
		return // evicted or exchanged meanwhile
	}
	c.bytes += bytes - s.bytes
	s.bytes = bytes
	c.trim()
}

// drop forgets the shard if it is still the one of that key.
func (c *shardCache) drop(key uint32, s *heldShard) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now, ok := c.held.Peek(key); ok && now == s {
		c.remove(key, s)
	}
	c.publish()
}

// dropOlder forgets what leaders before that term sent.
func (c *shardCache) dropOlder(term uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, key := range c.held.Keys() {
		if s, ok := c.held.Peek(key); ok && s.term < term {
			c.remove(key, s)
		}
	}
	c.publish()
}

// trim evicts what was used longest ago until the budget holds. The last used stays: a request that
// makes it larger than the budget drops it itself. The caller holds c.mu.
func (c *shardCache) trim() {
	for c.bytes > c.budget && c.held.Len() > 1 {
		key, s, _ := c.held.GetOldest()
		c.remove(key, s)
		c.metrics.evictions.WithLabelValues("shards").Inc()
	}
	c.publish()
}

// remove forgets one shard. The caller holds c.mu.
func (c *shardCache) remove(key uint32, s *heldShard) {
	c.held.Remove(key)
	c.bytes -= s.bytes
}

// publish sets the gauges. The caller holds c.mu.
func (c *shardCache) publish() {
	c.metrics.cacheBytes.Set(float64(c.bytes))
	c.metrics.shards.Set(float64(c.held.Len()))
}

// advance brings the table to the generation that d names, skipping the deltas
// that it has. ok is false if they do not follow what it has. On an error the
// table is at some generation in between. The caller holds s.mu.
func (s *heldShard) advance(d *pb.ShardDeltas) (applied int, ok bool, err error) {
	have := s.table.Generation()
	if have < d.GetBaseGeneration() || have > d.GetGeneration() {
		return 0, false, nil
	}
	todo := d.GetDeltas()[have-d.GetBaseGeneration():]
	defer func() { s.generation.Store(s.table.Generation()) }()
	for i, delta := range todo {
		if err := s.table.Apply(delta); err != nil {
			return i, false, fmt.Errorf("delta to generation %d: %w", have+uint64(i)+1, err)
		}
	}
	return len(todo), true, nil
}

// lockedShards are the shards of one request, locked in ascending order.
type lockedShards struct {
	held  []*heldShard
	bytes int64 // of the held ones
	// missing are the shards that need a snapshot, ascending.
	missing []uint32
}

// unlock lets the other requests have the shards.
func (l *lockedShards) unlock() {
	for _, s := range l.held {
		s.mu.Unlock()
	}
}

// tables lists the tables of the shards.
func (l *lockedShards) tables() []*scorer.Table {
	out := make([]*scorer.Table, len(l.held))
	for i, s := range l.held {
		out[i] = s.table
	}
	return out
}

// lock locks the shards of a request and brings them to its generations. Each
// shard that can be brought there is, also when others are missing. The caller
// unlocks, unless there is an error.
func (c *shardCache) lock(term uint64, deltas []*pb.ShardDeltas) (*lockedShards, error) {
	order := slices.Clone(deltas)
	slices.SortFunc(order, func(a, b *pb.ShardDeltas) int { return int(int64(a.GetShard()) - int64(b.GetShard())) })
	l := &lockedShards{held: make([]*heldShard, 0, len(order))}
	for _, d := range order {
		if err := c.lockOne(l, term, d); err != nil {
			l.unlock()
			return nil, err
		}
	}
	return l, nil
}

// lockOne adds one shard to l, among the held or among the missing. Where it panics, l is unlocked, and the shard
// forgotten: of its last delta the table may have a part.
func (c *shardCache) lockOne(l *lockedShards, term uint64, d *pb.ShardDeltas) error {
	key := d.GetShard()
	s := c.get(key, term)
	if s == nil {
		l.missing = append(l.missing, key)
		return nil
	}
	if err := checkRows(d, c.budget); err != nil {
		return err
	}
	s.mu.Lock()
	l.held = append(l.held, s)
	defer func() {
		if v := recover(); v != nil {
			c.drop(key, s)
			s.table = scorer.NewTable(key) // for those who wait for s.mu: they need a snapshot
			l.unlock()
			panic(scan.Recovered(v)) // for the server to tell of
		}
	}()
	applied, ok, err := s.advance(d)
	if err != nil {
		// The table is no copy of the coordinator's any more; a snapshot is.
		c.drop(key, s)
		return invalid(err, "shard %d", key)
	}
	if !ok {
		l.missing = append(l.missing, key)
		return nil
	}
	if applied > 0 {
		s.memory = s.table.MemoryBytes()
		c.metrics.deltas.Add(float64(applied))
	}
	if l.bytes += s.memory; l.bytes > c.budget {
		// One request holds no more than the budget, whatever its deltas make of the shards.
		c.drop(key, s)
		l.missing = append(l.missing, key)
	} else if applied > 0 {
		c.resize(key, s, s.memory)
	}
	return nil
}
