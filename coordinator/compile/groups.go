package compile

import (
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/shardsched/shardsched/coordinator/count"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// groups collects what a query's groups are made of: domain keys, row values and
// measures, each once.
type groups struct {
	query    *pb.Query
	setting  *setting
	registry *count.Registry
	// required: the pod has a nodeSelector or required node affinity. honours: some
	// inclusion looks at it.
	required, honours bool
	// index finds a row value or a measure by its encoding.
	index   map[string]uint32
	encoded []byte // scratch
	// inclusions are those in use, each once.
	inclusions []*pb.Inclusion
	pins       pinning
}

func newGroups(q *pb.Query, s *setting, pl *plan) *groups {
	return &groups{
		query: q, setting: s, registry: s.state.Counters(), required: pl.affinity.honoured != nil,
		index: map[string]uint32{}, pins: newPinning(s, pl),
	}
}

// counters counts each of some counters once; 0 stands for none.
func counters(ids ...uint32) []*pb.CounterTerm {
	var out []*pb.CounterTerm
	for _, id := range ids {
		if id != 0 {
			out = append(out, &pb.CounterTerm{Counter: id, Weight: 1})
		}
	}
	return out
}

// inDomain is the place of a sum over a row's domain.
func (g *groups) inDomain(key string, counts []*pb.CounterTerm, among *pb.Inclusion) *pb.Place {
	i := slices.Index(g.query.DomainKeys, key)
	if i < 0 {
		i = len(g.query.DomainKeys)
		g.query.DomainKeys = append(g.query.DomainKeys, key)
	}
	m := &pb.Measure{By: pb.Breakdown_BREAKDOWN_DOMAIN, TopologyKey: key, Counters: counts, Inclusion: among}
	return &pb.Place{In: &pb.Place_Domain{Domain: uint32(i)}, Measure: g.measure(m)}
}

// inRow is the place of a number of the row itself; m may be nil.
func (g *groups) inRow(v *pb.RowValue, m *pb.Measure) *pb.Place {
	p := &pb.Place{In: &pb.Place_RowValue{RowValue: g.once('v', v, &v.Inclusion, func() int {
		g.query.RowValues = append(g.query.RowValues, v)
		return len(g.query.RowValues)
	})}}
	if m != nil {
		p.Measure = g.measure(m)
	}
	return p
}

// measure is the index of a measure.
func (g *groups) measure(m *pb.Measure) uint32 {
	return g.once('m', m, &m.Inclusion, func() int {
		g.query.Measures = append(g.query.Measures, m)
		return len(g.query.Measures)
	})
}

// inclusion is which rows a sum is about; nil: all.
func (g *groups) inclusion(keys []string, taints, affinity bool) *pb.Inclusion {
	if len(keys) == 0 && !taints && !affinity {
		return nil
	}
	for _, x := range g.inclusions {
		if slices.Equal(x.TopologyKeys, keys) && x.HonourTaints == taints && x.HonourAffinity == affinity {
			return x
		}
	}
	x := &pb.Inclusion{TopologyKeys: keys, HonourTaints: taints, HonourAffinity: affinity}
	g.inclusions, g.honours = append(g.inclusions, x), g.honours || affinity
	return x
}

// once adds a message to a list unless there is an equal one, and returns its index. add
// returns the new length. among is the message's inclusion, which is told by its number: it may name as many keys
// as there are messages.
func (g *groups) once(kind byte, m proto.Message, among **pb.Inclusion, add func() int) uint32 {
	x := *among
	*among = nil
	g.encoded = append(g.encoded[:0], kind, byte(slices.Index(g.inclusions, x)+1))
	encoded, err := proto.MarshalOptions{Deterministic: true}.MarshalAppend(g.encoded, m)
	if err != nil {
		panic(err) // its texts are names that usable has checked
	}
	g.encoded, *among = encoded, x
	i, ok := g.index[string(encoded)]
	if !ok {
		i = uint32(add() - 1)
		g.index[string(encoded)] = i
	}
	return i
}

const (
	// OwnKeys is how many topology keys a pod may name that nodes have. Each makes a column of every
	// group's key, for the pod and for all pods that its terms match; pods in use name one to three.
	OwnKeys = 64
	// OwnTerms is how many terms and constraints of such keys it may have. Each makes a counter or two, which
	// all pods are held against.
	OwnTerms = 256
)

// excess is the error of a pod that asks for more than a pod may.
//
// Differs from upstream: a pod whose own constraints and pod affinity terms name more than 64 topology
// keys that nodes have, or number more than 256 of such keys, is not scheduled.
func (pl *plan) excess(s *setting) error {
	keys := map[string]bool{}
	terms := 0
	take := func(key string) {
		if key = topologyKey(key); len(keys) <= OwnKeys && !s.absent(key) {
			keys[key] = true
			terms++
		}
	}
	if !pl.spread.defaults {
		for _, list := range [][]constraint{pl.spread.hard, pl.spread.soft} {
			for i := range list {
				take(list[i].key)
			}
		}
	}
	if pl.near != nil {
		for _, list := range [][]count.AffinityTerm{pl.near.Required, pl.near.Anti, pl.near.Preferred} {
			for i := range list {
				take(list[i].TopologyKey)
			}
		}
	}
	switch {
	case len(keys) > OwnKeys:
		return fmt.Errorf("topology spread constraints and pod affinity terms of the pod: more than %d topology keys that nodes have",
			OwnKeys)
	case terms > OwnTerms:
		return fmt.Errorf("topology spread constraints and pod affinity terms of the pod: more than %d of topology keys that nodes have",
			OwnTerms)
	}
	return nil
}

// check tells whether the query holds more than it may.
//
// Differs from upstream: a pod that terms of placed pods match of more than 4096 topology keys
// that nodes have is not scheduled.
func (g *groups) check() error {
	q := g.query
	if slices.ContainsFunc(q.RowValues, func(v *pb.RowValue) bool { return len(v.GetPinned()) > pb.MaxPinned }) {
		return fmt.Errorf("pod affinity terms of other pods: more than %d topology keys", pb.MaxPinned)
	}
	if len(q.DomainKeys) > pb.MaxDomainKeys || len(q.RowValues) > pb.MaxRowValues || len(q.Measures) > pb.MaxMeasures {
		return fmt.Errorf("topology spread constraints and pod affinity terms: more than %d topology keys", pb.MaxDomainKeys)
	}
	return nil
}

// fillGroups writes what PodTopologySpread and InterPodAffinity ask.
func (pl *plan) fillGroups(q *pb.Query, s *setting) error {
	s.hard = nil
	if len(pl.spread.keys) == 0 && pl.near == nil && s.match == nil {
		return nil
	}
	g := newGroups(q, s, pl)
	q.Spread = g.spread(&pl.spread)
	near := &pb.InterPodAffinityQuery{}
	if pl.prof.FiltersBy(pb.Plugin_PLUGIN_INTER_POD_AFFINITY) {
		g.affinityFilter(near, pl.near)
	}
	if pl.prof.scoresBy(pb.Plugin_PLUGIN_INTER_POD_AFFINITY) {
		g.affinityScore(near, pl.near, pl.prof)
	}
	if len(near.Required)+len(near.Anti)+len(near.ExistingAnti)+len(near.Preferred) > 0 {
		q.InterPodAffinity = near
	}
	if g.honours && q.NodeAffinity.GetNodeSelector() == nil && q.NodeAffinity.GetRequired() == nil {
		q.NodeAffinity = &pb.NodeAffinityQuery{
			Added:        q.NodeAffinity.GetAdded(),
			NodeSelector: pl.affinity.honoured.NodeSelector,
			Required:     pl.affinity.honoured.Required,
			Preferred:    q.NodeAffinity.GetPreferred(),
		}
	}
	return g.check()
}
