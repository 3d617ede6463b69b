package domains

import (
	"fmt"
	"slices"
	"strings"

	"github.com/shardsched/shardsched/coordinator/placement"
	"github.com/shardsched/shardsched/scorer"
)

const (
	// MaxDomains is how many values a key may have: as many as copies are told of.
	MaxDomains = 1 << 16
	// maxKeys is how many keys are kept: clusters have a handful of levels. A key costs some 50 bytes a node.
	maxKeys = 16
	// maxTrees is how many sets of keys are kept.
	maxTrees = 64
)

// Tables are the own tables.
type Tables interface {
	NumShards() int
	Table(shard int) *scorer.Table
}

// Index is what is known of keys. One goroutine uses it.
type Index struct {
	tables Tables
	keys   map[string]*key
	trees  map[string]*tree
	clock  uint64 // counts the uses of keys and trees
}

// tree is a tree of several keys, made when they had these versions.
type tree struct {
	*placement.Tree
	versions []uint64
	used     uint64
}

// New knows nothing yet.
func New(tables Tables) *Index {
	return &Index{tables: tables, keys: map[string]*key{}, trees: map[string]*tree{}}
}

// Tree is the tree of keys, numbered as they are listed, as of now. It must not be changed.
func (x *Index) Tree(keys []string) (*placement.Tree, error) {
	versions, of := make([]uint64, len(keys)), make([]*key, len(keys))
	for i, name := range keys {
		k := x.key(name)
		if n := len(k.values) - k.empty; n > MaxDomains {
			return nil, fmt.Errorf("topology key %q has %d domains, at most %d can be told apart", name, n, MaxDomains)
		}
		versions[i], of[i] = k.version, k
	}
	id := strings.Join(keys, "\x00")
	t := x.trees[id]
	if t == nil || !slices.Equal(t.versions, versions) {
		if t == nil && len(x.trees) >= maxTrees {
			oldest(x.trees, func(t *tree) uint64 { return t.used })
		}
		t = &tree{Tree: placement.NewTree(len(keys), x.cells(of)), versions: versions}
		x.trees[id] = t
	}
	x.clock++
	t.used = x.clock
	return t.Tree, nil
}

// cells are the different lists of values that nodes have for keys.
func (x *Index) cells(keys []*key) (cells [][]string) {
	seen := map[string]bool{}
	id := make([]byte, 4*len(keys))
	for shard := range x.tables.NumShards() {
		for row := range x.tables.Table(shard).All() {
			for i, k := range keys {
				d := k.shards[shard].domain(row)
				id[4*i], id[4*i+1], id[4*i+2], id[4*i+3] = byte(d), byte(d>>8), byte(d>>16), byte(d>>24)
			}
			if seen[string(id)] {
				continue
			}
			seen[string(id)] = true
			cell := make([]string, len(keys))
			for i, k := range keys {
				if cell[i] = placement.Absent; k.shards[shard].domain(row) >= 0 {
					cell[i] = k.values[k.shards[shard].domain(row)]
				}
			}
			cells = append(cells, cell)
		}
	}
	return cells
}

// Sums are what the nodes of a domain have of a resource, as NodeResourcesFit scores it: of those that have any.
type Sums struct {
	Allocatable, Requested int64
}

// Sums are those of a key's domains, by value, valid until the next use of the index.
func (x *Index) Sums(name, resource string) func(value string) Sums {
	k := x.key(name)
	sums := k.resource(x.tables, resource)
	return func(value string) Sums {
		if d, found := k.ids[value]; found {
			return Sums{Allocatable: sums[d].allocatable.value(), Requested: sums[d].requested.value()}
		}
		return Sums{}
	}
}

// key is what is known of a key, as of now.
func (x *Index) key(name string) *key {
	k := x.keys[name]
	if k == nil {
		if len(x.keys) >= maxKeys {
			oldest(x.keys, func(k *key) uint64 { return k.used })
		}
		k = &key{name: name, ids: map[string]int32{}, shards: make([]rows, x.tables.NumShards()), resources: map[string]*resource{}}
		x.keys[name] = k
	}
	x.clock++
	k.used = x.clock
	k.catchUp(x.tables)
	return k
}

// oldest drops what was used the longest ago.
func oldest[V any](of map[string]V, used func(V) uint64) {
	var first string
	for name, v := range of {
		if first == "" || used(v) < used(of[first]) {
			first = name
		}
	}
	delete(of, first)
}
