package scorer

import (
	"fmt"
	"math"
	"slices"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// NoLabel is a row value where the row lacks the label.
const NoLabel = math.MinInt64

// groupPart is what a row tells of itself so that the coordinator can decide about its
// group: the rest of its key, and its share of the measures.
type groupPart struct {
	domains  []string
	values   []rowValue
	measures []measure
	// sums and inclusions are what values and measures refer to by index, each different
	// one once.
	sums       [][]*pb.CounterTerm
	inclusions []inclusion
	// labels are the different labels that domains and measures are told by.
	labels   []string
	counters []uint32
	summed   []uint32 // those of the sums
	// pinned are the counters of pinned sums, sorted, and pins those sums by domain; nil: the class has none yet.
	pinned []uint32
	pins   []map[string]int64
}

// rowValue is a number of the row that is part of the key.
type rowValue struct {
	key            string // "": every row has it
	sum, inclusion int
	clamp, forbids bool
	// behindClaims tells that only filters behind DynamicResources read it: they do not look at rows that fail the pod.
	behindClaims bool
	pinned       pinnedValue // in place of key, sum and inclusion, unless empty
}

// measure is a sum over the cluster.
type measure struct {
	by             pb.Breakdown
	sum, inclusion int
	label          int // index into groupPart.labels; -1: by no domain
	// domain is the domain key with the same label, -1 where there is none.
	domain int
}

// groupReads is what one plugin reads of the group part: indexes into groupPart.values and groupPart.measures.
type groupReads struct{ values, measures []int }

func newGroupPart(q *pb.Query) groupPart {
	g := groupPart{domains: q.GetDomainKeys(), labels: slices.Clone(q.GetDomainKeys())}
	for _, v := range q.GetRowValues() {
		x := rowValue{
			key: v.GetTopologyKey(), sum: g.sum(v.GetCounters()), inclusion: g.inclusion(v.GetInclusion(), q),
			clamp: v.GetClamp(), forbids: v.GetForbids(),
		}
		for _, p := range v.GetPinned() {
			x.pinned.all = append(x.pinned.all, pinnedSum{key: p.GetTopologyKey(), terms: p.GetCounters()})
			for _, t := range p.GetCounters() {
				g.pinned = append(g.pinned, t.GetCounter())
			}
		}
		g.values = append(g.values, x)
	}
	for _, m := range q.GetMeasures() {
		x := measure{
			by: m.GetBy(), sum: g.sum(m.GetCounters()), inclusion: g.inclusion(m.GetInclusion(), q),
			label: -1, domain: slices.Index(g.domains, m.GetTopologyKey()),
		}
		if m.GetBy() == pb.Breakdown_BREAKDOWN_DOMAIN {
			x.label = g.label(m.GetTopologyKey())
		}
		g.measures = append(g.measures, x)
	}
	slices.Sort(g.pinned)
	g.pinned = slices.Compact(g.pinned)
	g.summed = summed(g.sums)
	g.counters = countersOf(q, slices.Concat(g.summed, g.pinned))
	return g
}

func (g *groupPart) any() bool { return len(g.domains)+len(g.values)+len(g.measures) > 0 }

func (g *groupPart) sum(terms []*pb.CounterTerm) int {
	same := func(a, b *pb.CounterTerm) bool {
		return a.GetCounter() == b.GetCounter() && a.GetWeight() == b.GetWeight()
	}
	for i := range g.sums {
		if slices.EqualFunc(g.sums[i], terms, same) {
			return i
		}
	}
	g.sums = append(g.sums, terms)
	return len(g.sums) - 1
}

func (g *groupPart) inclusion(x *pb.Inclusion, q *pb.Query) int {
	if i := slices.IndexFunc(g.inclusions, func(have inclusion) bool { return have.is(x) }); i >= 0 {
		return i
	}
	g.inclusions = append(g.inclusions, newInclusion(x, q))
	return len(g.inclusions) - 1
}

func (g *groupPart) label(key string) int {
	if i := slices.Index(g.labels, key); i >= 0 {
		return i
	}
	g.labels = append(g.labels, key)
	return len(g.labels) - 1
}

// summed lists the counters of the sums.
func summed(sums [][]*pb.CounterTerm) (out []uint32) {
	for _, terms := range sums {
		for _, t := range terms {
			out = append(out, t.GetCounter())
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// countersOf adds the counters of the volume rules to those of sums.
func countersOf(q *pb.Query, out []uint32) []uint32 {
	out = append(out, q.GetVolumeRestrictions().GetDisks()...)
	for _, d := range q.GetVolumeLimits().GetDrivers() {
		out = append(out, d.GetShared()...)
		if d.GetAttached() != 0 {
			out = append(out, d.GetAttached())
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// place is where a constraint finds its number: in the domain of the group's rows, or in
// the row itself.
type place struct {
	domain, value int // one of them is -1
	measure       int
}

func newPlace(p *pb.Place) place {
	out := place{domain: -1, value: -1, measure: int(p.GetMeasure())}
	switch in := p.GetIn().(type) {
	case *pb.Place_Domain:
		out.domain = int(in.Domain)
	case *pb.Place_RowValue:
		out.value = int(in.RowValue)
	default:
		panic(fmt.Sprintf("a place of kind %T passed Query.Validate", in))
	}
	return out
}

// add adds what finding the number at a place reads; measured says that a row value has a measure too.
func (n *groupReads) add(p place, measured bool) {
	if p.value >= 0 {
		n.values = append(n.values, p.value)
	}
	if p.domain >= 0 || measured {
		n.measures = append(n.measures, p.measure)
	}
}

// weighted is the sum of a row's counters.
func (v view) weighted(terms []*pb.CounterTerm) int64 {
	n := int64(0)
	for _, t := range terms {
		n += t.GetWeight() * v.counter(t.GetCounter())
	}
	return n
}

// value is a row's value, given its sum and whether it is included.
func (x *rowValue) value(v view, sum int64, included bool) int64 {
	if x.key != "" {
		if _, has := v.t.labels.lookup(v.row, x.key); !has {
			return NoLabel
		}
	}
	if !included {
		return 0
	}
	return x.clamped(sum)
}

func (x *rowValue) clamped(sum int64) int64 {
	if x.clamp {
		return int64(asInt(sum > 0))
	}
	return sum
}
