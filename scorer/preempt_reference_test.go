package scorer

import (
	"cmp"
	"math"
	"slices"

	"google.golang.org/protobuf/proto"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// The reference for preemption: a cluster as a list of nodes with lists of pods. For every
// state of a node it adds everything up again and runs every filter over the whole cluster,
// as upstream's SelectVictimsOnNode does with clones of the node.

// refPlaced is a node with its pods.
type refPlaced struct {
	// base is the node with what is not its numbered pods'.
	base *groupNode
	pods []*pb.PlacedPod
}

// with is the node without some of its pods; nominated pods are beside it.
func (p *refPlaced) with(gone []uint64, nominated []*pb.PodUsage) *groupNode {
	out := &groupNode{proto.CloneOf(p.base.SnapshotRow), map[uint32]int64{}}
	for id, v := range p.base.counters {
		out.counters[id] = v
	}
	for _, u := range nominated {
		refAdd(out, u)
	}
	held := map[sharedCount]bool{}
	for _, x := range p.pods {
		if slices.Contains(gone, x.Number) {
			for _, v := range x.Leaving {
				out.counters[v.Counter] -= v.Value
			}
			continue
		}
		refAdd(out, x.Usage)
		for _, s := range x.Shared {
			held[sharedCount{s.Counter, s.Token}] = true
		}
	}
	// What all of its holders had was counted by the base.
	for _, x := range p.pods {
		for _, s := range x.Shared {
			if key := (sharedCount{s.Counter, s.Token}); !held[key] {
				held[key] = true
				out.counters[s.Counter]--
			}
		}
	}
	return out
}

func refAdd(n *groupNode, u *pb.PodUsage) {
	t := n.Totals
	t.Pods++
	t.NonZeroMilliCpu += u.NonZeroMilliCpu
	t.NonZeroMemoryBytes += u.NonZeroMemoryBytes
	if t.Requested == nil {
		t.Requested = &pb.Resources{}
	}
	t.Requested.MilliCpu += u.GetRequests().GetMilliCpu()
	t.Requested.MemoryBytes += u.GetRequests().GetMemoryBytes()
	t.Requested.EphemeralStorageBytes += u.GetRequests().GetEphemeralStorageBytes()
	for _, s := range u.GetRequests().GetScalars() {
		i := slices.IndexFunc(t.Requested.Scalars, func(x *pb.ScalarResource) bool { return x.Name == s.Name })
		if i < 0 {
			t.Requested.Scalars = append(t.Requested.Scalars, proto.CloneOf(s))
		} else {
			t.Requested.Scalars[i].Quantity += s.Quantity
		}
	}
	for _, p := range u.GetHostPorts() {
		i := slices.IndexFunc(t.Ports, func(x *pb.PortUse) bool { return proto.Equal(x.Port, p) })
		if i < 0 {
			t.Ports = append(t.Ports, &pb.PortUse{Port: p, Pods: 1})
		} else {
			t.Ports[i].Pods++
		}
	}
	for _, v := range u.GetCounters() {
		n.counters[v.Counter] += v.Value
	}
}

// refPreemption is one preemptor in one cluster.
type refPreemption struct {
	spec  *groupSpec
	query *pb.Query
	nodes []*refPlaced
	asked *Preemption
	whole []*groupNode // as the nodes are
	units map[uint64]*Unit
}

// refUnit is what leaves a node as one.
type refUnit struct {
	Unit
	pods []*pb.PlacedPod
}

// number is the smallest of its pods'.
func (u *refUnit) number() uint64 {
	return slices.MinFunc(u.pods, func(a, b *pb.PlacedPod) int { return cmp.Compare(a.Number, b.Number) }).Number
}

// lower are the units of a node that may leave, the most important first, and the numbers of their pods.
func (r *refPreemption) lower(n *refPlaced) (units []*refUnit, gone []uint64) {
	known := map[*Unit]*refUnit{}
	pods := slices.SortedFunc(slices.Values(n.pods), func(a, b *pb.PlacedPod) int {
		return cmp.Or(-cmp.Compare(a.Priority, b.Priority), cmp.Compare(r.start(a), r.start(b)), cmp.Compare(a.Number, b.Number))
	})
	for _, p := range pods {
		whole := r.units[p.Number]
		u := &refUnit{Unit: Unit{Priority: p.Priority, Pods: 1, Start: r.start(p)}}
		for _, b := range p.Budgets {
			u.Budgets = append(u.Budgets, UnitBudget{b, 1})
		}
		if whole != nil {
			u.Unit = *whole
			u.Start = cmp.Or(u.Start, r.asked.NowMicros)
		}
		if u.Priority >= r.asked.Priority {
			continue
		}
		if gone = append(gone, p.Number); whole != nil && known[whole] != nil {
			known[whole].pods = append(known[whole].pods, p)
			continue
		}
		u.pods = []*pb.PlacedPod{p}
		units = append(units, u)
		known[whole] = u
	}
	slices.SortFunc(units, func(a, b *refUnit) int {
		return cmp.Or(-cmp.Compare(a.Priority, b.Priority), -cmp.Compare(a.Pods, b.Pods), cmp.Compare(a.Start, b.Start),
			cmp.Compare(a.number(), b.number()))
	})
	return units, gone
}

// start is when a pod has started.
func (r *refPreemption) start(p *pb.PlacedPod) int64 { return cmp.Or(p.StartMicros, r.asked.NowMicros) }

// judge is why the i-th node refuses the pod while some pods are gone.
func (r *refPreemption) judge(i int, gone []uint64, nominated []*pb.PodUsage) []Reason {
	if len(nominated) > 0 {
		if why := r.judge1(i, r.nodes[i].with(gone, nominated)); len(why) > 0 {
			return why
		}
	}
	return r.judge1(i, r.nodes[i].with(gone, nil))
}

func (r *refPreemption) judge1(i int, n *groupNode) []Reason {
	nodes := slices.Clone(r.whole)
	nodes[i] = n
	j := &groupJudge{spec: r.spec, query: r.query, nodes: nodes, before: r.whole, at: i}
	return j.filter(n)
}

// try does what upstream's SelectVictimsOnNode does.
func (r *refPreemption) try(i int, nominated []*pb.PodUsage) (PreemptOutcome, []Reason, PreemptionCandidate) {
	var c PreemptionCandidate
	why := r.judge(i, nil, nominated)
	if len(why) == 0 || slices.ContainsFunc(why, func(x Reason) bool { return x.Unresolvable }) {
		return NotTried, nil, c
	}
	lower, gone := r.lower(r.nodes[i])
	if len(lower) == 0 {
		return NoVictims, []Reason{{"", "No preemption victims found for incoming pod", true}}, c
	}
	if why := r.judge(i, gone, nominated); len(why) > 0 {
		return StillRefused, why, c
	}
	allowed := map[uint32]int32{}
	for _, b := range r.asked.Budgets {
		allowed[b.ID] = b.Allowed
	}
	var violating, others []*refUnit
	for _, u := range lower {
		violates := u.Violates
		for _, b := range u.Budgets {
			if _, known := allowed[b.ID]; known {
				allowed[b.ID] -= int32(b.Pods)
				violates = violates || allowed[b.ID] < 0
			}
		}
		if violates {
			violating = append(violating, u)
		} else {
			others = append(others, u)
		}
	}
	victims := map[*refUnit]bool{}
	for k, u := range slices.Concat(violating, others) {
		without := slices.DeleteFunc(slices.Clone(gone), func(n uint64) bool {
			return slices.ContainsFunc(u.pods, func(p *pb.PlacedPod) bool { return p.Number == n })
		})
		if len(r.judge(i, without, nominated)) == 0 {
			gone = without
			continue
		}
		victims[u] = true
		if k < len(violating) {
			c.Violations += u.Pods
		}
	}
	if len(victims) == 0 {
		return AlreadyFits, nil, c
	}
	c.TopPriority, c.EarliestStart = math.MinInt32, math.MaxInt64
	for _, u := range lower {
		if !victims[u] {
			continue
		}
		for _, p := range u.pods {
			c.Victims = append(c.Victims, p.Number)
		}
		if c.Elsewhere += u.Pods - len(u.pods); u.Pods > 0 {
			if c.TopPriority == math.MinInt32 {
				c.TopPriority = u.Priority
			}
			if u.Priority == c.TopPriority {
				c.EarliestStart = min(c.EarliestStart, u.Start)
			}
			c.PrioritySum += uint64(u.Pods) * uint64(int64(u.Priority)+math.MaxInt32+1)
		}
	}
	return Preemptable, nil, c
}

// better is upstream's pickOneNodeForPreemption, of two.
func (r *refPreemption) better(a, b PreemptionCandidate) int {
	return cmp.Or(
		cmp.Compare(a.Violations, b.Violations), cmp.Compare(a.TopPriority, b.TopPriority),
		cmp.Compare(a.PrioritySum, b.PrioritySum), cmp.Compare(len(a.Victims)+a.Elsewhere, len(b.Victims)+b.Elsewhere),
		-cmp.Compare(a.EarliestStart, b.EarliestStart),
		cmp.Compare(a.LastDecision, b.LastDecision), cmp.Compare(a.NameHash, b.NameHash), cmp.Compare(a.Name, b.Name))
}
