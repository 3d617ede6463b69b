package shadow

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/shardsched/shardsched/coordinator/observe"
)

const (
	// maxGrave is how many disagreements are kept of the classes that speak against a take-over, each in a few hundred bytes, and
	// MaxDisagreements of the others. As many as that of each class keep their explanation, of maxExplanation bytes at the most.
	maxGrave       = 1000
	maxExplanation = 4 << 10
	// maxWorkloads is how many workloads are counted by themselves: those that come later are counted as one. told is the report's.
	maxWorkloads  = 10_000
	toldWorkloads = 20
)

// regretBounds are the upper ends of the histogram of regret. A plugin gives up to 100 points, times a weight of up to 100: what is more
// counts as the last.
var regretBounds = [...]int64{0, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 10_000, 100_000}

// Why decisions are not judged.
const (
	behind      = "judging fell behind"
	seenBound   = "on a node when first seen"
	wasLeaving  = "being deleted when it was decided"
	wentPending = "gone before it had a node"
	metError    = "our attempt ended in an error"
	amongOthers = "preempted while other pods did: at which state is not known"
)

// tally adds judgements up.
type tally struct {
	classes   map[Class]int
	notJudged map[string]int
	states    map[string]int
	regret    []RegretBin
	workloads map[workloadKey]*workload
	kept      map[Class][]Disagreement
	lookedAt  float64
	replaced  time.Time // when a disagreement took another's place last
}

type workloadKey struct{ kind, namespace, name string }

// workload adds the regret of a workload's pods up. highest is that of one pod.
type workload struct {
	WorkloadRegret
	highest int64
}

// others stands for the workloads that are not counted by themselves.
var others = workloadKey{kind: "others"}

func newTally() *tally {
	t := &tally{classes: map[Class]int{}, notJudged: map[string]int{}, states: map[string]int{}, workloads: map[workloadKey]*workload{},
		kept: map[Class][]Disagreement{}, lookedAt: 1}
	from := int64(0)
	for _, to := range regretBounds {
		t.regret = append(t.regret, RegretBin{From: from, To: to})
		from = to + 1
	}
	return t
}

// agree counts a decision that ours is, too. regret tells whether both have a node with a score.
func (t *tally) agree(p *v1.Pod, c Class, scored bool) {
	t.classes[c]++
	if scored {
		t.addRegret(p, 0)
	}
}

// disagree counts a decision that ours is not, and keeps it where there is room. explain is called where its explanation is kept.
func (t *tally) disagree(p *v1.Pod, d Disagreement, explain func() string) {
	t.classes[d.Class]++
	if d.Class == Lower {
		t.addRegret(p, d.Regret)
	}
	kind, name := observe.WorkloadOf(p)
	d.Namespace, d.Pod, d.Workload = p.Namespace, p.Name, kind+" "+name
	if !t.keeps(&d) {
		return
	}
	list := t.kept[d.Class]
	if len(list) == keptOf(d.Class) {
		least := leastOf(list)
		list, t.replaced = slices.Delete(list, least, least+1), d.When
	}
	if len(list) < MaxDisagreements {
		if d.Explanation = explain(); len(d.Explanation) > maxExplanation {
			d.Explanation = strings.ToValidUTF8(d.Explanation[:maxExplanation], "") + "…"
		}
	}
	t.kept[d.Class] = append(list, d)
}

// replaceEvery is how often a disagreement takes the place of one of lower regret: to explain one takes a look at each node, and where a
// cluster fills up there is one of higher regret all the time.
const replaceEvery = time.Second

// keeps tells whether a disagreement is kept: of lower scores those of the highest regret.
func (t *tally) keeps(d *Disagreement) bool {
	list := t.kept[d.Class]
	return len(list) < keptOf(d.Class) || d.Class == Lower && d.When.Sub(t.replaced) >= replaceEvery && list[leastOf(list)].Regret < d.Regret
}

// leastOf is the place of the lowest regret.
func leastOf(list []Disagreement) (least int) {
	for i := range list {
		if list[i].Regret < list[least].Regret {
			least = i
		}
	}
	return least
}

func keptOf(c Class) int {
	if c == Refused || c == OnlyTheirs {
		return maxGrave
	}
	return MaxDisagreements
}

// addRegret counts a choice of theirs that is so many points worse than the best.
func (t *tally) addRegret(p *v1.Pod, points int64) {
	for i := range t.regret {
		if points <= t.regret[i].To || i == len(t.regret)-1 {
			t.regret[i].Pods++
			break
		}
	}
	kind, name := observe.WorkloadOf(p)
	key := workloadKey{kind, p.Namespace, name}
	w := t.workloads[key]
	if w == nil && len(t.workloads) >= maxWorkloads {
		key = others
		w = t.workloads[key]
	}
	if w == nil {
		w = &workload{WorkloadRegret: WorkloadRegret{Kind: key.kind, Namespace: key.namespace, Name: key.name}}
		t.workloads[key] = w
	}
	w.Pods++
	if points > 0 {
		w.Lower++
		if w.Regret += points; points > w.highest {
			w.highest, w.Example = points, types.NamespacedName{Namespace: p.Namespace, Name: p.Name}.String()
		}
	}
}

// report is what all judgements come to.
func (t *tally) report() Agreement {
	a := Agreement{LookedAt: t.lookedAt, Classes: []ClassCount{}, Regret: slices.Clone(t.regret), Workloads: []WorkloadRegret{},
		Disagreements: []Disagreement{}, NotJudged: counted(t.notJudged), States: counted(t.states)}
	for _, c := range Classes() {
		a.Judged += t.classes[c]
		a.Classes = append(a.Classes, ClassCount{c, t.classes[c]})
	}
	for _, w := range t.workloads {
		if w.Regret > 0 {
			a.Workloads = append(a.Workloads, w.WorkloadRegret)
		}
	}
	slices.SortFunc(a.Workloads, func(x, y WorkloadRegret) int {
		return cmp.Or(cmp.Compare(y.Regret, x.Regret), cmp.Compare(x.Namespace, y.Namespace), cmp.Compare(x.Name, y.Name),
			cmp.Compare(x.Kind, y.Kind))
	})
	a.Workloads = a.Workloads[:min(len(a.Workloads), toldWorkloads)]
	for _, c := range []Class{Refused, OnlyTheirs, OnlyOurs, Victims, Lower} {
		list := slices.Clone(t.kept[c])
		slices.SortStableFunc(list, func(x, y Disagreement) int { return cmp.Compare(y.Regret, x.Regret) })
		a.Disagreements = append(a.Disagreements, list...)
	}
	return a
}

// counted lists counts, the highest first.
func counted(of map[string]int) []Count {
	out := []Count{}
	for _, what := range slices.Sorted(maps.Keys(of)) {
		out = append(out, Count{what, of[what]})
	}
	slices.SortStableFunc(out, func(x, y Count) int { return cmp.Compare(y.Pods, x.Pods) })
	return out
}

// disagreement begins one, of a pod's decision at a time.
func disagreement(c Class, at time.Time, theirs, ours, why string) Disagreement {
	return Disagreement{Class: c, When: at.UTC(), Theirs: theirs, Ours: ours, Why: why}
}
