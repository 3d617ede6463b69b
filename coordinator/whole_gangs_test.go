package coordinator

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	configv1 "k8s.io/kube-scheduler/config/v1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"

	"github.com/shardsched/shardsched/coordinator/groups"
	"github.com/shardsched/shardsched/coordinator/objects"
	"github.com/shardsched/shardsched/internal/testkit/build"
)

// wholeScene is a cluster of nodes with a CPU each, and gangs that leave whole.
type wholeScene struct {
	*trial
	evictor *fakeEvictor
}

// gang is a whole gang with a pod on each of so many nodes from one on, named after the gang and the node.
func (s *wholeScene) gang(name string, group, own int32, from, to int) (pods []*v1.Pod) {
	s.groups.Set(build.Gang(name, int32(to-from)).Whole().Priority(group).Obj())
	for i := from; i < to; i++ {
		pods = append(pods, build.Pod(fmt.Sprint(name, i)).UID(fmt.Sprint(name, i)).CPU("1").Priority(own).Member(name).Node(fmt.Sprint("n", i)).Obj())
	}
	return pods
}

func newWholeScene(t *testing.T, on bool) *wholeScene {
	t.Helper()
	s := &wholeScene{evictor: &fakeEvictor{}}
	s.trial = newTrial(t, SchedulerConfig{
		Shards: 3, Profiles: withPreemption(), Groups: groups.Gates{Workload: true, Gang: true}, WholeGangs: on, Evictor: s.evictor, MaxBackoff: -1,
	}, 0)
	t.Cleanup(s.fanout.Close)
	return s
}

// load has so many nodes, and pods on them.
func (s *wholeScene) load(nodes int, pods ...[]*v1.Pod) {
	all := &objects.Snapshot{Pods: slices.Concat(pods...)}
	for i := range nodes {
		all.Nodes = append(all.Nodes, nodesOf("1", fmt.Sprint("n", i))...)
	}
	s.Load(all, nil)
}

func (s *wholeScene) set(t objects.EventType, p *v1.Pod) {
	s.event(&objects.Event{Type: t, Kind: objects.KindPod, Pod: p})
}

// come has pods of priority 10 come that take a node each, and tells where they are nominated, or placed.
func (s *wholeScene) come(t *testing.T, names ...string) []string {
	t.Helper()
	for _, name := range names {
		s.set(objects.Added, build.Pod(name).UID(name).CPU("1").Priority(10).Obj())
	}
	return s.next(t)
}

// next are the decisions since the last call, as "pod: node <- victims" or "pod: -".
func (s *wholeScene) next(t *testing.T) (out []string) {
	t.Helper()
	from := len(s.lines)
	s.turn(t)
	for _, d := range s.decided(t)[from:] {
		line := strings.TrimPrefix(d.Pod, "default/") + ": "
		switch {
		case d.Node != "":
			line += "on " + d.Node
		case d.Nominated != "":
			line += d.Nominated + " <-"
			for _, v := range d.Victims {
				line += " " + strings.TrimPrefix(v, "default/")
			}
		default:
			line += "-"
		}
		out = append(out, line)
	}
	return out
}

func wantTold(t *testing.T, what string, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: got %q, want %q", what, got, want)
	}
}

// A pod whose PodGroup has a lower priority leaves with all of its mates, whatever its own priority; without the flag, members leave one
// by one, by their own.
func TestAWholeGangLeavesWholeForAPod(t *testing.T) {
	for name, c := range map[string]struct {
		on         bool
		group, own int32
		want       string
	}{
		"below by its PodGroup":            {true, 5, 50, "p: n0 <- w0 w1"},
		"below by both":                    {true, 5, 5, "p: n0 <- w0 w1"},
		"above by its PodGroup":            {true, 20, 5, "p: -"},
		"as high by its PodGroup":          {true, 10, 5, "p: -"},
		"off, below by its PodGroup":       {false, 5, 50, "p: -"},
		"off, below by its own, and above": {false, 20, 5, "p: n0 <- w0"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newWholeScene(t, c.on)
			s.load(2, s.gang("w", c.group, c.own, 0, 2))
			got := s.come(t, "p")
			for i := range got { // equal nodes: which of them the tie rule takes does not matter here
				got[i] = strings.NewReplacer("n1", "n0", "<- w1", "<- w0").Replace(got[i])
			}
			wantTold(t, "decisions", got, c.want)
		})
	}
}

// What a candidate costs counts all that leave: pods on other nodes, too.
func TestAWholeGangCostsAllOfItsPods(t *testing.T) {
	s := newWholeScene(t, true)
	single := build.Pod("low").UID("low").CPU("1").Priority(3).Node("n3").Obj()
	s.load(4, s.gang("w", 3, 3, 0, 3), []*v1.Pod{single})
	wantTold(t, "one pod instead of three", s.come(t, "p"), "p: n3 <- low")
	why := s.preemptions.whyLeaving["low"]
	if want := "preempted by pod default/p, which has a higher priority, on node n3"; why != want {
		t.Errorf("got %q, want %q", why, want)
	}
}

// Preemptors that get room from one gang have it told to leave once, before another has to.
func TestAWholeGangIsToldOnce(t *testing.T) {
	s := newWholeScene(t, true)
	s.load(6, s.gang("v", 3, 3, 0, 3), s.gang("w", 3, 3, 3, 6))
	got := s.come(t, "a", "b", "c")
	if len(got) != 3 || len(s.evictor.told) != 1 || len(s.evictor.told[0].Victims) != 3 {
		t.Fatalf("got decisions %q and evictions %q, want three, and one of a gang", got, s.evictor.orders())
	}
	gang := s.evictor.told[0].Victims[0].Name[:1]
	for _, v := range s.evictor.told[0].Victims {
		if v.Name[:1] != gang {
			t.Errorf("%s leaves with gang %s", v.Name, gang)
		}
		want := "preempted by pod default/a, which has a higher priority, on node "
		if why := s.preemptions.whyLeaving[v.UID]; !strings.HasPrefix(why, want) || !strings.HasSuffix(why, "; all pods of pod group default/"+gang+" leave") {
			t.Errorf("%s: got %q, want %q, and that all of its pod group leave", v.Name, why, want)
		}
	}
	wantTold(t, "the second and third", []string{got[1][strings.Index(got[1], "<-"):], got[2][strings.Index(got[2], "<-"):]}, "<-", "<-")
	// Once they are told and terminating, all wait; once they are gone, all are placed.
	s.evictor.done[0](nil)
	for _, v := range s.evictor.told[0].Victims {
		p := v.DeepCopy()
		p.DeletionTimestamp = build.Pod("x").Terminating().Obj().DeletionTimestamp
		p.Status.Conditions = append(p.Status.Conditions, v1.PodCondition{
			Type: v1.DisruptionTarget, Status: v1.ConditionTrue, Reason: v1.PodReasonPreemptionByScheduler,
		})
		s.set(objects.Modified, p)
	}
	s.next(t)
	for _, uid := range []string{"a", "b", "c"} {
		s.queue.Activate(build.Pod(uid).UID(uid).Obj().UID)
	}
	s.next(t)
	if len(s.evictor.told) != 1 {
		t.Errorf("got evictions %q, want none while the gang is leaving", s.evictor.orders())
	}
	for _, v := range s.evictor.told[0].Victims {
		s.set(objects.Deleted, v)
	}
	placed := 0
	for _, line := range s.next(t) {
		if strings.Contains(line, ": on n") {
			placed++
		}
	}
	if placed != 3 {
		t.Errorf("got %d preemptors placed once the gang is gone, want 3", placed)
	}
}

// A member of a whole gang has no mate of it leave, which it would without the flag.
func TestAWholeGangIsNotPickedApartByItsOwn(t *testing.T) {
	for on, want := range map[bool][]string{true: {"low"}, false: {"w0"}} {
		s := newWholeScene(t, on)
		low := build.Pod("low").UID("low").CPU("1").Priority(5).Node("n1").Obj()
		s.load(2, s.gang("w", 0, 3, 0, 1), []*v1.Pod{low, build.Pod("p").UID("p").CPU("1").Priority(10).Member("w").Obj()})
		s.turn(t)
		if got := s.evictor.leavers(); !slices.Equal(got, want) {
			t.Errorf("whole gangs %v: got victims %q, want %q", on, got, want)
		}
	}
}

// A gang that takes long to leave costs what it did: nobody waits for it who may have others leave.
func TestAWholeGangThatLeavesSlowly(t *testing.T) {
	s, slow := newWholeScene(t, true), int64(3600)
	slowly := s.gang("v", 2, 2, 0, 2)
	for _, p := range slowly {
		p.Spec.TerminationGracePeriodSeconds = &slow
	}
	s.load(3, slowly, []*v1.Pod{build.Pod("low").UID("low").CPU("1").Priority(2).Node("n2").Obj()})
	wantTold(t, "one pod instead of two", s.come(t, "a"), "a: n2 <- low")
	got := s.come(t, "b")
	s.groups.Set(build.Gang("w", 1).Whole().Priority(1).Obj())
	s.event(&objects.Event{Type: objects.Added, Kind: objects.KindNode, Node: nodesOf("1", "n3")[0]})
	s.set(objects.Added, build.Pod("w3").UID("w3").CPU("1").Priority(1).Member("w").Node("n3").Obj())
	got = append(got, s.come(t, "c")...)
	for i := range got {
		got[i] = strings.Replace(got[i], "n1", "n0", 1)
	}
	wantTold(t, "the gang, and then another", got, "b: n0 <- v0 v1", "c: n3 <- w3")
}

// A gang that could not be told to leave is told again, and all are tried that were to get its room.
func TestAWholeGangIsToldAgainAfterAnError(t *testing.T) {
	s := newWholeScene(t, true)
	s.load(2, s.gang("w", 3, 50, 0, 2))
	s.come(t, "p", "q")
	if len(s.evictor.told) != 1 {
		t.Fatalf("got evictions %q, want one", s.evictor.orders())
	}
	s.evictor.done[0](errors.New("no answer"))
	if got := s.next(t); len(got) != 2 || len(s.evictor.told) != 2 || len(s.evictor.told[1].Victims) != 2 {
		t.Errorf("got decisions %q and evictions %q, want both tried, and the gang told twice", got, s.evictor.orders())
	}
}

// A leader that ended while it told a gang to leave, or an error, leaves it in part: the rest is told when the preemptor is tried, but for pods
// made since.
func TestAWholeGangThatIsLeftInPartLeaves(t *testing.T) {
	s := newWholeScene(t, true)
	at := metav1.NewTime(epoch)
	pods := s.gang("w", 3, 50, 0, 3)
	pods[0].DeletionTimestamp = &at
	pods[0].Status.Conditions = []v1.PodCondition{{
		Type: v1.DisruptionTarget, Status: v1.ConditionTrue, Reason: v1.PodReasonPreemptionByScheduler, LastTransitionTime: at,
	}}
	for i, after := range []time.Duration{-time.Hour, -time.Hour, time.Second} {
		pods[i].CreationTimestamp = metav1.NewTime(epoch.Add(after))
	}
	s.load(3, pods, []*v1.Pod{build.Pod("p").UID("p").CPU("1").Priority(10).Nominated("n0").Obj()})
	wantTold(t, "with one of them leaving", s.next(t), "p: n0 <- w1")
	if got, want := s.evictor.orders(), []string{"p on n0: w1"}; !slices.Equal(got, want) {
		t.Errorf("got evictions %q, want %q", got, want)
	}
}

// oneVictim is an extender that leaves the first node and the first victim of it.
func oneVictim(w http.ResponseWriter, r *http.Request) {
	var q extenderv1.ExtenderPreemptionArgs
	if err := json.NewDecoder(r.Body).Decode(&q); err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	name := slices.Min(slices.Collect(maps.Keys(q.NodeNameToMetaVictims)))
	left := q.NodeNameToMetaVictims[name]
	left.Pods = left.Pods[:1]
	_ = json.NewEncoder(w).Encode(extenderv1.ExtenderPreemptionResult{NodeNameToMetaVictims: map[string]*extenderv1.MetaVictims{name: left}})
}

// A gang of which an extender drops some leaves whole all the same.
func TestAWholeGangLeavesWholeWhateverExtendersDrop(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(oneVictim))
	defer server.Close()
	e := foo()
	e.URLPrefix, e.PreemptVerb = server.URL, "preempt"
	s := &wholeScene{evictor: &fakeEvictor{}}
	s.trial = newTrial(t, SchedulerConfig{
		Profiles: withPreemption(), Groups: groups.Gates{Workload: true, Gang: true}, WholeGangs: true, Evictor: s.evictor,
		Extenders: []configv1.Extender{e}, ExtendersInline: true,
	}, 0)
	defer s.fanout.Close()
	mate := build.Pod("w9").UID("w9").CPU("0").Priority(50).Member("w").Node("n0").Obj()
	p := wanting("p", "1")
	p.Spec.Priority = new(int32)
	*p.Spec.Priority = 10
	s.load(2, s.gang("w", 3, 50, 0, 2), []*v1.Pod{mate, p})
	wantTold(t, "decisions", s.next(t), "p: n0 <- w0 w1 w9")
	if got, want := s.evictor.orders(), []string{"p on n0: w0 w1 w9"}; !slices.Equal(got, want) {
		t.Errorf("got evictions %q, want %q", got, want)
	}
}

// A dry run that is kept knows of a PodGroup that changes, and of mates that come elsewhere.
func TestAKeptDryRunFollowsWholeGangs(t *testing.T) {
	s := newWholeScene(t, true)
	low := build.Pod("low").UID("low").CPU("500m").Priority(3).Node("n4").Obj()
	other := build.Pod("other").UID("other").CPU("500m").Priority(3).Node("n4").Obj()
	s.load(6, s.gang("v", 3, 3, 0, 1), s.gang("w", 3, 3, 1, 2), []*v1.Pod{low, other}, s.gang("z", 20, 3, 5, 6))
	again := func(what, want string) {
		t.Helper()
		got := s.come(t, "p")
		s.set(objects.Deleted, build.Pod("p").UID("p").CPU("1").Priority(10).Obj())
		for i := range s.evictor.told {
			s.evictor.done[i](errors.New("called off"))
		}
		s.evictor.told, s.evictor.done = nil, nil
		s.turn(t)
		wantTold(t, what, got, want)
	}
	s.groups.Set(build.Gang("w", 1).Whole().Priority(2).Obj())
	s.set(objects.Added, build.Pod("x").UID("x").CPU("1").Priority(10).Node("n2").Obj())
	s.set(objects.Added, build.Pod("y").UID("y").CPU("1").Priority(10).Node("n3").Obj())
	again("the gang of the least priority", "p: n1 <- w1")
	s.groups.Set(build.Gang("w", 1).Whole().Priority(15).Obj())
	again("which is raised", "p: n0 <- v0")
	s.set(objects.Modified, build.Pod("y").UID("y").CPU("900m").Priority(10).Node("n3").Obj())
	s.set(objects.Added, build.Pod("v3").UID("v3").CPU("100m").Priority(3).Member("v").Node("n3").Obj())
	s.set(objects.Added, build.Pod("v2").UID("v2").CPU("0").Priority(3).Member("v").Node("n3").Obj())
	again("a gang of three costs more than two pods", "p: n4 <- low other")
	s.groups.Remove(s.groups.Of(build.Pod("v0").Member("v").Obj()).Name())
	again("no gang any more", "p: n0 <- v0")
}

// A gang with a pod on each of very many nodes, of which one starts again before each preemptor, costs no dry run for each. Whoever looks at
// so many nodes, those leave that would without the gang.
func TestAWholeGangOnVeryManyNodes(t *testing.T) {
	const nodes, preemptors = 4200, 40 // more rows than workers are told to skip
	s := newWholeScene(t, true)
	s.groups.Set(build.PodGroup("g").Whole().Priority(5).Obj())
	all := &objects.Snapshot{}
	var mates []*v1.Pod
	for i := range nodes {
		name := fmt.Sprint("n", i)
		mates = append(mates, build.Pod("mate"+name).UID("mate"+name).CPU("1").Member("g").Node(name).Obj())
		all.Nodes = append(all.Nodes, nodesOf("4", name)...)
		all.Pods = append(all.Pods, build.Pod("low"+name).UID("low"+name).CPU("3").Priority(1).Node(name).Obj(), mates[i])
	}
	s.Load(all, nil)
	for i := range preemptors {
		mate := mates[i].DeepCopy()
		mate.Status.StartTime = &metav1.Time{Time: epoch.Add(-time.Duration(i+1) * time.Minute)}
		s.set(objects.Modified, mate)
		s.set(objects.Added, build.Pod(fmt.Sprint("p", i)).UID(fmt.Sprint("p", i)).CPU("3").Priority(10).Obj())
		for _, line := range s.next(t) {
			if !strings.Contains(line, "<- low") || strings.Contains(line, "mate") {
				t.Fatalf("got %q, want the pod that is by itself to leave", line)
			}
		}
	}
	if got := len(s.evictor.told); got != preemptors {
		t.Errorf("got %d evictions, want %d", got, preemptors)
	}
	if got := s.counter("shardsched_preemption_dry_runs_total"); got != 1 {
		t.Errorf("got %v dry runs, want 1", got)
	}
}
