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
}

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
	start := func(p *pb.PlacedPod) int64 {
		if p.StartMicros == 0 {
			return r.asked.NowMicros
		}
		return p.StartMicros
	}
	var lower []*pb.PlacedPod
	var gone []uint64
	for _, p := range r.nodes[i].pods {
		if p.Priority < r.asked.Priority {
			lower, gone = append(lower, p), append(gone, p.Number)
		}
	}
	if len(lower) == 0 {
		return NoVictims, []Reason{{"", "No preemption victims found for incoming pod", true}}, c
	}
	if why := r.judge(i, gone, nominated); len(why) > 0 {
		return StillRefused, why, c
	}
	important := func(a, b *pb.PlacedPod) int {
		return cmp.Or(-cmp.Compare(a.Priority, b.Priority), cmp.Compare(start(a), start(b)), cmp.Compare(a.Number, b.Number))
	}
	slices.SortFunc(lower, important)
	allowed := map[uint32]int32{}
	for _, b := range r.asked.Budgets {
		allowed[b.ID] = b.Allowed
	}
	var violating, others []*pb.PlacedPod
	for _, p := range lower {
		violates := false
		for _, b := range p.Budgets {
			if _, known := allowed[b]; known {
				allowed[b]--
				violates = violates || allowed[b] < 0
			}
		}
		if violates {
			violating = append(violating, p)
		} else {
			others = append(others, p)
		}
	}
	var victims []*pb.PlacedPod
	for k, p := range slices.Concat(violating, others) {
		without := slices.DeleteFunc(slices.Clone(gone), func(n uint64) bool { return n == p.Number })
		if len(r.judge(i, without, nominated)) == 0 {
			gone = without
			continue
		}
		victims = append(victims, p)
		if k < len(violating) {
			c.Violations++
		}
	}
	if len(victims) == 0 {
		return AlreadyFits, nil, c
	}
	slices.SortFunc(victims, important)
	c.TopPriority, c.EarliestStart = victims[0].Priority, math.MaxInt64
	for _, p := range victims {
		c.Victims = append(c.Victims, p.Number)
		c.PrioritySum += uint64(int64(p.Priority) + math.MaxInt32 + 1)
		if p.Priority == c.TopPriority {
			c.EarliestStart = min(c.EarliestStart, start(p))
		}
	}
	return Preemptable, nil, c
}

// better is upstream's pickOneNodeForPreemption, of two.
func (r *refPreemption) better(a, b PreemptionCandidate) int {
	return cmp.Or(
		cmp.Compare(a.Violations, b.Violations), cmp.Compare(a.TopPriority, b.TopPriority),
		cmp.Compare(a.PrioritySum, b.PrioritySum), cmp.Compare(len(a.Victims), len(b.Victims)),
		-cmp.Compare(a.EarliestStart, b.EarliestStart),
		cmp.Compare(a.LastDecision, b.LastDecision), cmp.Compare(a.NameHash, b.NameHash), cmp.Compare(a.Name, b.Name))
}
