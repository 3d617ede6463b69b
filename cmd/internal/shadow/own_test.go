package shadow

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/shardsched/shardsched/coordinator"
	"github.com/shardsched/shardsched/coordinator/objects"
	"github.com/shardsched/shardsched/internal/testkit/build"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// patience is how long a test waits for what is to come, on a busy machine.
const patience = time.Minute

// begin runs an own world beside a cluster; the second result ends it, and returns what Run has.
func begin(t testing.TB, all *objects.Snapshot) (*OwnWorld, context.Context, func() error) {
	o, err := NewOwnWorld(OwnConfig{Scheduler: coordinator.SchedulerConfig{Cluster: "shadow", Term: 1}})
	if err != nil {
		t.Fatal(err)
	}
	o.Load(all)
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	ended := make(chan error, 1)
	go func() { ended <- o.Run(ctx) }()
	return o, ctx, func() error { cancel(); return <-ended }
}

// The scheduler of an own world has each pod where the books have it, whatever really happens meanwhile.
func TestTheOwnWorldsSchedulerAgreesWithTheBooks(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		real := newStream(r)
		for range 4 {
			real.nodeSet()
		}
		o, ctx, end := begin(t, &objects.Snapshot{Nodes: slices.Collect(maps.Values(real.nodes))})
		defer func() {
			if err := end(); err != nil {
				r.Fatal(err)
			}
		}()
		for range rapid.IntRange(1, 40).Draw(r, "steps") {
			o.Deliver(real.next())
			if rapid.IntRange(0, 3).Draw(r, "idle") == 0 {
				if err := o.scheduler.Idle(ctx); err != nil {
					r.Fatal(err)
				}
			}
		}
		if err := o.scheduler.Idle(ctx); err != nil {
			r.Fatal(err)
		}
		for name := range real.nodes {
			got, err := o.scheduler.ExplainNode(ctx, &pb.ExplainNodeRequest{Name: name})
			if err != nil {
				r.Fatal(err)
			}
			o.mu.Lock()
			n := o.books.ours.nodes[name]
			pods, used := len(n.pods), n.used[atCPU]
			o.mu.Unlock()
			if int(got.Pods) != pods || got.Amounts[0].Requested != used {
				r.Errorf("node %s: the scheduler has %d pods, %d of cpu; the books have %d, %d", name, got.Pods, got.Amounts[0].Requested, pods, used)
			}
		}
		sum, err := o.scheduler.Summary(ctx)
		if err != nil {
			r.Fatal(err)
		}
		o.mu.Lock()
		defer o.mu.Unlock()
		waiting, leaving := 0, 0 // those on their way out are told of as long as they are gated
		for _, p := range o.books.pods {
			switch {
			case p.fixed || p.held || p.lost || p.ours != "":
			case p.obj.DeletionTimestamp != nil:
				leaving++
			default:
				waiting++
			}
		}
		if n := int(sum.PodsPending); n < waiting || n > waiting+leaving {
			r.Errorf("the scheduler has %d pods that wait, the books have %d, and %d that are being deleted", n, waiting, leaving)
		}
	})
}

// A pod is where ours puts it though it is really elsewhere, and leaves when it really does.
func TestPodsAreWhereOursPutsThemAndLeaveWithTheRealOnes(t *testing.T) {
	full := build.Pod("old").UID("old").Node("n1").CPU("8").Obj()
	full.Spec.SchedulerName = v1.DefaultSchedulerName
	node := func(name string) *v1.Node { return build.Node(name).CPU("10").Memory("10Gi").Pods("10").Obj() }
	o, ctx, end := begin(t, &objects.Snapshot{Nodes: []*v1.Node{node("n1"), node("n2")}, Pods: []*v1.Pod{full}})
	pod := func(on string) *v1.Pod {
		b := build.Pod("web").UID("web").CPU("1")
		if on != "" {
			b.Node(on)
		}
		p := b.Obj()
		p.Spec.SchedulerName = v1.DefaultSchedulerName
		return p
	}
	say := func(kind objects.EventType, p *v1.Pod) {
		o.Deliver([]objects.Event{{Type: kind, Kind: objects.KindPod, Pod: p}})
		if err := o.scheduler.Idle(ctx); err != nil {
			t.Fatal(err)
		}
	}
	report := func() (*Report, World, World) {
		var r Report
		o.Fill(&r)
		last := r.Packing.Points[len(r.Packing.Points)-1]
		return &r, last.Theirs, last.Ours
	}
	say(objects.Added, pod(""))
	say(objects.Modified, pod("n1")) // the emptier node is n2
	r, theirs, ours := report()
	if theirs.NodesInUse != 1 || ours.NodesInUse != 2 || r.Packing.Compared != 1 || r.Latency.Ours.Pods != 1 {
		t.Errorf("got %d nodes in use really, %d in the own world, %+v; want 1, 2, and one pod compared", theirs.NodesInUse, ours.NodesInUse, r)
	}
	say(objects.Deleted, pod("n1"))
	if _, theirs, ours = report(); theirs.NodesInUse != 1 || ours.NodesInUse != 1 {
		t.Errorf("after it has gone: got %d, %d nodes in use; want 1, 1", theirs.NodesInUse, ours.NodesInUse)
	}
	if err := end(); err != nil {
		t.Error(err)
	}
	if runtime.GOOS == "linux" {
		r, _, _ := report()
		if c := r.Cost; c.Ours == nil || c.Deciding <= 0 || c.Ours.Seconds < c.Deciding || c.Ours.Pods != 1 || c.TheirsUnknown == "" {
			t.Errorf("cost: got %+v; want the loop's part of the process's", c)
		}
	}
}

// What preempts in the own world does so there only, and victims do not come back.
func TestPreemptionsAreInTheOwnWorldOnly(t *testing.T) {
	pod := func(name string, priority int32, on string) *v1.Pod {
		b := build.Pod(name).UID(name).CPU("8").Priority(priority)
		if on != "" {
			b.Node(on)
		}
		p := b.Obj()
		p.Spec.SchedulerName = v1.DefaultSchedulerName
		return p
	}
	low := pod("low", 0, "n1")
	o, ctx, end := begin(t, &objects.Snapshot{Nodes: []*v1.Node{build.Node("n1").CPU("10").Pods("10").Obj()}, Pods: []*v1.Pod{low}})
	defer end()
	o.Deliver([]objects.Event{{Type: objects.Added, Kind: objects.KindPod, Pod: pod("high", 10, "")}})
	if err := o.scheduler.Idle(ctx); err != nil {
		t.Fatal(err)
	}
	o.Deliver([]objects.Event{{Type: objects.Modified, Kind: objects.KindPod, Pod: low}})
	if err := o.scheduler.Idle(ctx); err != nil {
		t.Fatal(err)
	}
	var r Report
	o.Fill(&r)
	last := r.Packing.Points[len(r.Packing.Points)-1]
	if last.Ours.Preempted != 1 || last.Theirs.Preempted != 0 || last.Ours.Pending != 0 || last.Theirs.Pending != 1 {
		t.Errorf("got %+v; want one victim in the own world, and the preemptor pending really", last)
	}
	if w := last.Ours.Resources[0]; w.Requested != 0.8 {
		t.Errorf("requested cpu in the own world: got %v, want 0.8: the preemptor's alone", w.Requested)
	}
}

// Which devices a claim has is decided once, with the node: really.
func TestPodsWithClaimsAreWhereTheirDevicesReallyAre(t *testing.T) {
	node := func(name string) *v1.Node { return build.Node(name).CPU("10").Memory("10Gi").Pods("10").Obj() }
	slice := func(node string) *resourcev1.ResourceSlice {
		return &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: "slice-" + node, UID: types.UID("slice-" + node)},
			Spec: resourcev1.ResourceSliceSpec{Driver: "gpu.example.com", NodeName: &node, Pool: resourcev1.ResourcePool{Name: node, ResourceSliceCount: 1},
				Devices: []resourcev1.Device{{Name: "gpu"}}}}
	}
	class := &resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "gpu", UID: "class"}}
	o, ctx, end := begin(t, &objects.Snapshot{Nodes: []*v1.Node{node("n1"), node("n2")}, Cluster: []objects.Object{class, slice("n1"), slice("n2")}})
	version := 0
	claim := func(name, on string) *resourcev1.ResourceClaim {
		version++
		c := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID("claim-" + name),
			ResourceVersion: fmt.Sprint(version)},
			Spec: resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{Requests: []resourcev1.DeviceRequest{{Name: "gpu",
				Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: "gpu", AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: 1}}}}}}
		if on != "" {
			c.Status.ReservedFor = []resourcev1.ResourceClaimConsumerReference{{Resource: "pods", Name: name, UID: types.UID(name)}}
			c.Status.Allocation = &resourcev1.AllocationResult{Devices: resourcev1.DeviceAllocationResult{Results: []resourcev1.DeviceRequestAllocationResult{
				{Request: "gpu", Driver: "gpu.example.com", Pool: on, Device: "gpu"}}},
				NodeSelector: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{MatchFields: []v1.NodeSelectorRequirement{
					{Key: "metadata.name", Operator: v1.NodeSelectorOpIn, Values: []string{on}}}}}}}
		}
		return c
	}
	pod := func(name, on string) *v1.Pod {
		b := build.Pod(name).UID(name).CPU("1")
		if on != "" {
			b.Node(on)
		}
		p := b.Obj()
		p.Spec.SchedulerName = v1.DefaultSchedulerName
		p.Spec.ResourceClaims = []v1.PodResourceClaim{{Name: "gpu", ResourceClaimName: &name}}
		return p
	}
	tell := func(events ...objects.Event) {
		t.Helper()
		o.Deliver(events)
		if err := o.scheduler.Idle(ctx); err != nil {
			t.Fatal(err)
		}
	}
	claimed := func(c *resourcev1.ResourceClaim) objects.Event {
		return objects.Event{Type: objects.Modified, Kind: objects.KindResourceClaim, Object: c}
	}
	is := func(p *v1.Pod) objects.Event {
		return objects.Event{Type: objects.Modified, Kind: objects.KindPod, Pod: p}
	}
	ours := func(uid types.UID) string {
		o.mu.Lock()
		defer o.mu.Unlock()
		return o.books.pods[uid].ours
	}
	tell(claimed(claim("a", "")), is(pod("a", "")))
	if got := ours("a"); got != "" {
		t.Errorf("a is on %q before its claim has devices, want it held", got)
	}
	tell(claimed(claim("a", "n2")), is(pod("a", "n2")))
	tell(claimed(claim("b", "n1")), is(pod("b", "")))
	if a, b := ours("a"), ours("b"); a != "n2" || b != "n1" {
		t.Errorf("a is on %q and b on %q, want them where their devices are", a, b)
	}
	gone := pod("a", "n2")
	gone.DeletionTimestamp = &metav1.Time{Time: epoch}
	tell(objects.Event{Type: objects.Deleted, Kind: objects.KindPod, Pod: gone}, claimed(claim("a", "")))
	tell(claimed(claim("c", "n2")), is(pod("c", "")))
	if got := ours("c"); got != "n2" {
		t.Errorf("c is on %q, want it on n2, whose device is free again", got)
	}
	var r Report
	o.Fill(&r)
	if r.Packing.Compared != 3 || len(r.Packing.Left) != 0 || !slices.Equal(r.Packing.Pinned, []Count{{pinnedClaims, 1}}) {
		t.Errorf("got %+v; want all compared, and a pinned", r.Packing)
	}
	if err := end(); err != nil {
		t.Error(err)
	}
}

func TestTheirCostIsWhatTheirMetricsGrowBy(t *testing.T) {
	c := newCost()
	var none Thread
	if got := c.report(0, &none, nil); got.Theirs != nil || got.TheirsUnknown != errNotAsked.Error() {
		t.Errorf("not asked: got %+v", got)
	}
	c.take(100, nil, 10)
	if got := c.report(0, &none, nil); got.Theirs != nil || got.TheirsUnknown == "" {
		t.Errorf("one reading: got %+v, want why it is not known", got)
	}
	c.take(103, nil, 20)
	c.take(2, nil, 30) // another process by now
	c.take(0, errors.New("forbidden"), 30)
	if got := c.report(5, &none, nil).Theirs; got == nil || *got != (CPU{5, 20, 0.25}) {
		t.Errorf("got %+v; want 5 s of 20 pods", got)
	}
}

func TestProcessSeconds(t *testing.T) {
	for text, want := range map[string]float64{
		"# HELP process_cpu_seconds_total x\n# TYPE process_cpu_seconds_total counter\nprocess_cpu_seconds_total 12.5\n": 12.5,
		"other 1\nprocess_cpu_seconds_total 1.5e+03 1700000000000\n":                                                     1500,
	} {
		if got, err := ProcessSeconds(strings.NewReader(text)); err != nil || got != want {
			t.Errorf("%q: got %v, %v; want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "process_cpu_seconds_total\n", "process_cpu_seconds_total x\n", "process_cpu_seconds_total NaN\n",
		"process_cpu_seconds_total -1\n", "process_cpu_seconds_total{a=\"b\"} 1\n", strings.Repeat("x", 2*metricsLine)} {
		if got, err := ProcessSeconds(strings.NewReader(text)); err == nil {
			t.Errorf("%.40q: got %v, want an error", text, got)
		}
	}
	if _, err := ProcessSeconds(strings.NewReader(strings.Repeat("a 1\n", maxMetrics/4) + "process_cpu_seconds_total 1\n")); err == nil {
		t.Error("what is behind the bound is read")
	}
}

func FuzzProcessSeconds(f *testing.F) {
	f.Add("process_cpu_seconds_total 12.5\n")
	f.Add("process_cpu_seconds_total 1e400 1\n")
	f.Fuzz(func(t *testing.T, text string) {
		if s, err := ProcessSeconds(strings.NewReader(text)); err == nil && !(s >= 0 && !math.IsInf(s, 0)) {
			t.Errorf("%q: got %v", text, s)
		}
	})
}

func TestVerdict(t *testing.T) {
	ready := func() *Report { r := example(); r.Verdict = Verdict{}; return r }
	class := func(c Class) func(*Report) {
		return func(r *Report) { r.Agreement.Classes = append([]ClassCount{{c, 1}}, r.Agreement.Classes...) }
	}
	for _, c := range []struct {
		name   string
		change func(*Report)
		lacks  []Count
		ready  bool
		says   string
	}{
		{"all is well", func(*Report) {}, nil, true, ""},
		{"a node that we would refuse", class(Refused), nil, false, "we would refuse (1 pod)"},
		{"no node of ours", class(OnlyTheirs), nil, false, "we would refuse all (1 pod)"},
		{"something is lacking", func(*Report) {}, []Count{{"extender http://x is not asked", 7}}, false, "extender http://x is not asked (7 pods)"},
		{"too few", func(r *Report) { r.Agreement.Judged = enough - 1 }, nil, false, "too few decisions to tell: 99"},
		{"too many not judged", func(r *Report) { r.Agreement.NotJudged = []Count{{"late", 6132}} }, nil, false, "could not be judged: 9 %"},
		{"they chose lower though they saw all", func(r *Report) { r.Agreement.LookedAt = 1 }, nil, true, "one of a lower score (429 pods)"},
		{"other victims", func(r *Report) { r.Agreement.Classes[6].Pods = 2 }, nil, true, "preempted others (2 pods)"},
		{"slower", func(r *Report) { r.Latency.Ours.P99 = 4 }, nil, true, "ours was slower: p99 4.00 s decided, theirs 3.10 s"},
		{"much drift", func(r *Report) { r.Packing.Drift = 0.3 }, nil, true, "its packing tells little (1,288 pods)"},
		{"more nodes", func(r *Report) { r.Packing.Points[1].Ours.NodesInUse = 1300 }, nil, true, "more nodes in use: 1300"},
		{"more pending", func(r *Report) { r.Packing.Points[1].Ours.Pending = 5 }, nil, true, "more pods wait in the own world than really (3 pods)"},
	} {
		r := ready()
		c.change(r)
		r.Judge(c.lacks)
		said := fmt.Sprint(r.Verdict.Hindrances)
		if c.ready {
			said = fmt.Sprint(r.Verdict.Reservations)
		}
		if r.Verdict.Ready != c.ready || !strings.Contains(said, c.says) {
			t.Errorf("%s: got %+v; want ready %v, and %q said", c.name, r.Verdict, c.ready, c.says)
		}
	}
}
