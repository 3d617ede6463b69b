package compile

import (
	"fmt"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/shardsched/shardsched/coordinator/cluster"
	"github.com/shardsched/shardsched/coordinator/count"
	"github.com/shardsched/shardsched/coordinator/selector"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
	"github.com/shardsched/shardsched/scorer"
)

// readsNamespaces tells whether a term has a namespaceSelector to resolve.
func readsNamespaces(a *count.Affinity) bool {
	return slices.ContainsFunc(slices.Concat(a.Required, a.Anti, a.Preferred), func(t count.AffinityTerm) bool {
		return !t.Namespaces.Empty() && !t.Namespaces.MatchesNothing()
	})
}

// keysOfTerms are the topology keys of terms: sorted, each once.
func keysOfTerms(lists ...[]count.AffinityTerm) []string {
	var out []string
	for _, list := range lists {
		for i := range list {
			out = append(out, topologyKey(list[i].TopologyKey))
		}
	}
	return once(out)
}

// within is the namespaces whose pods a term of the incoming pod is about. A
// namespaceSelector is resolved to the names of the namespaces that it matches.
//
// As upstream: the selector stays in force beside the names and is shown pods without
// their namespace's labels. So one that matches no labels, such as {} or a mere NotIn,
// is about every namespace.
func within(t *count.AffinityTerm, c *cluster.Cluster) count.Namespaces {
	if t.Namespaces.Matches(nil) {
		return count.Namespaces{All: true}
	}
	if t.Namespaces.MatchesNothing() {
		return count.Namespaces{Names: t.Names}
	}
	return count.Namespaces{Names: c.Namespaces(t.Namespaces, t.Names)}
}

// selecting is the counter of the pods that a term is about.
func (g *groups) selecting(t *count.AffinityTerm) uint32 {
	return g.registry.Pods(within(t, g.setting.state.Cluster()), t.Selector)
}

// affinityFilter adds what InterPodAffinity's Filter asks.
func (g *groups) affinityFilter(q *pb.InterPodAffinityQuery, near *count.Affinity) {
	anti, existing, pinned := weights{}, weights{}, weights{}
	if near != nil {
		g.affinityTo(q, near.Required)
		for i := range near.Anti {
			t := &near.Anti[i]
			if key := topologyKey(t.TopologyKey); !g.setting.absent(key) {
				anti.set(key, g.selecting(t))
			}
		}
	}
	for _, t := range g.matching() {
		if t.Kind != count.RequiredAntiAffinity {
			continue
		}
		if key := topologyKey(t.TopologyKey); g.pins.foreign(key) {
			pinned.set(key, t.Counter())
		} else {
			existing.set(key, t.Counter())
		}
	}
	if g.pins.own {
		q.Anti = g.pinned(anti, true)
	} else {
		q.Anti = g.forbidden(anti)
	}
	q.ExistingAnti = append(g.forbidden(existing), g.pinned(pinned, true)...)
	if near != nil {
		q.Alone = g.alone(q.Anti, near.Anti)
	}
}

// alone are the row values of the pod's own required anti-affinity that the pod itself makes above 0.
func (g *groups) alone(anti []*pb.Place, terms []count.AffinityTerm) []uint32 {
	var out []uint32
	for _, p := range anti {
		in, ok := p.GetIn().(*pb.Place_RowValue)
		if !ok {
			continue
		}
		v := g.query.RowValues[in.RowValue]
		for i := range terms {
			key := topologyKey(terms[i].TopologyKey)
			pinned := slices.ContainsFunc(v.Pinned, func(t *pb.PinnedTerms) bool { return t.TopologyKey == key })
			if g.setting.alone[i] && (pinned || v.TopologyKey == key) {
				out = append(out, in.RowValue)
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// matching are the terms of other pods that match the pod.
func (g *groups) matching() []*count.Term {
	if g.setting.match == nil {
		return nil
	}
	return g.setting.match.Terms
}

// affinityTo adds the required affinity terms: one counter of the pods that match them
// all, looked at in each term's topology. Where no node has one of the labels, that label alone refuses
// all nodes, and nothing has to be counted.
func (g *groups) affinityTo(q *pb.InterPodAffinityQuery, terms []count.AffinityTerm) {
	if len(terms) == 0 {
		return
	}
	keys := keysOfTerms(terms)
	if i := slices.IndexFunc(keys, g.setting.absent); i >= 0 {
		q.Required = append(q.Required, g.inDomain(keys[i], nil, nil))
		return
	}
	all, of := within(&terms[0], g.setting.state.Cluster()), selectorOf(terms)
	for i := range terms[1:] {
		more := within(&terms[1+i], g.setting.state.Cluster())
		all = all.And(&more)
	}
	q.SelfMatch = g.setting.selfAffinity && all.Has(g.setting.pod.Namespace)
	counts := counters(g.registry.Pods(all, of))
	for _, key := range keys {
		if !g.setting.unique(key) {
			q.Required = append(q.Required, g.inDomain(key, counts, nil))
			continue
		}
		q.Required = append(q.Required, g.inRow(&pb.RowValue{TopologyKey: key, Counters: counts, Clamp: true},
			&pb.Measure{By: pb.Breakdown_BREAKDOWN_TOTAL, Counters: counts, Inclusion: g.inclusion([]string{key}, false, false)}))
	}
}

// selectorOf matches where the selectors of all terms do. By halves: each requirement is written a few times,
// not once for each term.
func selectorOf(terms []count.AffinityTerm) *selector.Selector {
	if len(terms) == 1 {
		return terms[0].Selector
	}
	half := len(terms) / 2
	return selectorOf(terms[:half]).And(selectorOf(terms[half:]))
}

// forbidden is the places where no counter may be above 0.
func (g *groups) forbidden(w weights) []*pb.Place {
	var out []*pb.Place
	for key, counts := range w.sorted {
		if g.setting.absent(key) {
			continue // the last node that had the label has lost it
		}
		if !g.setting.unique(key) {
			out = append(out, g.inDomain(key, counts, nil))
			continue
		}
		out = append(out, g.inRow(&pb.RowValue{TopologyKey: key, Counters: counts, Clamp: true, Forbids: true}, nil))
	}
	return out
}

// affinityScore adds what InterPodAffinity's Score asks.
func (g *groups) affinityScore(q *pb.InterPodAffinityQuery, near *count.Affinity, prof *Profile) {
	if prof.ignorePreferred && (near == nil || !near.HasPreferred) {
		return
	}
	sums, pinned := weights{}, weights{}
	if near != nil {
		into := sums
		if g.pins.own {
			into = pinned
		}
		for i := range near.Preferred {
			t := &near.Preferred[i]
			if key := topologyKey(t.TopologyKey); !g.setting.absent(key) {
				into.add(key, g.selecting(t), t.Weight)
			}
		}
	}
	for _, t := range g.matching() {
		key, into := topologyKey(t.TopologyKey), sums
		if g.pins.foreign(key) {
			into = pinned
		}
		switch t.Kind {
		case count.Preferred:
			into.add(key, t.Counter(), 1)
		case count.RequiredAffinity:
			into.add(key, t.Counter(), prof.hardAffinityWeight)
		}
	}
	q.Preferred = g.pinned(pinned, false)
	for key, counts := range sums.sorted {
		if g.setting.absent(key) {
			continue
		}
		if !g.setting.unique(key) {
			q.Preferred = append(q.Preferred, g.inDomain(key, counts, nil))
			continue
		}
		q.Preferred = append(q.Preferred, g.inRow(&pb.RowValue{TopologyKey: key, Counters: counts}, nil))
	}
}

// weights are weighted counters by topology key.
type weights map[string]map[uint32]int64

// add gives a counter more weight. Counter 0 stands for none.
func (w weights) add(key string, counter uint32, weight int64) {
	if counter == 0 || weight == 0 {
		return
	}
	if w[key] == nil {
		w[key] = map[uint32]int64{}
	}
	w[key][counter] = min(max(w[key][counter]+weight, -pb.MaxCounterWeight), pb.MaxCounterWeight)
}

// set gives a counter the weight 1, however often it is named.
func (w weights) set(key string, counter uint32) {
	if w[key][counter] == 0 {
		w.add(key, counter, 1)
	}
}

// sorted yields the keys with their counters, without those whose weights cancel out.
func (w weights) sorted(yield func(string, []*pb.CounterTerm) bool) {
	if len(w) == 0 { // as with nearly all pods
		return
	}
	for _, key := range slices.Sorted(maps.Keys(w)) {
		var list []*pb.CounterTerm
		for _, id := range slices.Sorted(maps.Keys(w[key])) {
			if weight := w[key][id]; weight != 0 {
				list = append(list, &pb.CounterTerm{Counter: id, Weight: weight})
			}
		}
		if len(list) > 0 && !yield(key, list) {
			return
		}
	}
}

// planNear is InterPodAffinity's PreFilter and PreScore.
func (o *outline) planNear(p *v1.Pod, counters *count.Registry) {
	o.nearby = o.prof.uses(pb.Plugin_PLUGIN_INTER_POD_AFFINITY)
	if !o.nearby || !count.HasAffinity(p) {
		return
	}
	o.near = counters.ReadAffinity(p)
	o.nearKeys, o.readsNamespaces = keysOfTerms(o.near.Required, o.near.Anti, o.near.Preferred), readsNamespaces(o.near)
	if o.near.Err == nil {
		return
	}
	name := scorer.PluginName(pb.Plugin_PLUGIN_INTER_POD_AFFINITY)
	text := fmt.Sprintf("parsing pod: %v", o.near.Err)
	o.refuse(pb.Plugin_PLUGIN_INTER_POD_AFFINITY, &Rejection{Plugins: []string{name}, Message: text, Unresolvable: true}, nil)
	// Where its PreFilter runs, no PreScore does: the pod is refused.
	if !o.prof.FiltersBy(pb.Plugin_PLUGIN_INTER_POD_AFFINITY) && (!o.prof.ignorePreferred || o.near.HasPreferred) {
		o.refuseScore(pb.Plugin_PLUGIN_INTER_POD_AFFINITY, fmt.Errorf("failed to parse pod: %w", o.near.Err))
	}
}
