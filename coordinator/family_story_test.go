package coordinator

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/shardsched/shardsched/coordinator/answers"
	"github.com/shardsched/shardsched/coordinator/objects"
	"github.com/shardsched/shardsched/coordinator/observe"
	"github.com/shardsched/shardsched/internal/testkit/build"
)

// twins are two schedulers that are told the same: one asks for every class by itself.
type twins struct {
	*history
	apart, together *trial
	kin             int // how many of a kind there are
	seen            int // decisions that were compared
}

// newTwins begins the history of a crowd of few kinds, each with some that differ in the label app alone.
func newTwins(t *rapid.T, cfg SchedulerConfig, claims bool) *twins {
	alone := cfg
	alone.answerLimits.Sharers = 1 << 30
	candidates := rapid.SampledFrom([]int{0, 0, 1, 3}).Draw(t, "candidates")
	r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 9))
	x := &twins{apart: newTrial(t, alone, candidates), together: newTrial(t, cfg, candidates), kin: 2 + r.IntN(4)}
	x.history = &history{Rand: r, x: x.together, nodes: map[string]*v1.Node{}, pods: map[types.UID]*v1.Pod{}}
	x.coming = build.Crowd(r, build.CrowdSize{
		Nodes: 2 + r.IntN(14), Present: 15, Pending: 100, Kinds: 1 + r.IntN(3), Claims: claims, Nominated: []int{0, 0, 8}[r.IntN(3)],
	})
	for _, list := range [][]*v1.Pod{x.coming.Present, x.coming.Pending} {
		for _, p := range list {
			x.rename(p)
			if r.IntN(30) == 0 {
				p.Spec.Priority = new(int32)
				*p.Spec.Priority = 20
			}
		}
	}
	for _, obj := range x.coming.Others {
		if r.IntN(8) > 0 {
			x.other(objects.Added, obj)
		}
	}
	for range 2 + r.IntN(3) {
		x.node(objects.Added, x.coming.Nodes[0])
		x.coming.Nodes = x.coming.Nodes[1:]
		if len(x.coming.Nodes) == 0 {
			break
		}
	}
	return x
}

// rename makes a pod another of its kind.
func (x *twins) rename(p *v1.Pod) {
	of := fmt.Sprint("-", x.IntN(x.kin))
	if app, has := p.Labels["app"]; has {
		p.Labels["app"] = app + of
	}
	selector := func(s *metav1.LabelSelector) {
		if s == nil {
			return
		}
		for key, value := range s.MatchLabels {
			if key == "app" {
				s.MatchLabels[key] = value + of
			}
		}
		for i := range s.MatchExpressions {
			if e := &s.MatchExpressions[i]; e.Key == "app" {
				for k := range e.Values {
					e.Values[k] += of
				}
			}
		}
	}
	p.Spec.Affinity, p.Spec.TopologySpreadConstraints = p.Spec.Affinity.DeepCopy(), slices.Clone(p.Spec.TopologySpreadConstraints)
	for i := range p.Spec.TopologySpreadConstraints {
		c := &p.Spec.TopologySpreadConstraints[i]
		if c.LabelSelector = c.LabelSelector.DeepCopy(); x.IntN(6) == 0 {
			c.LabelSelector, c.MatchLabelKeys = nil, nil
		}
		selector(c.LabelSelector)
	}
	if a := p.Spec.Affinity; a != nil {
		terms := func(required []v1.PodAffinityTerm, preferred []v1.WeightedPodAffinityTerm) {
			for i := range required {
				selector(required[i].LabelSelector)
			}
			for i := range preferred {
				selector(preferred[i].PodAffinityTerm.LabelSelector)
			}
		}
		if a := a.PodAffinity; a != nil {
			terms(a.RequiredDuringSchedulingIgnoredDuringExecution, a.PreferredDuringSchedulingIgnoredDuringExecution)
		}
		if a := a.PodAntiAffinity; a != nil {
			terms(a.RequiredDuringSchedulingIgnoredDuringExecution, a.PreferredDuringSchedulingIgnoredDuringExecution)
		}
	}
}

// goOn tells both what has happened, and compares what they decide.
func (x *twins) goOn(t *rapid.T, at int) {
	x.together.lines, x.apart.lines = nil, nil
	for from := 0; from < len(x.queued); from += at {
		x.apart.Deliver(slices.Clone(x.queued[from:min(from+at, len(x.queued))]))
	}
	x.apart.turn(t)
	x.deliver(t, at)
	want, got := x.apart.decided(t), x.together.decided(t)
	if d := cmp.Diff(want, got); d != "" {
		t.Fatalf("decisions (-by themselves +by families):\n%s", d)
	}
	x.seen += len(got)
	for _, d := range got {
		pastA, pastB := x.apart.history.Past(types.UID(d.UID)), x.together.history.Past(types.UID(d.UID))
		if len(pastA) == 0 || len(pastB) == 0 || pastA[0].Decision.Seq != pastB[0].Decision.Seq || len(pastA[0].Top) == 0 || len(pastB[0].Top) == 0 {
			continue
		}
		// How far they tell depends on how many candidates the workers have named.
		a, b := pastA[0], pastB[0]
		n := min(len(a.Top), len(b.Top))
		if d := cmp.Diff(a.Top[:n], b.Top[:n], protocmp.Transform()); d != "" {
			t.Fatalf("the best nodes of decision %d (-by itself +by its family):\n%s", b.Decision.Seq, d)
		}
	}
}

// step does one thing that may matter to families.
func (x *twins) step(t *rapid.T) {
	switch p := x.somePod(); x.IntN(12) {
	case 0:
		sweeps := x.IntN(2) * 12
		for _, s := range []*trial{x.apart, x.together} {
			for range sweeps {
				s.state.Sweep()
				if err := s.state.FillSome(func() bool { return false }); err != nil {
					t.Fatal(err)
				}
			}
		}
	case 1:
		if p != nil && len(p.Labels) > 0 {
			p.Labels["app"] = fmt.Sprintf("%s-%d", []string{"a", "b", "c"}[x.IntN(3)], x.IntN(x.kin))
			x.pod(objects.Modified, p)
		}
	case 2, 3, 4, 5:
		if list := x.coming.Pending; len(list) > 0 {
			x.pod(objects.Added, list[0])
			x.coming.Pending = list[1:]
		}
	default:
		x.happen()
	}
}

// Whatever happens to nodes, pods, counters and namespaces, and whatever has to be begun anew.
func TestFamiliesDecideAsTheirClassesWhateverHappens(t *testing.T) {
	for name, limits := range map[string]answers.Limits{
		"as they are": {},
		"with small limits": {
			Bases: 2, Views: 5, SharedRows: 12, AllOwnRows: 24, AllSharedRows: 20, OwnRows: 3, OwnShare: 4,
			CountedClasses: 4, DirtyRows: 3, Moves: 4, PassedRows: 8, SweptRows: 1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			decided, shared := 0, 0
			rapid.Check(t, func(t *rapid.T) {
				cfg := SchedulerConfig{Shards: rapid.IntRange(1, 3).Draw(t, "shards"), BatchSize: rapid.SampledFrom([]int{1, 4, 64}).Draw(t, "batch"), answerLimits: limits}
				if rapid.Bool().Draw(t, "preempting") {
					cfg.Profiles = withPreemption()
				}
				x := newTwins(t, cfg, rapid.Bool().Draw(t, "claims"))
				defer x.apart.fanout.Close()
				defer x.together.fanout.Close()
				for range 14 {
					for range 1 + x.IntN(14) {
						x.step(t)
					}
					x.goOn(t, []int{1, 3, 100}[x.IntN(3)])
					shared += x.together.answers.Kept().Views
				}
				decided += x.seen
			})
			if decided < 1000 || shared < 100 {
				t.Errorf("%d decisions, %d times a class had a family", decided, shared)
			}
		})
	}
}

// turned are the decisions of a scheduler that is told of some nodes, and then of events, turn by turn.
func turned(t *testing.T, size int, nodes []*v1.Node, turns ...[]objects.Event) []observe.DecisionLine {
	s := newTrial(t, SchedulerConfig{Shards: 2, BatchSize: 8, answerLimits: answers.Limits{Sharers: size}}, 0)
	defer s.fanout.Close()
	s.Load(&objects.Snapshot{Nodes: nodes}, nil)
	for _, events := range turns {
		s.Deliver(events)
		s.turn(t)
	}
	return s.decided(t)
}

// A class that counts nothing asks for what its base asks for, and what is found for its pods alone must not
// be taken for the family's: here a nominee keeps a node from them.
func TestAClassThatCountsNothingIsNotItsBase(t *testing.T) {
	var nodes []*v1.Node
	for i := range 4 {
		nodes = append(nodes, build.Node(fmt.Sprint("n", i)).CPU("4").Memory("8Gi").Label(v1.LabelHostname, fmt.Sprint("n", i)).Obj())
	}
	soft := build.Soft(v1.LabelHostname, 1, "app=a")
	nothing := soft
	nothing.LabelSelector = nil
	large := build.Pod("large").UID("large").CPU("64").Priority(10).Nominated("n1").Obj()
	turns := [][]objects.Event{
		{podCame(large)},
		{podCame(build.Pod("counts-nothing").UID("counts-nothing").CPU("1").Spread(nothing).Obj())},
		{{Type: objects.Deleted, Kind: objects.KindPod, Pod: large}},
		{podCame(build.Pod("a").UID("a").Label("app", "a").CPU("1").Spread(soft).Obj())},
	}
	apart, together := turned(t, 1<<30, nodes, turns...), turned(t, 2, nodes, turns...)
	if d := cmp.Diff(apart, together); d != "" || len(apart) != 3 || apart[1].Feasible != 3 || apart[2].Feasible != 4 {
		t.Errorf("got %v\ndecisions (-by themselves +by families):\n%s", apart, d)
	}
}

// An answer that lives for ever keeps no more for it, whatever its classes do.
func TestWhatAFamilyKeepsIsBounded(t *testing.T) {
	limits := answers.Limits{Moves: 16, Views: 1}
	apps := []string{"a", "b", "c"}
	load := &objects.Snapshot{}
	for i := range 5 {
		load.Nodes = append(load.Nodes, build.Node(fmt.Sprint("n", i)).CPU("1").Memory("8Gi").Label(v1.LabelHostname, fmt.Sprint("n", i)).Obj())
	}
	for _, app := range apps { // nothing more comes to that node, nor leaves it
		load.Pods = append(load.Pods, build.Pod("there-"+app).UID("there-"+app).Label("app", app).CPU("300m").Node("n0").Obj())
	}
	s := newTrial(t, SchedulerConfig{Shards: 2, BatchSize: 8, answerLimits: limits}, 0)
	defer s.fanout.Close()
	s.Load(load, nil)
	for turn := range 200 {
		var come, leave []objects.Event
		for _, app := range apps {
			name := fmt.Sprint(app, turn)
			p := build.Pod(name).UID(name).Label("app", app).CPU("1").Spread(build.Soft(v1.LabelHostname, 1, "app="+app)).Obj()
			come = append(come, podCame(p))
			leave = append(leave, objects.Event{Type: objects.Deleted, Kind: objects.KindPod, Pod: p})
		}
		s.Deliver(come)
		s.turn(t)
		s.Deliver(leave)
		s.turn(t)
	}
	if s.asked > 2*len(apps) {
		t.Fatalf("%d classes were asked for: the answer did not live", s.asked)
	}
	if kept := s.answers.Kept().ForViews; kept > 2*limits.Moves+20*len(load.Nodes) {
		t.Errorf("the answers keep %d moves and owners", kept)
	}
}

// Many families, each of which has seen all rows change, keep no more rows than all may.
func TestWhatAllFamiliesKeepIsBounded(t *testing.T) {
	const nodes, families, most = 6, 5, 13
	load := &objects.Snapshot{}
	for i := range nodes {
		load.Nodes = append(load.Nodes, build.Node(fmt.Sprint("n", i)).CPU("64").Memory("8Gi").Label(v1.LabelHostname, fmt.Sprint("n", i)).Obj())
	}
	s := newTrial(t, SchedulerConfig{Shards: 2, BatchSize: 8, answerLimits: answers.Limits{AllSharedRows: most}}, 0)
	defer s.fanout.Close()
	s.Load(load, nil)
	reached := 0
	for turn := range 40 {
		for family := range families {
			app := []string{"a", "b"}[turn%2]
			name := fmt.Sprint("p", turn, "-", family)
			s.Deliver([]objects.Event{podCame(build.Pod(name).UID(name).Label("app", app).CPU(fmt.Sprint(family+1, "00m")).
				Spread(build.Soft(v1.LabelHostname, 1, "app="+app)).Obj())})
			s.turn(t)
			// A batch begins with as many as all may have, and the answers that it uses repair all rows at the most.
			if rows := s.answers.Kept().SharedRows; rows > most+nodes {
				t.Fatalf("turn %d: shared answers keep %d rows, want %d at the most", turn, rows, most+nodes)
			} else if rows > most {
				reached++
			}
		}
	}
	if reached == 0 {
		t.Error("the bound was not reached")
	}
}

// A class whose pods come and go all over the cluster has few rows of its own at any time.
func TestAClassThatRoamsStaysInItsFamily(t *testing.T) {
	limits := answers.Limits{OwnRows: 2, OwnShare: 1 << 20}
	load := &objects.Snapshot{}
	for i := range 20 {
		load.Nodes = append(load.Nodes, build.Node(fmt.Sprint("n", i)).CPU("1").Memory("8Gi").Label(v1.LabelHostname, fmt.Sprint("n", i)).Obj())
	}
	s := newTrial(t, SchedulerConfig{Shards: 2, BatchSize: 8, answerLimits: limits}, 0)
	defer s.fanout.Close()
	s.Load(load, nil)
	nodes := map[string]bool{}
	for turn := range 60 {
		name := fmt.Sprint("p", turn)
		app := []string{"a", "b"}[turn%2]
		p := build.Pod(name).UID(name).Label("app", app).CPU("1").Spread(build.Soft(v1.LabelHostname, 1, "app="+app)).Obj()
		s.Deliver([]objects.Event{podCame(p)})
		s.turn(t)
		_, node, _ := s.state.Pod(p.UID)
		nodes[node] = true
		s.Deliver([]objects.Event{{Type: objects.Deleted, Kind: objects.KindPod, Pod: p}})
	}
	if left := s.answers.Kept().Left; len(nodes) < 10 || left > 0 {
		t.Errorf("%d classes are asked by themselves, whose pods were on %d nodes", left, len(nodes))
	}
}

// A class whose pods are on most nodes is asked by itself, from its first pod on, and its answer is held: nothing is asked for in vain.
func TestAClassThatIsEverywhereIsAskedAlone(t *testing.T) {
	limits := answers.Limits{OwnRows: 2, OwnShare: 1 << 20}
	apps := []string{"a", "b", "c", "d", "e"}
	load := &objects.Snapshot{}
	for i := range 20 {
		node := fmt.Sprint("n", i)
		load.Nodes = append(load.Nodes, build.Node(node).CPU("64").Memory("8Gi").Label(v1.LabelHostname, node).Obj())
		for _, app := range apps {
			name := fmt.Sprint(app, "-", i)
			load.Pods = append(load.Pods, build.Pod(name).UID(name).Label("app", app).CPU("1").Node(node).Obj())
		}
	}
	s := newTrial(t, SchedulerConfig{Shards: 2, BatchSize: 8, answerLimits: limits}, 0)
	defer s.fanout.Close()
	s.Load(load, nil)
	for turn := range 3 * len(apps) {
		name, app := fmt.Sprint("p", turn), apps[turn%len(apps)]
		s.Deliver([]objects.Event{podCame(build.Pod(name).UID(name).Label("app", app).CPU("1").Spread(build.Soft(v1.LabelHostname, 1, "app="+app)).Obj())})
		s.turn(t)
	}
	if s.asked != len(apps) {
		t.Errorf("%d classes were asked for, want each of the %d once", s.asked, len(apps))
	}
}

// What upstream can not score is not decided by a family either.
func TestAClassThatCanNotBeScoredIsNotShared(t *testing.T) {
	var nodes []*v1.Node
	for i := range 3 {
		nodes = append(nodes, build.Node(fmt.Sprint("n", i)).CPU("4").Memory("8Gi").Label(v1.LabelHostname, fmt.Sprint("n", i)).Obj())
	}
	var turns [][]objects.Event
	for _, app := range []string{"a", "b", "a", "b"} {
		name := fmt.Sprint(app, len(turns))
		unreadable := build.Soft(v1.LabelHostname, 1, "")
		unreadable.LabelSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "app", Operator: "In"}}}
		turns = append(turns, []objects.Event{podCame(build.Pod(name).UID(name).Label("app", app).CPU("1").Spread(build.Hard(v1.LabelHostname, 1, "app="+app), unreadable).Obj())})
	}
	apart, together := turned(t, 1<<30, nodes, turns...), turned(t, 2, nodes, turns...)
	if d := cmp.Diff(apart, together); d != "" || len(apart) != 4 || apart[3].Node != "" {
		t.Errorf("got %v\ndecisions (-by themselves +by families):\n%s", apart, d)
	}
}
