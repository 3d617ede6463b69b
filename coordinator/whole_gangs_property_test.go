package coordinator

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/shardsched/shardsched/coordinator/fanout"
	"github.com/shardsched/shardsched/coordinator/groups"
	"github.com/shardsched/shardsched/coordinator/objects"
	"github.com/shardsched/shardsched/internal/testkit/build"
)

// wholePlay is a random cluster with whole gangs, and preemptors among changes of it: one seed, one story, whatever the scheduler is made of.
type wholePlay struct {
	t       *rapid.T
	r       *rand.Rand
	x       *trial
	evictor *fakeEvictor
	pods    map[string]*modelPod
	gangs   map[string]*modelGang
	allowed map[string]int32
	nodes   int
	named   int
	lines   []string // the decisions
	seen    *wholeSeen
}

type modelPod struct {
	name, node, gang, app string
	cpu                   int // tenths
	priority              int32
	start                 int64 // seconds before the epoch; 0: not started
	leaving               bool
}

type modelGang struct {
	priority int32
	whole    bool
}

// wholeSeen counts what has come of preemptors.
type wholeSeen struct{ none, singles, wholes, free, kept int }

func (s *wholePlay) pick(n int) int { return s.r.IntN(n) }

func (s *wholePlay) object(p *modelPod) *v1.Pod {
	b := build.Pod(p.name).UID(p.name).CPU(fmt.Sprint(p.cpu*100, "m")).Priority(p.priority).Node(p.node)
	if p.gang != "" {
		b.Member(p.gang)
	}
	if p.app != "" {
		b.Label("app", p.app)
	}
	out := b.Obj()
	if p.start > 0 {
		out.Status.StartTime = &metav1.Time{Time: epoch.Add(-time.Duration(p.start) * time.Second)}
	}
	if p.leaving {
		out.DeletionTimestamp = &metav1.Time{Time: epoch}
	}
	return out
}

func (s *wholePlay) tell(t objects.EventType, p *modelPod) {
	s.x.event(&objects.Event{Type: t, Kind: objects.KindPod, Pod: s.object(p)})
}

func (s *wholePlay) addPod() {
	s.named++
	p := &modelPod{
		name: fmt.Sprint("x", s.named), node: fmt.Sprint("n", s.pick(s.nodes)), cpu: s.pick(20),
		priority: []int32{0, 0, 5, 20}[s.pick(4)], start: int64(s.pick(3) * 100), app: []string{"", "", "a", "b"}[s.pick(4)],
	}
	if s.pick(2) == 0 {
		p.gang = fmt.Sprint("g", s.pick(4))
	}
	s.pods[p.name] = p
	s.tell(objects.Added, p)
}

func (s *wholePlay) setGang(name string) {
	g := &modelGang{priority: []int32{0, 5, 15, 30}[s.pick(4)], whole: s.pick(5) > 0}
	s.gangs[name] = g
	b := build.PodGroup(name).Priority(g.priority)
	if g.whole {
		b.Whole()
	}
	s.x.groups.Set(b.Obj())
}

func (s *wholePlay) setBudget(app string) {
	b := &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: app}, Spec: policyv1.PodDisruptionBudgetSpec{Selector: build.Selector("app=" + app)},
	}
	_, known := s.allowed[app]
	s.allowed[app] = int32(s.pick(4))
	b.Status.DisruptionsAllowed = s.allowed[app]
	e := &objects.Event{Type: objects.Added, Kind: objects.KindPodDisruptionBudget, Object: b}
	if known {
		e.Type = objects.Modified
	}
	s.x.event(e)
}

// anyPod is a pod on a node; nil: there is none.
func (s *wholePlay) anyPod() *modelPod {
	names := slices.Sorted(maps.Keys(s.pods))
	if len(names) == 0 {
		return nil
	}
	return s.pods[names[s.pick(len(names))]]
}

// change changes something.
func (s *wholePlay) change() {
	switch s.pick(8) {
	case 0, 1:
		s.addPod()
	case 2, 3:
		if p := s.anyPod(); p != nil {
			delete(s.pods, p.name)
			s.tell(objects.Deleted, p)
		}
	case 4:
		s.setGang(fmt.Sprint("g", s.pick(4)))
	case 5:
		name := fmt.Sprint("g", s.pick(4))
		delete(s.gangs, name)
		s.x.groups.Remove(types.NamespacedName{Namespace: "default", Name: name})
	case 6:
		s.setBudget([]string{"a", "b"}[s.pick(2)])
	case 7:
		if p := s.anyPod(); p != nil {
			if p.start = 100 + int64(s.pick(3)*100); s.pick(2) == 0 {
				p.leaving = true
			}
			s.tell(objects.Modified, p)
		}
	}
}

// modelUnit is what leaves as one.
type modelUnit struct {
	here, all []*modelPod // all: those that do not leave anyway
	priority  int32
	start     int64 // before the epoch: the larger, the earlier
	violating bool
}

// wholeCost is what a candidate costs, and who leaves.
type wholeCost struct {
	violations, pods int
	top, sum         int64
	start            int64
	victims          string
}

func (c wholeCost) compare(o wholeCost) int {
	return cmp.Or(cmp.Compare(c.violations, o.violations), cmp.Compare(c.top, o.top), cmp.Compare(c.sum, o.sum),
		cmp.Compare(c.pods, o.pods), cmp.Compare(c.start, o.start))
}

// isWhole tells whether a pod leaves with its gang.
func (s *wholePlay) isWhole(p *modelPod) bool {
	g := s.gangs[p.gang]
	return s.x.cfg.WholeGangs && g != nil && g.whole
}

// try is the naive rule for a node; nil: it is no candidate.
func (s *wholePlay) try(node string, cpu int, priority int32) *wholeCost {
	var units []*modelUnit
	byGang := map[string]*modelUnit{}
	free := 40 - cpu
	for _, name := range slices.SortedFunc(maps.Keys(s.pods), func(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b)) }) {
		p := s.pods[name]
		if p.node == node {
			free -= p.cpu
		}
		u := &modelUnit{priority: p.priority}
		if s.isWhole(p) {
			if u = byGang[p.gang]; u == nil {
				u = &modelUnit{priority: s.gangs[p.gang].priority}
				byGang[p.gang] = u
			}
		}
		if p.node == node {
			if u.here = append(u.here, p); len(u.here) == 1 {
				units = append(units, u)
			}
		}
		if !s.isWhole(p) || !p.leaving {
			u.all = append(u.all, p)
		}
		u.start = max(u.start, p.start)
	}
	units = slices.DeleteFunc(units, func(u *modelUnit) bool { return u.priority >= priority })
	taken := 0
	for _, u := range units {
		for _, p := range u.here {
			free += p.cpu
			taken++
		}
	}
	if taken == 0 || free < 0 {
		return nil
	}
	slices.SortStableFunc(units, func(a, b *modelUnit) int {
		return cmp.Or(-cmp.Compare(a.priority, b.priority), -cmp.Compare(len(a.all), len(b.all)), -cmp.Compare(a.start, b.start))
	})
	left := map[string]int32{"a": s.allowed["a"], "b": s.allowed["b"]}
	for _, u := range units {
		for _, p := range u.all {
			if _, counted := s.allowed[p.app]; counted {
				left[p.app]--
				u.violating = u.violating || left[p.app] < 0
			}
		}
	}
	out := &wholeCost{top: math.MinInt32, start: -1}
	var victims []string
	gone := map[*modelUnit]bool{}
	for _, violating := range []bool{true, false} {
		for _, u := range units {
			if u.violating != violating {
				continue
			}
			need := 0
			for _, p := range u.here {
				need += p.cpu
			}
			if need <= free {
				free -= need
				continue
			}
			gone[u] = true
		}
	}
	for _, u := range units {
		if !gone[u] {
			continue
		}
		for _, p := range u.all {
			victims = append(victims, p.name)
		}
		n := len(u.all)
		if n == 0 {
			continue
		}
		if u.violating {
			out.violations += n
		}
		if out.top == math.MinInt32 {
			out.top = int64(u.priority)
		}
		if int64(u.priority) == out.top {
			out.start = max(out.start, u.start)
		}
		out.sum += int64(n) * (int64(u.priority) + 1<<31)
		out.pods += n
	}
	if len(gone) == 0 {
		return nil
	}
	slices.Sort(victims)
	out.victims = strings.Join(victims, " ")
	return out
}

// preempt has a pod come that no node takes, and holds its decision against the naive rule.
func (s *wholePlay) preempt() {
	cpu, priority := 20+10*s.pick(3), []int32{10, 25}[s.pick(2)]
	var best *wholeCost
	byNode := map[string]*wholeCost{}
	for i := range s.nodes {
		node, free := fmt.Sprint("n", i), 40-cpu
		for _, p := range s.pods {
			if p.node == node {
				free -= p.cpu
			}
		}
		if free >= 0 {
			return // it would be placed
		}
		if c := s.try(node, cpu, priority); c != nil {
			if byNode[node] = c; best == nil || c.compare(*best) < 0 {
				best = c
			}
		}
	}
	s.named++
	p := build.Pod(fmt.Sprint("p", s.named)).UID(fmt.Sprint("p", s.named)).CPU(fmt.Sprint(cpu*100, "m")).Priority(priority).Obj()
	s.x.event(&objects.Event{Type: objects.Added, Kind: objects.KindPod, Pod: p})
	from := len(s.x.lines)
	before := s.x.counter("shardsched_preemption_dry_runs_total")
	s.x.turn(s.t)
	if s.x.counter("shardsched_preemption_dry_runs_total") == before {
		s.seen.kept++
	}
	lines := s.x.decided(s.t)[from:]
	if len(lines) != 1 {
		s.t.Fatalf("got %d decisions, want one", len(lines))
	}
	d := lines[0]
	victims := make([]string, len(d.Victims))
	for i, v := range d.Victims {
		victims[i] = strings.TrimPrefix(v, "default/")
	}
	slices.Sort(victims)
	got := strings.Join(victims, " ")
	s.lines = append(s.lines, d.Nominated+": "+got)
	switch c := byNode[d.Nominated]; {
	case best == nil && d.Nominated != "":
		s.t.Fatalf("nominated to %s, want nobody to leave", d.Nominated)
	case best == nil:
		s.seen.none++
	case c == nil || c.compare(*best) != 0:
		s.t.Fatalf("nominated to %q (%s): costs %+v, want %+v", d.Nominated, d.Message, c, *best)
	case got != c.victims:
		s.t.Fatalf("on %s: got victims %q, want %q", d.Nominated, got, c.victims)
	case got == "":
		s.seen.free++
	default:
		s.left(victims)
	}
	s.x.event(&objects.Event{Type: objects.Deleted, Kind: objects.KindPod, Pod: p})
	for _, done := range s.evictor.done {
		done(nil)
	}
	s.evictor.told, s.evictor.done = nil, nil
	s.x.turn(s.t)
}

// left takes in that pods have been told to leave: of each whole gang all, and some are gone at once.
func (s *wholePlay) left(victims []string) {
	told, wholes := map[string]bool{}, map[string]bool{}
	for _, e := range s.evictor.told {
		for _, v := range e.Victims {
			told[v.Name] = true
		}
	}
	for _, name := range victims {
		p := s.pods[name]
		if !told[name] && !p.leaving {
			s.t.Fatalf("%s is a victim, and nobody has told it to leave", name)
		}
		if s.isWhole(p) {
			wholes[p.gang] = true
			p.leaving = true
		}
	}
	s.seen.singles += len(victims)
	s.seen.wholes += len(wholes)
	for _, p := range s.pods {
		if wholes[p.gang] && !p.leaving {
			s.t.Fatalf("%s stays, and its gang %s leaves", p.name, p.gang)
		}
	}
	for _, name := range victims {
		if p := s.pods[name]; s.pick(2) == 0 || !s.isWhole(p) {
			delete(s.pods, name)
			s.tell(objects.Deleted, p)
		}
	}
}

// play plays the story of a seed.
func (s *wholePlay) play(seed uint64) []string {
	s.r = rand.New(rand.NewPCG(seed, 7))
	s.pods, s.gangs, s.allowed = map[string]*modelPod{}, map[string]*modelGang{}, map[string]int32{}
	s.nodes = 1 + s.pick(7)
	all := &objects.Snapshot{}
	for i := range s.nodes {
		all.Nodes = append(all.Nodes, nodesOf("4", fmt.Sprint("n", i))...)
	}
	s.x.Load(all, nil)
	for i := range 4 {
		s.setGang(fmt.Sprint("g", i))
	}
	for range 5 * s.nodes {
		s.addPod()
	}
	for range 40 {
		for range s.pick(3) {
			s.change()
		}
		s.preempt()
	}
	return s.lines
}

// With the flag, whoever preempts, decisions are those of the naive rule over all nodes, however the nodes are dealt and whoever looks at
// them. Without it, they are those of a scheduler that knows nothing of PodGroups.
func TestWholeGangsAsByTheNaiveRule(t *testing.T) {
	var seen wholeSeen
	synctest.Test(t, func(t *testing.T) {
		rapid.Check(bubble{t}, func(t *rapid.T) {
			seed := rapid.Uint64().Draw(t, "story")
			config := func(shards int, on, workload bool) SchedulerConfig {
				return SchedulerConfig{
					Shards: shards, Profiles: withPreemption(), Groups: groups.Gates{Workload: workload}, WholeGangs: on, Evictor: &fakeEvictor{},
					DisruptionController: true, MaxBackoff: -1,
				}
			}
			run := func(cfg SchedulerConfig, workers ...int) []string {
				var x *trial
				if len(workers) > 0 {
					x, _ = newLyingTrial(t, cfg, fanout.Config{Replicas: 1}, 1, workers...)
				} else {
					x = newTrial(t, cfg, 0)
				}
				defer x.fanout.Close()
				return (&wholePlay{t: t, x: x, evictor: cfg.Evictor.(*fakeEvictor), seen: &seen}).play(seed)
			}
			want := run(config(1, true, true))
			for name, got := range map[string][]string{
				"three shards": run(config(3, true, true)), "five shards, two workers": run(config(5, true, true), 0, 0),
			} {
				if !slices.Equal(got, want) {
					t.Fatalf("%s: got %q, want %q", name, got, want)
				}
			}
			if off, none := run(config(2, false, true)), run(config(2, false, false)); !slices.Equal(off, none) {
				t.Fatalf("off: got %q, want %q", off, none)
			}
		})
	})
	if seen.none == 0 || seen.singles == 0 || seen.wholes == 0 || seen.free == 0 || seen.kept == 0 {
		t.Errorf("got %+v, want some of all", seen)
	}
	t.Logf("%+v", seen)
}
