package domains

import (
	"math"
	"math/bits"

	"github.com/shardsched/shardsched/scorer"
)

// key is one label key.
type key struct {
	name string
	used uint64
	// version moves when the domain of any row does.
	version uint64
	// ids are the places of values in the lists by domain. values of domains without nodes are kept, and empty counts them.
	ids    map[string]int32
	values []string
	nodes  []int32
	empty  int

	shards    []rows
	resources map[string]*resource
	changed   []uint32 // scratch
}

// rows are those of one shard, as they were at a generation of its table.
type rows struct {
	known      bool
	generation uint64
	// domains are the places of the rows' values, plus 1; 0: the row's node has no such label, or there is none.
	domains []int32
}

// domain is the place of a row's value, or -1.
func (r *rows) domain(row uint32) int32 {
	if int(row) >= len(r.domains) {
		return -1
	}
	return r.domains[row] - 1
}

// resource are the sums of one resource by domain, and what each row has added to them.
type resource struct {
	sums []totals
	rows [][]Sums
}

// totals are sums in 128 bits: a node may say that it has 2^55 of a resource.
type totals struct {
	allocatable, requested total
}

type total struct{ high, low uint64 }

func (t *total) add(n int64) {
	var carry uint64
	t.low, carry = bits.Add64(t.low, uint64(n), 0)
	t.high += carry
}

func (t *total) sub(n int64) {
	var borrow uint64
	t.low, borrow = bits.Sub64(t.low, uint64(n), 0)
	t.high -= borrow
}

// value ends at the largest number.
func (t total) value() int64 {
	if t.high > 0 || t.low > math.MaxInt64 {
		return math.MaxInt64
	}
	return int64(t.low)
}

// move has a row of a domain add something else than before.
func (x *resource) move(shard int, row uint32, domain int32, now Sums) {
	if domain < 0 {
		return
	}
	for len(x.rows[shard]) <= int(row) {
		x.rows[shard] = append(x.rows[shard], Sums{})
	}
	before, sum := x.rows[shard][row], &x.sums[domain]
	sum.allocatable.sub(before.Allocatable)
	sum.requested.sub(before.Requested)
	sum.allocatable.add(now.Allocatable)
	sum.requested.add(now.Requested)
	x.rows[shard][row] = now
}

// catchUp reads the rows that have changed.
func (k *key) catchUp(tables Tables) {
	for shard := range k.shards {
		k.catchUpShard(tables.Table(shard), &k.shards[shard], shard)
	}
	if k.empty > len(k.values)/2 {
		*k = key{name: k.name, used: k.used, version: k.version + 1, ids: map[string]int32{}, shards: make([]rows, len(k.shards)),
			resources: map[string]*resource{}}
		k.catchUp(tables)
	}
}

func (k *key) catchUpShard(t *scorer.Table, r *rows, shard int) {
	changed, ok := k.changed[:0], false
	if r.known {
		if changed, ok = t.ChangedSince(r.generation, t.Rows()/4+1, changed); ok && len(changed) == 0 {
			return
		}
	}
	if !ok {
		changed = changed[:0]
		for row := range uint32(max(t.Rows(), len(r.domains))) {
			changed = append(changed, row)
		}
	}
	for _, row := range changed {
		k.read(t, r, row, shard)
	}
	k.changed, r.known, r.generation = changed[:0], true, t.Generation()
}

// read reads one row.
func (k *key) read(t *scorer.Table, r *rows, row uint32, shard int) {
	for len(r.domains) <= int(row) {
		r.domains = append(r.domains, 0)
	}
	before, now := r.domains[row]-1, int32(-1)
	if t.HasNode(row) {
		if value, has := t.Label(row, k.name); has {
			now = k.id(value)
		}
	}
	if before != now {
		for _, x := range k.resources {
			x.move(shard, row, before, Sums{})
		}
		k.count(before, -1)
		k.count(now, +1)
		r.domains[row] = now + 1
		k.version++
	}
	if now >= 0 {
		for name, x := range k.resources {
			x.move(shard, row, now, amounts(t, row, name))
		}
	}
}

// id is the place of a value, which is made where it is new.
func (k *key) id(value string) int32 {
	d, found := k.ids[value]
	if !found {
		d = int32(len(k.values))
		k.ids[value], k.values, k.nodes = d, append(k.values, value), append(k.nodes, 0)
		k.empty++
		for _, x := range k.resources {
			x.sums = append(x.sums, totals{})
		}
	}
	return d
}

func (k *key) count(domain, more int32) {
	if domain < 0 {
		return
	}
	if k.nodes[domain] == 0 {
		k.empty--
	}
	if k.nodes[domain] += more; k.nodes[domain] == 0 {
		k.empty++
	}
}

// resource are the sums of a resource by domain, which are made where nobody has asked for them.
func (k *key) resource(tables Tables, name string) []totals {
	x := k.resources[name]
	if x == nil {
		x = &resource{sums: make([]totals, len(k.values)), rows: make([][]Sums, len(k.shards))}
		k.resources[name] = x
		for shard := range k.shards {
			for row := range k.shards[shard].domains {
				if d := k.shards[shard].domain(uint32(row)); d >= 0 {
					x.move(shard, uint32(row), d, amounts(tables.Table(shard), uint32(row), name))
				}
			}
		}
	}
	return x.sums
}

// amounts are what a row adds: a node that has nothing of a resource adds nothing, whatever its pods request.
func amounts(t *scorer.Table, row uint32, resource string) Sums {
	all, requested := t.ScoredAmount(row, resource)
	if all == 0 {
		return Sums{}
	}
	return Sums{all, requested}
}
