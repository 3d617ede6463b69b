package preempt

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/shardsched/shardsched/coordinator/cache"
	"github.com/shardsched/shardsched/coordinator/compile"
	"github.com/shardsched/shardsched/coordinator/groups"
	"github.com/shardsched/shardsched/scorer"
)

// With WholeGangs the pods of a PodGroup with disruptionMode PodGroup leave together for a single pod, too, wherever they are, or stay:
//
//	one of them is a victim ──> all on nodes leave; the PodGroup's priority has to be lower, the pods' own does not count
//	a candidate's cost      ──> counts all of them, but those that are leaving already, and soon
//	the preemptor's PodGroup ─> stays
//
// Workers know nothing of PodGroups. So rows with such pods are tried here, and the others by workers; where those rows are very many, all
// are tried here.
//
// Differs from upstream: there a single pod evicts single members.

const (
	// maxUnitRows is how many rows workers are told to skip: each takes a few bytes of each worker's question.
	maxUnitRows = 4096
	// unitEvery is how often a unit of more than maxChanged pods is counted anew because some have come, gone or started: each time
	// costs the dry runs that are kept, and the owner of such pods may have them come and go all the time.
	unitEvery = time.Second
	// maxUnitBudgets is how many budgets of a unit are told apart: each is looked at on each row. It is as many as those of a pod.
	maxUnitBudgets = 64
	// maxGrace is how long a pod may take to end at the most, in seconds, to cost nothing while it is leaving: preemptors wait where
	// nothing costs less.
	maxGrace = 300
)

// wholeGangs are the units of whole pod groups.
type wholeGangs struct {
	version uint64 // of the Groups
	units   map[*groups.Group]*gangUnit
	late    map[*groups.Group]struct{} // those that are to be counted anew
}

// gangUnit is a unit as it was counted.
type gangUnit struct {
	scorer.Unit
	counted time.Time
}

// followWholes has units be as pod groups are now, and has dry runs that are kept try their rows again.
func (f *Finder) followWholes() {
	if !f.WholeGangs {
		return
	}
	w, now := &f.wholes, f.Now()
	changes, ok := f.Groups.WholesSince(w.version)
	if w.version = f.Groups.WholeVersion(); !ok {
		clear(f.kept)
		*w = wholeGangs{version: w.version, units: map[*groups.Group]*gangUnit{}, late: w.late}
		for g := range f.Groups.Wholes() {
			w.units[g] = f.countUnit(g, now)
		}
		clear(w.late)
		return
	}
	if len(changes)+len(w.late) == 0 {
		return
	}
	anew := map[*groups.Group]struct{}{}
	for _, c := range changes {
		if c.Minor {
			w.late[c.Group] = struct{}{}
		} else {
			anew[c.Group] = struct{}{}
		}
	}
	for g := range w.late {
		if u := w.units[g]; u == nil || g.Scheduled() <= maxChanged || now.Sub(u.counted) >= unitEvery {
			anew[g] = struct{}{}
		}
	}
	for g := range anew {
		delete(w.late, g)
		f.setUnit(g, now)
	}
}

// setUnit counts the unit of a pod group anew.
func (f *Finder) setUnit(g *groups.Group, now time.Time) {
	w, lowest := &f.wholes, int32(math.MinInt32)
	was := w.units[g]
	delete(w.units, g)
	if g.Whole() && g.Scheduled() > 0 {
		u := f.countUnit(g, now)
		w.units[g] = u
		if was != nil {
			lowest = min(was.Priority, u.Priority)
		}
	}
	rows, few := f.rowsOf(g, maxChanged)
	for key, d := range f.kept {
		switch {
		case key.priority <= lowest: // for such preemptors it stays, whatever it costs
		case !few || len(d.stale)+len(rows) > maxChanged:
			delete(f.kept, key)
		default:
			d.stale = append(d.stale, rows...)
		}
	}
}

func (f *Finder) countUnit(g *groups.Group, now time.Time) *gangUnit {
	u, counted := &gangUnit{Unit: scorer.Unit{Priority: g.Spec().Priority}, counted: now}, map[uint32]int{}
	for m := range g.EachMember() {
		if m.Node == "" {
			continue
		}
		if start := m.Pod.Status.StartTime; start != nil {
			at := max(start.UnixMicro(), 1)
			u.Start = min(cmp.Or(u.Start, at), at)
		}
		if grace := m.Pod.Spec.TerminationGracePeriodSeconds; m.Leaving && (grace == nil || *grace <= maxGrace) {
			continue
		}
		u.Pods++
		for _, b := range f.Budgets.Of(m.Pod) {
			counted[b]++
		}
	}
	if len(counted) > maxUnitBudgets {
		u.Violates = true
		return u
	}
	for _, id := range slices.Sorted(maps.Keys(counted)) {
		u.Budgets = append(u.Budgets, scorer.UnitBudget{ID: id, Pods: counted[id]})
	}
	return u
}

// rowsOf are the rows with pods of a pod group; false: there are more than most.
func (f *Finder) rowsOf(g *groups.Group, most int) (rows []cache.Row, few bool) {
	for node := range g.EachNode() {
		if row, ok := f.Nodes.RowOf(node); ok {
			if rows = append(rows, row); len(rows) > most {
				return nil, false
			}
		}
	}
	return rows, true
}

// unitRows are the rows with pods that leave with others, sorted.
func (f *Finder) unitRows() (rows []scorer.RowRef) {
	if !f.WholeGangs {
		return nil
	}
	for node := range f.Groups.WholeNodes() {
		if row, ok := f.Nodes.RowOf(node); ok {
			rows = append(rows, scorer.RowRef{Shard: row.Shard, Row: row.Index})
		}
	}
	slices.SortFunc(rows, scorer.RowRef.Compare)
	return rows
}

// wholeUnits are the pods that leave with others for preemptors of one pod group, or of none.
type wholeUnits struct {
	*Finder
	own *groups.Group
}

// unitsFor are the pods that leave with others for a pod; nil: all leave by themselves.
func (f *Finder) unitsFor(p *v1.Pod) scorer.Units {
	if !f.WholeGangs || f.Groups == nil {
		return nil
	}
	return wholeUnits{f, f.ownWhole(p)}
}

// ownWhole is a pod's own pod group, if that is whole; nil: it is not.
func (f *Finder) ownWhole(p *v1.Pod) *groups.Group {
	if g := f.Groups.Of(p); f.WholeGangs && g.Whole() {
		return g
	}
	return nil
}

// On is part of scorer.Units.
func (u wholeUnits) On(node string) bool { return u.Groups.WholeOn(node) }

// Of is part of scorer.Units.
func (u wholeUnits) Of(number uint64) *scorer.Unit {
	p, _ := u.Nodes.PodNumbered(number)
	if p == nil {
		return nil
	}
	return u.of(p)
}

// of is the unit of a pod; nil: it leaves by itself.
func (u wholeUnits) of(p *v1.Pod) *scorer.Unit {
	if !u.WholeGangs {
		return nil
	}
	g := u.Groups.Of(p)
	switch {
	case !g.Whole():
		return nil
	case g == u.own:
		return &scorer.Unit{Priority: math.MaxInt32} // no preemptor is above that
	}
	if known := u.wholes.units[g]; known != nil {
		return &known.Unit
	}
	return nil
}

// leavesBelow is the priority that a preemptor of u has to be above for a pod to leave.
func (u wholeUnits) leavesBelow(p *v1.Pod) int32 {
	if x := u.of(p); x != nil {
		return x.Priority
	}
	return compile.Priority(p)
}

// leftInPart are the pods that were to leave with those that are leaving a preemptor's node, and have not been told: a leader has ended
// meanwhile, or there was an error. Those made after that are none.
func (u wholeUnits) leftInPart(by *v1.Pod, node string) (rest []*v1.Pod) {
	if !u.WholeGangs {
		return nil
	}
	seen := map[*groups.Group]bool{}
	for p := range u.Nodes.PodsOn(node) {
		g, told := u.Groups.Of(p), toldToLeave(p)
		if told == nil || !g.Whole() || seen[g] || u.leavesBelow(p) >= priority(by) {
			continue
		}
		seen[g] = true
		for _, m := range g.Members() {
			if now, _, _ := u.Nodes.Pod(m.Pod.UID); now != nil && !m.Leaving && now.CreationTimestamp.Before(&told.LastTransitionTime) {
				rest = append(rest, now)
			}
		}
	}
	return rest
}

// complete adds to victims the pods that leave with them. Of pod groups that leave whole it leaves out those that are leaving already.
func (f *Finder) complete(victims []*v1.Pod) []*v1.Pod {
	if !f.WholeGangs {
		return victims
	}
	out, seen := make([]*v1.Pod, 0, len(victims)), map[types.NamespacedName]bool{}
	for _, v := range victims {
		g := f.Groups.Of(v)
		if !g.Whole() {
			out = append(out, v)
			continue
		}
		if seen[g.Name()] {
			continue
		}
		seen[g.Name()] = true
		for _, m := range g.Members() {
			if p, _, _ := f.Nodes.Pod(m.Pod.UID); p != nil && !m.Leaving {
				out = append(out, p)
			}
		}
	}
	return slices.Clip(out)
}
