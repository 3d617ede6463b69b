package coordinator

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/api/scheduling/v1alpha2"
	"k8s.io/apimachinery/pkg/types"

	"github.com/shardsched/shardsched/coordinator/compile"
	"github.com/shardsched/shardsched/coordinator/groups"
	"github.com/shardsched/shardsched/coordinator/objects"
	"github.com/shardsched/shardsched/coordinator/queue"
	"github.com/shardsched/shardsched/coordinator/rules"
	"github.com/shardsched/shardsched/internal/testkit/build"
)

// gangScene is a cluster, a pod group and its members, in the order in which they are created.
type gangScene struct {
	*trial
	group types.NamespacedName
}

// playGang has a scheduler try the members of a pod group, each of which takes a CPU.
func playGang(t testing.TB, cfg SchedulerConfig, group *v1alpha2.PodGroup, nodes []*v1.Node, pods ...*v1.Pod) *gangScene {
	t.Helper()
	if cfg.Groups == (groups.Gates{}) {
		cfg.Groups = groups.Gates{Workload: true, Gang: true}
	}
	x := &gangScene{trial: newTrial(t, cfg, 0), group: types.NamespacedName{Namespace: group.Namespace, Name: group.Name}}
	t.Cleanup(x.fanout.Close)
	x.groups.Set(group)
	x.Load(&objects.Snapshot{Nodes: nodes, Pods: pods}, nil)
	x.turn(t)
	return x
}

func member1(name string) *build.PodBuilder { return build.Pod(name).UID(name).CPU("1").Member("g") }

func members(names ...string) (out []*v1.Pod) {
	for _, name := range names {
		out = append(out, member1(name).Obj())
	}
	return out
}

// want checks the decisions since the last call, as "pod: node" or "pod: message".
func (x *gangScene) want(t *testing.T, want ...string) {
	t.Helper()
	from := len(x.lines)
	var got []string
	for i, d := range x.decided(t)[from:] {
		if d.Seq != uint64(from+i+1) {
			t.Errorf("decision %d has number %d", from+i+1, d.Seq)
		}
		line := strings.TrimPrefix(d.Pod, "default/") + ": " + d.Node + d.Message
		if d.Nominated != "" {
			line += " -> " + d.Nominated
		}
		got = append(got, line)
	}
	if !slices.Equal(got, want) {
		t.Errorf("got decisions\n\t%s\nwant\n\t%s", strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
	}
}

// wantVerdict checks what is told of the pod group.
func (x *gangScene) wantVerdict(t *testing.T, state groups.State, fit int, base string) {
	t.Helper()
	v := x.groups.Get(x.group).Verdict()
	if v == nil || v.State != state || v.Fit != fit || v.Base != base {
		t.Errorf("got verdict %+v, want state %d, %d that fit, and %q", v, state, fit, base)
	}
}

const oneCPUShort = "0/1 nodes are available: 1 Insufficient cpu."

// Golden case 1: too few fit, and nobody is placed.
func TestAGangThatIsShortIsNotPlaced(t *testing.T) {
	x := playGang(t, SchedulerConfig{}, build.Gang("g", 3).Obj(), nodesOf("2", "n"), members("a", "b", "c")...)
	x.want(t, "a: "+quorumMissed, "b: "+quorumMissed, "c: "+oneCPUShort)
	x.wantVerdict(t, groups.Unschedulable, 2, "pod group is unschedulable")
	if all, _ := x.state.Pods(); all != 0 {
		t.Errorf("%d pods have room, want none", all)
	}
	for _, uid := range []types.UID{"a", "b", "c"} {
		if p := x.queue.Get(uid); p == nil || p.Place() != queue.Unschedulable {
			t.Errorf("pod %s is %v, want it to wait for an event", uid, p)
		}
	}
}

// Golden case 2: the quorum is placed, who is beyond it goes its own way.
func TestAGangIsPlacedAtItsQuorum(t *testing.T) {
	x := playGang(t, SchedulerConfig{MaxBackoff: -1}, build.Gang("g", 2).Obj(), nodesOf("2", "n"), members("a", "b", "c")...)
	x.want(t, "a: n", "b: n", "c: "+oneCPUShort)
	x.wantVerdict(t, groups.Scheduled, 2, "")
	x.event(&objects.Event{Type: objects.Added, Kind: objects.KindNode, Node: nodesOf("1", "m")[0]})
	x.turn(t)
	x.want(t, "c: m")
	x.wantVerdict(t, groups.Scheduled, 3, "")
}

// A profile may leave GangScheduling out, at one of its points or at both: then nobody counts there.
func TestAProfileWithoutGangSchedulingDoesNotCount(t *testing.T) {
	for _, c := range []struct {
		plugins compile.PodGroupPlugins
		pods    []*v1.Pod
		want    []string
	}{
		{compile.PodGroupPlugins{Gates: true}, members("a", "b", "c"), []string{"a: n", "b: n", "c: " + oneCPUShort}},
		{compile.PodGroupPlugins{Counts: true}, members("a"), []string{"a: " + quorumMissed}},
		{compile.PodGroupPlugins{}, members("a"), []string{"a: n"}},
		{compile.PodGroupPlugins{Gates: true}, members("a"), nil},
	} {
		config := rules.DefaultConfig(v1.DefaultSchedulerName)
		config.PostFilters, config.PodGroups = nil, c.plugins
		profile, err := rules.NewProfile(config)
		if err != nil {
			t.Fatal(err)
		}
		cfg := SchedulerConfig{Profiles: map[string]*compile.Profile{v1.DefaultSchedulerName: profile}}
		playGang(t, cfg, build.Gang("g", 3).Obj(), nodesOf("2", "n"), c.pods...).want(t, c.want...)
	}
}

// Golden case 3: a member beyond the quorum that preempts has all wait; the pod leaves after the verdict, and all are nominated.
func TestAMemberThatPreemptsHasItsMatesWait(t *testing.T) {
	low := build.Pod("low").UID("low").CPU("1").Node("m").Obj()
	pods := []*v1.Pod{low}
	for _, name := range []string{"a", "b", "c"} {
		pods = append(pods, member1(name).Priority(10).Obj())
	}
	x := playGang(t, SchedulerConfig{Profiles: withPreemption(), MaxBackoff: -1}, build.Gang("g", 2).Obj(),
		append(nodesOf("2", "n"), nodesOf("1", "m")...), pods...)
	x.want(t,
		"a: "+preemptingGroup+" -> n", "b: "+preemptingGroup+" -> n",
		"c: 0/2 nodes are available: 2 Insufficient cpu. -> m",
		"a: n", "b: n", "c: m")
}

// A gang that does not fit even then preempts nobody: upstream evicts before it knows.
func TestAGangThatIsShortPreemptsNobody(t *testing.T) {
	low := build.Pod("low").UID("low").CPU("1").Node("m").Obj()
	x := playGang(t, SchedulerConfig{Profiles: withPreemption()}, build.Gang("g", 3).Obj(), nodesOf("1", "m"),
		low, member1("a").Priority(10).Obj(), member1("b").Priority(10).Obj(), member1("c").Priority(10).Obj())
	if _, node, _ := x.state.Pod("low"); node != "m" {
		t.Error("the pod of lower priority has left for a gang that does not fit")
	}
	for i, d := range x.decided(t) {
		if d.Nominated != "" || d.Node != "" {
			t.Errorf("decision %d: got %+v, want no node", i, d)
		}
	}
}

// Golden case 4: of a basic pod group, each pod goes its own way.
func TestABasicPodGroupIsPlacedAsFarAsItFits(t *testing.T) {
	x := playGang(t, SchedulerConfig{}, build.PodGroup("g").Obj(), nodesOf("1", "n"), members("a", "b", "c")...)
	x.want(t, "a: n", "b: "+oneCPUShort, "c: "+oneCPUShort)
	x.wantVerdict(t, groups.Scheduled, 1, "")
}

// Golden case 7: an error of one member is all members'.
func TestAnErrorOfAMemberEndsTheGang(t *testing.T) {
	broken := member1("b").Obj()
	x := playGang(t, SchedulerConfig{}, build.Gang("g", 2).Obj(), nodesOf("4", "n"))
	x.guard.Compile = failingFor("b", x.guard.Compile)
	for _, p := range []*v1.Pod{member1("a").Obj(), broken, member1("c").Obj()} {
		x.event(&objects.Event{Type: objects.Added, Kind: objects.KindPod, Pod: p})
	}
	x.turn(t)
	x.want(t, "a: failed to schedule other pod from a pod group: odd", "b: odd", "c: failed to schedule other pod from a pod group: odd")
	x.wantVerdict(t, groups.Failed, 1, "failed to schedule other pod from a pod group: odd")
	if all, _ := x.state.Pods(); all != 0 {
		t.Errorf("%d pods have room, want none", all)
	}
}

// Golden case 8: a late member of a gang that runs is a plain pod.
func TestALateMemberIsAPlainPod(t *testing.T) {
	x := playGang(t, SchedulerConfig{}, build.Gang("g", 2).Obj(), nodesOf("4", "n"), members("a", "b")...)
	x.event(&objects.Event{Type: objects.Added, Kind: objects.KindPod, Pod: members("c")[0]})
	x.turn(t)
	x.want(t, "a: n", "b: n", "c: n")
	x.wantVerdict(t, groups.Scheduled, 3, "")
}

// Pods of two schedulers are no gang.
func TestMembersOfTwoSchedulersFail(t *testing.T) {
	profiles := withoutPreemption()
	profiles["other"] = profiles[v1.DefaultSchedulerName]
	b := members("b")[0]
	b.Spec.SchedulerName = "other"
	x := playGang(t, SchedulerConfig{Profiles: profiles}, build.Gang("g", 2).Obj(), nodesOf("4", "n"), members("a")[0], b)
	text := fmt.Sprintf("all pods in a single pod group should have the same .spec.schedulerName set, got: %q and %q", v1.DefaultSchedulerName, "other")
	x.want(t, "a: "+text, "b: "+text)
}

// failingFor compiles all pods but one.
func failingFor(name string, through func(*v1.Pod, *compile.Profile) (*compile.Class, error)) func(*v1.Pod, *compile.Profile) (*compile.Class, error) {
	return func(p *v1.Pod, prof *compile.Profile) (*compile.Class, error) {
		if p.Name == name {
			return nil, errors.New("odd")
		}
		return through(p, prof)
	}
}
