package observe

import (
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/shardsched/shardsched/coordinator/queue"
	"github.com/shardsched/shardsched/coordinator/rules"
	"github.com/shardsched/shardsched/internal/testkit/build"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
	"github.com/shardsched/shardsched/scorer"
)

func TestAFitErrorIsTakenApart(t *testing.T) {
	for message, want := range map[string][]countedReason{
		"0/40 nodes are available: 12 Insufficient cpu, 28 node(s) had untolerated taint(s). no new claims to deallocate, preemption: 0/40 nodes are available: 40 x.": {
			{"Insufficient cpu", 12}, {"node(s) had untolerated taint(s)", 28},
		},
		"0/3 nodes are available: pod has unbound immediate PersistentVolumeClaims.":                                                             {{"pod has unbound immediate PersistentVolumeClaims", 0}},
		"0/9 nodes are available: 3 no room for a, b and 4 others, 6 too old.":                                                                   {{"no room for a, b and 4 others", 3}, {"too old", 6}},
		"0/9 nodes are available: no new claims to deallocate, preemption: 0/9 nodes are available: 9 Preemption is not helpful for scheduling.": {},
		"0/9 nodes are available: 9 Insufficient cpu. Member of pod group g: does not fit.":                                                      {{"Insufficient cpu", 9}},
		"bind pod a/b to n: changed meanwhile":                                                                                                   nil,
		"":                                                                                                                                       nil,
	} {
		if got, isFitError := fitReasons(message); !slices.Equal(got, want) || isFitError != (want != nil) {
			t.Errorf("%q: got %v, %v; want %v", message, got, isFitError, want)
		}
	}
}

func TestPodsAreOfTheirWorkload(t *testing.T) {
	for want, p := range map[string]*v1.Pod{
		"Pod p":          build.Pod("p").Obj(),
		"Deployment web": build.Pod("web-5d4f-x").Label("pod-template-hash", "5d4f").Owner("apps/v1", "ReplicaSet", "web-5d4f").Obj(),
		"ReplicaSet own": build.Pod("own-x").Label("pod-template-hash", "5d4f").Owner("apps/v1", "ReplicaSet", "own").Obj(),
		"StatefulSet db": build.Pod("db-0").Owner("apps/v1", "StatefulSet", "db").Obj(),
	} {
		if kind, name := WorkloadOf(p); kind+" "+name != want {
			t.Errorf("%s: got %s %s, want %s", p.Name, kind, name, want)
		}
	}
}

func TestPreemptionIsToldAsTheDecisionHasIt(t *testing.T) {
	on, off := rules.DefaultProfile(v1.DefaultSchedulerName), rules.DefaultConfig(v1.DefaultSchedulerName)
	off.PostFilters = nil
	never, err := rules.NewProfile(off)
	if err != nil {
		t.Fatal(err)
	}
	for want, d := range map[string]*pb.Decision{
		"not tried yet": nil,
		"not needed":    {Node: "n1"},
		"could help":    {Message: "0/2 nodes are available: 2 Insufficient cpu."},
		"helps on n1":   {Nominated: "n1"},
		"not eligible: preemptionPolicy=Never": {
			Message: "0/2 nodes are available: 2 Insufficient cpu. preemption: not eligible due to preemptionPolicy=Never.",
		},
		"found no victims": {Message: "0/2 nodes are available: 2 Insufficient cpu. preemption: 0/2 nodes are available: 2 No preemption victims found for incoming pod."},
	} {
		if got := preemption(d, false, on); got != want {
			t.Errorf("%v: got %q, want %q", d, got, want)
		}
		if got := preemption(d, false, never); got != "is off" && d.GetNode() == "" {
			t.Errorf("%v: got %q in a profile without DefaultPreemption", d, got)
		}
		if got := preemption(d, true, on); got != "can't help" {
			t.Errorf("%v: got %q for what stays whichever pods leave", d, got)
		}
	}
}

// waiting is a queue of pods.
type waiting struct {
	Queue
	pods []*queue.Pod
}

func (w waiting) All() iter.Seq[*queue.Pod] { return slices.Values(w.pods) }

func noBinds() []*v1.Pod { return nil }

// However many workloads wait, the groups are bounded, and no pod is lost.
func TestGroupsOfPendingPodsAreBounded(t *testing.T) {
	var w waiting
	const pods = 2*maxGroups + 10
	for i := range pods {
		message := fmt.Sprintf("error %d", i%(maxGroups+5))
		w.pods = append(w.pods, &queue.Pod{Obj: build.Pod(fmt.Sprint("p", i)).Obj(), Message: message})
	}
	nodes := slices.Values(slices.Repeat([]*v1.Node{build.Node("n").Obj()}, 2*countedAtOnce))
	x := newPending(t, &pb.ListPendingRequest{}, w, nodes)
	steps := 1
	for ; !x.step(); steps++ {
		if len(x.groups) > 2*maxGroups+1 {
			t.Fatalf("got %d groups, want %d at the most", len(x.groups), 2*maxGroups+1)
		}
	}
	x.Read().End()
	if most := 10 + 2*pods/wordedAtOnce + pods/podsAtOnce; steps > most || steps < len(x.out)/wordedAtOnce {
		t.Errorf("got %d steps for %d groups, want less than %d", steps, len(x.out), most)
	}
	out, sum := x.Answer(), uint64(0)
	for _, g := range out.Groups {
		sum += g.Pods
	}
	if sum+out.PodsLeftOut != pods || out.Pods != pods || out.Nodes != 2*countedAtOnce {
		t.Errorf("got %d pods in groups, %d left out, of %d, %d nodes; want %d in all", sum, out.PodsLeftOut, out.Pods, out.Nodes, pods)
	}
}

// A message holds only so many groups: the pods of the others are counted.
func TestPendingGroupsFitAMessage(t *testing.T) {
	var w waiting
	for i := range maxGroups {
		w.pods = append(w.pods, &queue.Pod{Obj: build.Pod(fmt.Sprint("p", i)).Obj(), Message: strings.Repeat("x", 2048)})
	}
	x := newPending(t, &pb.ListPendingRequest{}, w, slices.Values([]*v1.Node{build.Node("n").Obj()}))
	for !x.step() {
	}
	x.Read().End()
	out := x.Answer()
	if n := uint64(len(out.Groups)); out.PodsLeftOut == 0 || n+out.PodsLeftOut != maxGroups {
		t.Errorf("got %d groups and %d pods left out, want %d together, some of them left out", n, out.PodsLeftOut, maxGroups)
	}
}

func TestSomePendingPods(t *testing.T) {
	w := waiting{pods: []*queue.Pod{
		{Obj: build.Pod("a").Namespace("shop").Label("app", "web").Obj()},
		{Obj: build.Pod("b").Namespace("lab").Label("app", "web").Gate("q").Obj(), Gated: "SchedulingGates", Message: "waiting for scheduling gates: [q]"},
		{Obj: build.Pod("c").Namespace("shop").Obj()},
	}}
	for _, x := range []struct {
		req  *pb.ListPendingRequest
		want []string
	}{
		{&pb.ListPendingRequest{Namespace: "shop"}, []string{"Pod shop/a 1 not tried yet", "Pod shop/c 1 not tried yet"}},
		{&pb.ListPendingRequest{LabelSelector: "app in (web, api)"}, []string{"Pod lab/b 1 scheduling gate q", "Pod shop/a 1 not tried yet"}},
		{&pb.ListPendingRequest{Namespace: "shop", LabelSelector: "!app"}, []string{"Pod shop/c 1 not tried yet"}},
	} {
		list := newPending(t, x.req, w, slices.Values([]*v1.Node{}))
		for !list.step() {
		}
		list.Read().End()
		var got []string
		out := list.Answer()
		for _, g := range out.Groups {
			got = append(got, fmt.Sprintf("%s %s/%s %d %s", g.Kind, g.Namespace, g.Name, g.Pods, g.Causes[0].Cause))
		}
		if d := cmp.Diff(x.want, got); d != "" || out.Pods != uint64(len(x.want)) {
			t.Errorf("%v: got %d pods, and the groups (-want +got):\n%s", x.req, out.Pods, d)
		}
	}
	_, err := NewPending(&pb.ListPendingRequest{LabelSelector: "a in"}, w, nil, nil, nil, noBinds, time.Time{})
	if status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), "label_selector: ") {
		t.Errorf("a selector that is none: got %v, want INVALID_ARGUMENT that names the field", err)
	}
}

func newPending(t *testing.T, req *pb.ListPendingRequest, w waiting, nodes iter.Seq[*v1.Node]) *Pending {
	t.Helper()
	x, err := NewPending(req, w, nodes, nil, nil, noBinds, time.Unix(100000, 0))
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// Pods are counted by age and by the gates that hold them back, and the oldest of each group are named, as many as are asked for.
func TestPendingPodsAreCountedAndNamed(t *testing.T) {
	var w waiting
	for i, age := range []time.Duration{-time.Hour, time.Second, 10 * time.Second, 59 * time.Second, 3 * time.Minute, 48 * time.Hour} {
		p := build.Pod(fmt.Sprint("p", i)).Obj()
		p.CreationTimestamp = metav1.NewTime(time.Unix(100000, 0).Add(-age))
		yes := true
		p.OwnerReferences = []metav1.OwnerReference{{Kind: "Job", Name: "j", Controller: &yes}}
		w.pods = append(w.pods, &queue.Pod{Obj: p, Attempts: i})
	}
	for i := range maxGates + 10 {
		p := build.Pod(fmt.Sprint("g", i)).Gate("both").Gate(fmt.Sprint("gate", i)).Obj()
		w.pods = append(w.pods, &queue.Pod{Obj: p, Gated: rules.SchedulingGates, Message: "gates"})
	}
	w.pods = append(w.pods, &queue.Pod{Obj: build.Pod("own").Obj(), Gated: "Quota", Message: "over quota"})
	x := newPending(t, &pb.ListPendingRequest{PodsOfGroup: 2}, w, slices.Values([]*v1.Node{}))
	for !x.step() {
	}
	x.Read().End()
	out := x.Answer()
	job := out.Groups[slices.IndexFunc(out.Groups, func(g *pb.PendingGroup) bool { return g.Kind == "Job" })]
	if d := cmp.Diff([]uint64{2, 2, 1, 0, 0, 0, 1}, job.Ages); d != "" {
		t.Errorf("ages (-want +got):\n%s", d)
	}
	var named []string
	for _, p := range job.OldestPods {
		named = append(named, fmt.Sprint(p.Pod, " ", p.Attempts))
	}
	if d := cmp.Diff([]string{"default/p5 5", "default/p4 4"}, named); d != "" {
		t.Errorf("pods (-want +got):\n%s", d)
	}
	var all uint64
	for _, n := range out.Ages {
		all += n
	}
	if all != out.Pods || len(out.Ages) != len(out.AgeBins)+1 {
		t.Errorf("got %d pods in %d bins, want %d in %d", all, len(out.Ages), out.Pods, len(out.AgeBins)+1)
	}
	first := out.Gates[0]
	if first.Gate != "both" || first.Plugin != rules.SchedulingGates || first.Pods != maxGates+10 {
		t.Errorf("got %v first, want the gate that holds back most", first)
	}
	if second := out.Gates[1]; second.Gate != "" || second.Pods < 10 {
		t.Errorf("got %v, want the gates that are not told apart", second)
	}
	// The plugin of gates without a name is one beside so many.
	if len(out.Gates) > maxGates+2 || !slices.ContainsFunc(out.Gates, func(g *pb.GateCount) bool { return g.Plugin == "Quota" && g.Pods == 1 }) {
		t.Errorf("got %d gates, want %d at the most, and the plugin Quota among them", len(out.Gates), maxGates+2)
	}
}

// So many pods are named in all, and of a group that has named some by then still the oldest.
func TestNamedPendingPodsAreBounded(t *testing.T) {
	var w waiting
	for i := range maxNamedPods + 100 {
		p, yes := build.Pod(fmt.Sprint("p", i)).Obj(), true
		p.OwnerReferences = []metav1.OwnerReference{{Kind: "Job", Name: fmt.Sprint("j", i%200), Controller: &yes}}
		w.pods = append(w.pods, &queue.Pod{Obj: p})
	}
	x := newPending(t, &pb.ListPendingRequest{PodsOfGroup: 100}, w, slices.Values([]*v1.Node{}))
	for !x.step() {
	}
	x.Read().End()
	sum := 0
	for _, g := range x.out {
		sum += len(g.named)
	}
	if sum != maxNamedPods || x.named != sum {
		t.Errorf("got %d pods named, counted as %d, want %d", sum, x.named, maxNamedPods)
	}
}

// A step reads and words fewer groups where their pods are large.
func TestPendingGroupsOfLargePodsTakeMoreSteps(t *testing.T) {
	var list []*pendingGroup
	for range wordedAtOnce {
		p := build.Pod("p").Obj()
		p.Annotations = map[string]string{"note": strings.Repeat("x", wordedBytesAtOnce/4)}
		list = append(list, &pendingGroup{example: p})
	}
	if got := someGroups(list); got != 4 {
		t.Errorf("got %d groups in a step, want 4", got)
	}
	list[0].example.Annotations["more"] = strings.Repeat("x", wordedBytesAtOnce)
	if got := someGroups(list); got != 1 {
		t.Errorf("got %d groups in a step, want the large one alone", got)
	}
	if got := someGroups(nil); got != 0 {
		t.Errorf("got %d groups of none", got)
	}
}

// A pod may lack as many resources, and a plugin give as many reasons, as their authors like: so many are told.
func TestTheReasonsOfACauseAreBounded(t *testing.T) {
	x := &explainer{causes: map[causeKey]*causeCount{}, words: rules.NewDictionary()}
	var reasons []scorer.Reason
	var texts []string
	for i := range 2 * maxCauses {
		reasons = append(reasons, scorer.Reason{Plugin: rules.NodeResourcesFit, Text: fmt.Sprint("Insufficient example.com/r", i)})
		texts = append(texts, fmt.Sprint("a message of the expression ", i))
	}
	for range 2 {
		x.countCause(reasons)
	}
	for _, c := range x.causes {
		if len(c.reasons) != maxCauses || c.nodes != 2 {
			t.Errorf("got %d reasons on %d nodes, want %d on 2", len(c.reasons), c.nodes, maxCauses)
		}
	}
	if len(x.causes) != 1 {
		t.Errorf("got %d causes, want one", len(x.causes))
	}
	if got := wanted(rules.CELFilter, x.words.Of(rules.CELFilter), &rules.Asked{Reasons: texts}); len(got) != maxCauses {
		t.Errorf("got %d causes of %d reasons, want %d", len(got), len(texts), maxCauses)
	}
}

// A FitError may have as many reasons as a plugin likes: so many causes are told, those of most nodes.
func TestThePendingCausesOfAGroupAreBounded(t *testing.T) {
	var reasons []countedReason
	for i := range 2 * maxCauses {
		reasons = append(reasons, countedReason{fmt.Sprint("a reason of its own ", i), uint32(i)})
	}
	got := causesOf(rules.NewDictionary(), reasons, []string{"Own"}, &rules.Asked{Pod: build.Pod("p").Obj(), Cluster: noCluster{}})
	if len(got) != maxCauses || got[0].Nodes != 2*maxCauses-1 {
		t.Errorf("got %d causes, the first on %d nodes; want %d, on %d", len(got), got[0].Nodes, maxCauses, 2*maxCauses-1)
	}
}

// noCluster knows nobody who may have refused.
type noCluster struct{ rules.Cluster }

func (noCluster) Refusers(*v1.Pod, []string) []string { return nil }
