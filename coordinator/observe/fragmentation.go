package observe

import (
	"cmp"
	"iter"
	"slices"

	"github.com/shardsched/shardsched/coordinator/cache"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// maxFragmented is how many resources are told of: nodes may have any of their own.
const maxFragmented = 256

// Fragmentation adds up how what is left of each resource is spread over the nodes, in steps.
type Fragmentation struct {
	tables Tables
	walk   walk[cache.Row]
	out    *pb.GetFragmentationResponse
	by     map[string]*pb.ResourceFragmentation
	// left are the names of those that are left out, and row is what the node at hand has.
	left map[string]struct{}
	row  []*pb.NodeAmount
}

// NewFragmentation makes one that has taken no step.
func NewFragmentation(t Tables) *Fragmentation {
	return &Fragmentation{tables: t, out: &pb.GetFragmentationResponse{}, by: map[string]*pb.ResourceFragmentation{},
		left: map[string]struct{}{}}
}

// Read is how it is read.
func (x *Fragmentation) Read() Read { return Read{Step: x.step, End: x.walk.end} }

func (x *Fragmentation) step() (last bool) { return x.walk.some(rowsOf(x.tables), mappedAtOnce, x.add) }

// rowsOf are the rows of all tables that hold a node.
func rowsOf(t Tables) iter.Seq[cache.Row] {
	return func(yield func(cache.Row) bool) {
		for i := range t.NumShards() {
			for row := range t.Table(i).All() {
				if !yield(cache.Row{Shard: uint32(i), Index: row}) {
					return
				}
			}
		}
	}
}

// add takes a node in.
func (x *Fragmentation) add(row cache.Row) {
	t := x.tables.Table(int(row.Shard))
	if !t.HasNode(row.Index) {
		return // it went since the step before
	}
	n := 0
	t.Amounts(row.Index, func(resource string, allocatable, requested int64) {
		if allocatable <= 0 {
			return
		}
		if n == len(x.row) {
			x.row = append(x.row, &pb.NodeAmount{})
		}
		x.row[n].Resource, x.row[n].Allocatable, x.row[n].Requested = resource, allocatable, requested
		n++
	})
	x.out.Nodes++
	cordoned := t.Unschedulable(row.Index)
	if cordoned {
		x.out.CordonedNodes++
	}
	gone := usedUpOf(x.row[:n])
	for _, a := range x.row[:n] {
		x.addAmount(a, cordoned, gone, t.Name(row.Index))
	}
}

// addAmount takes in one resource of a node, of which gone is used up; "": nothing is.
func (x *Fragmentation) addAmount(a *pb.NodeAmount, cordoned bool, gone, node string) {
	r := x.by[a.Resource]
	if r == nil {
		if len(x.by) == maxFragmented {
			x.left[a.Resource] = struct{}{}
			return
		}
		r = &pb.ResourceFragmentation{Resource: a.Resource, NodesByDecile: make([]uint32, 10)}
		x.by[a.Resource] = r
	}
	r.Allocatable += a.Allocatable
	r.Requested += a.Requested
	r.NodesByDecile[decileOf(a.Allocatable, a.Requested)]++
	remains := max(a.Allocatable-a.Requested, 0)
	switch {
	case cordoned:
		r.Cordoned += remains
		return
	case remains > r.Largest:
		r.Largest, r.LargestNode = remains, node
	}
	if strands(a, gone) {
		r.Stranded += remains
		r.StrandedNodes++
	}
}

// Answer is what was added up, after the last step. It needs no loop.
func (x *Fragmentation) Answer() *pb.GetFragmentationResponse {
	x.out.LeftOut = uint32(len(x.left))
	for _, r := range x.by {
		x.out.Resources = append(x.out.Resources, r)
	}
	slices.SortFunc(x.out.Resources, func(a, b *pb.ResourceFragmentation) int {
		return cmp.Or(cmp.Compare(rankOf(a.Resource), rankOf(b.Resource)), cmp.Compare(a.Resource, b.Resource))
	})
	return x.out
}
