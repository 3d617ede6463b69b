package coordinator

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/shardsched/shardsched/coordinator/objects"
	"github.com/shardsched/shardsched/internal/testkit/build"
)

// outsiders nominate, bind and end pods, and change nodes, while a scheduler holds answers. What decides one by one is told the same,
// and holds none.
type outsiders struct {
	*rand.Rand
	t     *testing.T
	x     *trial
	o     *oneByOne
	nodes []*v1.Node
	kinds []*v1.Pod // a pod that comes is a copy of one
	came  int
	// waiting and placed are the pods, in the order in which they came there.
	waiting, placed []*v1.Pod
}

func (w *outsiders) load(s scene) {
	w.nodes, w.kinds, w.placed = slices.Clone(s.nodes), s.pending, slices.Clone(s.present)
	w.o = newOneByOne(w.t, s.nodes, s.present, s.others...)
	s.pending = nil
	w.x.Load(s.load(), nil)
}

func (w *outsiders) tell(what objects.EventType, p *v1.Pod) {
	w.x.event(&objects.Event{Type: what, Kind: objects.KindPod, Pod: p})
}

// anywhere names a node, or now and then one that is not there.
func (w *outsiders) anywhere() string {
	if w.IntN(10) == 0 {
		return "gone"
	}
	return w.nodes[w.IntN(len(w.nodes))].Name
}

// maybe names a node, most often none.
func (w *outsiders) maybe() string {
	if w.IntN(3) > 0 {
		return ""
	}
	return w.anywhere()
}

// set replaces a pod that waits, or adds it.
func (w *outsiders) set(p *v1.Pod) {
	what := objects.Modified
	i := slices.IndexFunc(w.waiting, func(other *v1.Pod) bool { return other.UID == p.UID })
	if i < 0 {
		what, i, w.waiting = objects.Added, len(w.waiting), append(w.waiting, p)
	}
	w.waiting[i] = p
	delete(w.o.nominated, p.UID)
	if p.DeletionTimestamp == nil {
		w.o.nominate([]*v1.Pod{p})
	}
	w.tell(what, p)
}

// forget has a pod wait no longer.
func (w *outsiders) forget(p *v1.Pod) {
	delete(w.o.nominated, p.UID)
	w.waiting = slices.DeleteFunc(w.waiting, func(other *v1.Pod) bool { return other.UID == p.UID })
}

// sits takes in that a pod is on a node.
func (w *outsiders) sits(p *v1.Pod) {
	w.forget(p)
	w.placed = append(w.placed, p)
}

// step does one thing.
func (w *outsiders) step() {
	what := w.IntN(13)
	if len(w.waiting) == 0 || what < 2 {
		p := copyOf(w.kinds[w.IntN(len(w.kinds))], w.came)
		w.came++
		p.Status.NominatedNodeName = w.maybe()
		w.set(p)
		return
	}
	p := w.waiting[w.IntN(len(w.waiting))].DeepCopy()
	switch {
	case what < 6:
		p.Status.NominatedNodeName = w.anywhere()
		w.set(p)
	case what == 6:
		p.Status.NominatedNodeName = ""
		w.set(p)
	case what == 7:
		w.forget(p)
		w.tell(objects.Deleted, p)
	case what == 8:
		if p.Spec.NodeName = p.Status.NominatedNodeName; w.x.state.Node(p.Spec.NodeName) == nil || w.IntN(3) == 0 {
			p.Spec.NodeName = w.nodes[w.IntN(len(w.nodes))].Name
		}
		w.o.must(w.o.state.SetPod(p))
		w.sits(p)
		w.tell(objects.Modified, p)
	case what == 9:
		p.DeletionTimestamp = &metav1.Time{Time: epoch}
		w.set(p)
	case what == 10 && len(w.placed) > 0:
		w.leave()
	case what == 11:
		w.changeNode()
	default:
		p.Labels = map[string]string{"app": []string{"a", "b", "c"}[w.IntN(3)]}
		w.set(p)
	}
}

// leave has a pod leave its node; every second one waits again, as if it had not been bound.
func (w *outsiders) leave() {
	i := w.IntN(len(w.placed))
	p := w.placed[i].DeepCopy()
	w.placed = slices.Delete(w.placed, i, i+1)
	_, _, err := w.o.state.RemovePod(p)
	w.o.must(nil, err)
	w.tell(objects.Deleted, p)
	if w.IntN(2) == 0 {
		p.Spec.NodeName = ""
		w.set(p)
	}
}

// changeNode changes a node, or has it go for a moment.
func (w *outsiders) changeNode() {
	i := w.IntN(len(w.nodes))
	n := w.nodes[i].DeepCopy()
	switch w.IntN(3) {
	case 0:
		w.o.must(w.o.state.RemoveNode(n))
		w.x.event(&objects.Event{Type: objects.Deleted, Kind: objects.KindNode, Node: n})
	case 1:
		n.Spec.Unschedulable = !n.Spec.Unschedulable
	default:
		n.Labels = map[string]string{v1.LabelHostname: n.Name, v1.LabelTopologyZone: []string{"z0", "z1", "z2"}[w.IntN(3)]}
	}
	w.nodes[i] = n
	w.o.must(w.o.state.SetNode(n))
	w.x.event(&objects.Event{Type: objects.Modified, Kind: objects.KindNode, Node: n})
}

// judge holds a judgement, and tells what the pod has found.
func (w *outsiders) judge(p *v1.Pod) string {
	class, err := w.o.compile(p)
	if err != nil || class.Rejected != nil || class.ScoreError != nil {
		return "nothing to judge"
	}
	kept := w.o.keptFrom(p)
	class, err = w.o.compile(p)
	w.o.must(nil, err)
	want, node := w.o.look(class, kept, func(uint32) bool { return true }), w.anywhere()
	got, err := w.x.judge(quiet(), p.UID, node, false)
	if err != nil {
		w.t.Fatal(err)
	}
	if c, passes := want.all[node]; got.Passes != passes || got.NodeScore != c.Score {
		w.t.Fatalf("pod %s on node %s: got %+v, want %v with %d", p.Name, node, got, passes, c.Score)
	}
	feasible, score, found := want.feasible, want.best.Score, "a node"
	own, takes := want.all[p.Status.NominatedNodeName]
	if row, ok := w.o.state.RowOf(p.Status.NominatedNodeName); ok {
		takes = w.o.look(class, kept, func(r uint32) bool { return r == row.Index }).feasible > 0
	}
	switch {
	case takes:
		feasible, score, found = 1, own.Score, "its own node"
	case feasible == 0:
		found = "none"
	case len(kept) > 0:
		found = "one that is kept for no other"
	}
	if got.Feasible != feasible || got.Score != score || want.all[got.Node].Score != score || takes && got.Node != own.Name {
		w.t.Fatalf("pod %s: got %+v, want %s of %d with %d: %s", p.Name, got, want.best.Name, feasible, score, found)
	}
	return found
}

// decide holds the decisions that are due, and tells how many there were.
func (w *outsiders) decide() int {
	from := len(w.x.lines)
	w.x.turn(w.t)
	lines := w.x.decided(w.t)[from:]
	for _, got := range lines {
		i := slices.IndexFunc(w.waiting, func(p *v1.Pod) bool { return p.UID == types.UID(got.UID) })
		if i < 0 {
			w.t.Fatalf("decision %d is of pod %s, which does not wait", got.Seq, got.Pod)
		}
		p := w.waiting[i]
		if d := cmp.Diff(w.o.decide(p), got); d != "" {
			w.t.Fatalf("decision %d (-one by one +in a batch):\n%s", got.Seq, d)
		}
		if got.Node != "" {
			w.sits(withNode(p, got.Node))
		}
	}
	return len(lines)
}

// whileOutsiders has a test act after each of the outsiders' steps, in clusters of which some have classes of more keys than a result has groups.
func whileOutsiders(t *testing.T, cfg SchedulerConfig, act func(*outsiders)) {
	scenes := rapid.Custom(func(t *rapid.T) scene {
		if rapid.IntRange(0, 7).Draw(t, "spread") == 0 {
			return drawSpread(t)
		}
		return drawCrowd(t, 0, rapid.Bool().Draw(t, "claims"))
	})
	for seed := range 150 {
		w := &outsiders{Rand: rand.New(rand.NewPCG(uint64(seed), 8)), t: t}
		cfg.Shards = 1 + seed%3
		w.x = newTrial(t, cfg, seed%4)
		w.load(scenes.Example(seed))
		for range 30 {
			for range 1 + w.IntN(4) {
				w.step()
			}
			act(w)
		}
		w.x.fanout.Close()
	}
}

// A pod repels others from its node from when another writer nominates it, until that ends.
func TestTheTermsOfAPodThatOthersNominate(t *testing.T) {
	p := build.Pod("p").Label("app", "web").Apart(build.Around(v1.LabelTopologyZone, "app=none")).Obj()
	waits := build.Pod("waits").Apart(build.Around(v1.LabelTopologyZone, "app=web")).Obj()
	other := build.Pod("other").Nominated("n").Apart(build.Around(v1.LabelTopologyZone, "app=db")).Obj()
	x := newTrial(t, SchedulerConfig{Shards: 1, Observe: true}, 0)
	defer x.fanout.Close()
	x.Load(&objects.Snapshot{Nodes: inZones("4", "n", "m"), Pods: []*v1.Pod{p, waits, other}}, nil)
	for _, node := range []string{"", "n", "m", "", "n"} {
		waits = waits.DeepCopy()
		waits.Status.NominatedNodeName = node
		x.event(&objects.Event{Type: objects.Modified, Kind: objects.KindPod, Pod: waits})
		for _, n := range []string{"n", "m"} {
			if got, err := x.judge(quiet(), p.UID, n, false); err != nil || got.Passes != (n != node) {
				t.Errorf("nominated to %q: got %+v, %v for node %s, want it to pass: %v", node, got, err, n, n != node)
			}
		}
	}
}

// TestJudgementsWhileOthersNominate holds judgements to judging every row, while nominations come, move and end between them.
func TestJudgementsWhileOthersNominate(t *testing.T) {
	found := map[string]int{}
	whileOutsiders(t, SchedulerConfig{Observe: true}, func(w *outsiders) {
		for range 3 {
			if len(w.waiting) == 0 {
				return
			}
			if p := w.waiting[w.IntN(len(w.waiting))]; p.DeletionTimestamp == nil {
				found[w.judge(p)]++
			}
		}
	})
	if len(found) < 5 {
		t.Errorf("pods have found %v, want each of five", found)
	}
}

// TestDecisionsWhileOthersNominate holds decisions to deciding one by one, while nominations come, move and end between batches.
func TestDecisionsWhileOthersNominate(t *testing.T) {
	decisions := 0
	whileOutsiders(t, SchedulerConfig{BatchSize: 7, MaxBackoff: -1}, func(w *outsiders) { decisions += w.decide() })
	if decisions == 0 {
		t.Error("nothing was decided")
	}
}
