package preempt

import (
	"cmp"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/shardsched/shardsched/coordinator/compile"
	"github.com/shardsched/shardsched/coordinator/groups"
	"github.com/shardsched/shardsched/coordinator/preempt/units"
	"github.com/shardsched/shardsched/scorer"
)

// The texts of workload-aware preemption.
const (
	// ByGang is why a member may not preempt by itself.
	ByGang = "not eligible due to workload aware preemption enabled"
	// ByPlacement is why no member of a pod group with constraints may.
	ByPlacement = "not eligible due to placement-based pod group scheduling limitation"
	// NoPodGroup is why no pod may that names a PodGroup which is not there.
	NoPodGroup = "pod group for pod not found"
	// StillShort is why a gang gets no room that would not fit without the pods of lower priority either.
	StillShort = "pod group is unschedulable"

	notRegistered = "default preemption plugin is not registered, workload aware preemption is disabled"
	constrained   = "workload aware preemption is not supported for pod groups with scheduling constraints"
	noGangVictims = "No preemption victims found for incoming preemptor"
)

// maxDomains is for how many domains victims are looked for, of those that may take a gang: each takes a pass over its rows.
const maxDomains = 16

// Gang is a pod group of which too few members fit.
type Gang struct {
	Group *groups.Group
	// Members are those that have no node, in their order.
	Members []GangMember
	// Need is how many of them have to fit.
	Need int
	// Registered: the profile has DefaultPreemption. Topology: pod groups with constraints may preempt, too.
	Registered, Topology bool
}

// GangMember is a member without a node.
type GangMember struct {
	Pod   *v1.Pod
	Class *compile.Class
	// Reviewed: plugins compiled in or extenders have a say in its node.
	Reviewed bool
}

// GangPlan is how a gang gets room.
type GangPlan struct {
	// Refused is why it gets none; empty: it does.
	Refused string
	// Alone: members have to look for victims one by one, for what they need is not in their requests alone.
	Alone bool
	// Victims have to leave, the most important first. There may be none.
	Victims []*v1.Pod
	// Nodes are where members go once they have left, by the members' order; empty: nowhere. As many have a node as need one.
	Nodes []string

	cost planCost
}

// planCost is what the victims of a plan are worth, in the order of what counts first.
type planCost struct {
	violations  int
	top         int64
	prioritySum int64
	pods        int
}

func (c planCost) compare(o planCost) int {
	return cmp.Or(cmp.Compare(c.violations, o.violations), cmp.Compare(c.top, o.top),
		cmp.Compare(c.prioritySum, o.prioritySum), cmp.Compare(c.pods, o.pods))
}

// Gang finds the pods that have to leave for a gang: workload-aware preemption. The gang's own members hold no rows and are nominated
// to none meanwhile.
//
// Differs from upstream: a gang whose members are alike evicts the same pods without a placement for each of them. For others, the
// members are placed once, and pods come back that are in nobody's way there (so has it Kubernetes 1.37).
// Pods are not evicted again while those of an earlier attempt are still leaving.
func (f *Finder) Gang(g *Gang) GangPlan {
	spec := g.Group.Spec()
	f.Attempts.Inc()
	if why := g.Refused(); why != "" {
		return GangPlan{Refused: why}
	}
	x := f.gangSearch(g, spec)
	switch {
	case len(x.members) < g.Need:
		return GangPlan{Refused: StillShort}
	case x.alone || len(x.classes) > scorer.MaxLeavingFor:
		return GangPlan{Alone: true}
	}
	if spec.TopologyKey != "" {
		return x.inDomains(spec.TopologyKey, g.Group.Nodes())
	}
	return x.in(nil)
}

// Refused is why nobody leaves for the gang, whoever is there; empty: somebody may.
func (g *Gang) Refused() string {
	spec := g.Group.Spec()
	switch {
	case !g.Registered:
		return notRegistered
	case spec == nil:
		return Prefix + NoPodGroup
	case spec.TopologyKey != "" && !g.Topology:
		return constrained
	}
	for i := range g.Members {
		if p := g.Members[i].Pod; p.Spec.PreemptionPolicy != nil && *p.Spec.PreemptionPolicy == v1.PreemptNever {
			return never
		}
	}
	return ""
}

// gangSearch is the search for the victims of a gang.
type gangSearch struct {
	*Finder
	gang *Gang
	// members are indexes of those that may fit, and classOf are their classes.
	members []int
	classOf []int
	classes []*scorer.Class
	alone   bool
	tables  []*scorer.Table
	ask     scorer.Leaving
}

func (f *Finder) gangSearch(g *Gang, spec *groups.Spec) *gangSearch {
	x := &gangSearch{Finder: f, gang: g, tables: slices.Collect(f.Nodes.Tables)}
	known := map[*scorer.Class]int{}
	for i := range g.Members {
		m := &g.Members[i]
		if m.Class == nil || m.Class.Rejected != nil || m.Class.Scorer == nil {
			continue
		}
		c := m.Class.Scorer
		at, ok := known[c]
		if !ok {
			at = len(x.classes)
			known[c], x.classes = at, append(x.classes, c)
			x.alone = x.alone || !c.ByRequests()
		}
		x.alone = x.alone || m.Reviewed
		x.members, x.classOf = append(x.members, i), append(x.classOf, at)
	}
	if len(x.members) == 0 || x.alone {
		return x
	}
	first := &g.Members[x.members[0]]
	x.ask = scorer.Leaving{
		Preemption: scorer.Preemption{Priority: spec.Priority, NowMicros: f.Now().UnixMicro(), Budgets: f.Budgets.Allowed()},
		Units:      f.unitsOf(), Joined: map[scorer.RowRef]func(*scorer.RowTotals){},
	}
	for row, n := range f.Nominees.Of(first.Pod, first.Class, nil).ByRow() {
		x.ask.Joined[scorer.RowRef{Shard: row.Shard, Row: row.Index}] = f.Nominees.RowCheck(n, first.Class.Query).Join
	}
	return x
}

// unitsOf are the priorities of pods of PodGroups with disruptionMode PodGroup, by their numbers.
func (f *Finder) unitsOf() map[uint64]int32 {
	out := map[uint64]int32{}
	for g := range f.Groups.Wholes() {
		for m := range g.EachMember() {
			if number := f.Nodes.NumberOf(m.Pod.UID); number != 0 {
				out[number] = g.Spec().Priority
			}
		}
	}
	return out
}

// in finds the plan for some rows; nil: all.
func (x *gangSearch) in(rows func(t *scorer.Table, row uint32) bool) GangPlan {
	x.ask.Rows, x.ask.List = rows, false
	e, need, alike := x.Engine.Evaluator(), int64(x.gang.Need), len(x.classes) == 1
	switch may := e.Leavers(x.tables, x.classes, &x.ask); {
	case !may.Any:
		return GangPlan{Refused: noGangVictims}
	case alike && may.AtMost < need:
		return GangPlan{Refused: StillShort}
	}
	x.ask.List = true
	leavers := e.Leavers(x.tables, x.classes, &x.ask)
	list := units.New(leavers.Pods, x.ask.NowMicros, x.belongs())
	list.Charge(leavers.BudgetSets, x.ask.Budgets)
	if !alike {
		return x.inPlaces(list, leavers)
	}
	plan := x.plan(list, leavers, list.Victims(leavers, need))
	x.nominate(&plan, leavers)
	return plan
}

// inPlaces is in for members that are not alike: they are placed once, and pods come back that are in nobody's way.
func (x *gangSearch) inPlaces(list *units.List, leavers *scorer.Leavers) GangPlan {
	placed := leavers.Place(x.classOf)
	if placed.Placed < x.gang.Need {
		return GangPlan{Refused: StillShort}
	}
	var left []*units.Unit
	for i := range list.Units {
		if u := &list.Units[i]; slices.ContainsFunc(list.Pods(u), placed.Uses) {
			leavers.Leave(list.Pods(u))
			left = append(left, u)
		}
	}
	slices.SortFunc(left, func(a, b *units.Unit) int {
		if units.Before(a, b) {
			return -1
		}
		return 1
	})
	plan := x.plan(list, leavers, list.Reprieve(left, func(u *units.Unit) bool { return placed.Back(list.Pods(u)) }))
	plan.Nodes = make([]string, len(x.gang.Members))
	for i, at := range placed.Rows {
		if at.Index >= 0 {
			plan.Nodes[x.members[i]] = x.Nodes.Table(int(at.Shard)).Name(at.Row)
		}
	}
	return plan
}

// belongs tells what pods belong to.
func (x *gangSearch) belongs() func(*scorer.Leaver) units.Belongs {
	numbers := map[types.NamespacedName]int{}
	return func(p *scorer.Leaver) units.Belongs {
		pod, _ := x.Nodes.PodNumbered(p.Number)
		if pod == nil {
			return units.Belongs{}
		}
		name, grouped := groups.NameOf(pod)
		if !grouped {
			return units.Belongs{}
		}
		g := x.Groups.Get(name)
		if g == nil || g.Spec() == nil || !g.Spec().Whole {
			return units.Belongs{Grouped: true}
		}
		if numbers[name] == 0 {
			numbers[name] = len(numbers) + 1
		}
		return units.Belongs{Whole: numbers[name], Priority: g.Spec().Priority, Grouped: true}
	}
}

// plan is what becomes of victims.
func (x *gangSearch) plan(list *units.List, leavers *scorer.Leavers, victims []*units.Unit) GangPlan {
	plan := GangPlan{cost: planCost{top: -1 << 32}}
	for _, u := range victims {
		plan.cost.top = max(plan.cost.top, int64(u.Priority))
		for _, i := range list.Pods(u) {
			pod, _ := x.Nodes.PodNumbered(leavers.Pods[i].Number)
			plan.Victims = append(plan.Victims, pod)
			plan.cost.prioritySum += int64(u.Priority) + 1<<31
			plan.cost.pods++
			if u.Violating {
				plan.cost.violations++
			}
		}
	}
	return plan
}

// nominate gives as many members a node as need one: first those that victims leave, for their room is what others would take.
func (x *gangSearch) nominate(plan *GangPlan, leavers *scorer.Leavers) {
	vacated := map[string]bool{}
	for _, v := range plan.Victims {
		_, node, _ := x.Nodes.Pod(v.UID)
		vacated[node] = true
	}
	plan.Nodes = make([]string, len(x.gang.Members))
	next, need := 0, min(x.gang.Need, len(x.members))
	for _, first := range [...]bool{true, false} {
		for row, copies := range leavers.Room {
			node := x.Nodes.Table(int(row.Shard)).Name(row.Row)
			if vacated[node] != first {
				continue
			}
			for ; copies > 0 && next < need; copies, next = copies-1, next+1 {
				plan.Nodes[x.members[next]] = node
			}
			if next == need {
				return
			}
		}
	}
}

// inDomains finds the plan of the domain whose victims are worth the least. Members that have a node keep all in their domain. Of the
// domains that may take the gang, those are tried that take the most as they are.
func (x *gangSearch) inDomains(key string, nodes []string) GangPlan {
	byDomain, own := map[string][2]int64{}, ""
	for _, name := range nodes {
		if n := x.Nodes.Node(name); n != nil {
			own = n.Labels[key]
		}
	}
	x.ask.List = false
	all := x.Engine.Evaluator().Leavers(x.tables, x.classes, &x.ask)
	for row, copies := range all.Sums {
		if domain, has := x.Nodes.Table(int(row.Shard)).Label(row.Row, key); has && (own == "" || domain == own) {
			sum := byDomain[domain]
			byDomain[domain] = [2]int64{sum[0] + int64(copies[0]), sum[1] + int64(copies[1])}
		}
	}
	names := slices.SortedFunc(maps.Keys(byDomain), func(a, b string) int {
		return cmp.Or(cmp.Compare(byDomain[b][0], byDomain[a][0]), cmp.Compare(a, b))
	})
	if len(x.classes) == 1 {
		names = slices.DeleteFunc(names, func(d string) bool { return byDomain[d][1] < int64(x.gang.Need) })
	}
	switch {
	case !all.Any:
		return GangPlan{Refused: noGangVictims}
	case len(names) == 0:
		return GangPlan{Refused: StillShort}
	}
	best := GangPlan{Refused: StillShort}
	for _, domain := range names[:min(len(names), maxDomains)] {
		plan := x.in(func(t *scorer.Table, row uint32) bool {
			d, has := t.Label(row, key)
			return has && d == domain
		})
		if plan.Refused == "" && (best.Refused != "" || plan.cost.compare(best.cost) < 0) {
			best = plan
		}
	}
	return best
}

// AwaitsVictims tells whether victims of a scheduler are still leaving a node.
func (f *Finder) AwaitsVictims(node string) bool {
	for p := range f.Nodes.PodsOn(node) {
		if isLeaving(p) {
			return true
		}
	}
	return false
}
