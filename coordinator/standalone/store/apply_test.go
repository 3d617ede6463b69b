package store_test

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	v1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	schedulingv1alpha2 "k8s.io/api/scheduling/v1alpha2"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/shardsched/shardsched/coordinator/objects"
	"github.com/shardsched/shardsched/coordinator/standalone/store"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

func TestApplyCreatesChangesAndLeavesAlone(t *testing.T) {
	r := newRig(t)
	ns := &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "team-a"}}
	got, first, err := r.Apply(t.Context(), r.fence, []runtime.Object{ns, node("n1"), pod("a")}, false)
	if err != nil {
		t.Fatal(err)
	}
	wantOutcomes(t, got, created, created, created)

	relabelled := pod("a")
	relabelled.Labels["app"] = "db"
	got, second, err := r.Apply(t.Context(), r.fence, []runtime.Object{node("n1"), relabelled, pod("b")}, false)
	if err != nil {
		t.Fatal(err)
	}
	wantOutcomes(t, got, same, changed, created)
	if second <= first {
		t.Errorf("revision of the second apply: got %d, want more than %d", second, first)
	}

	all := r.load(t)
	if len(all.Nodes) != 1 || len(all.Pods) != 2 || len(all.Cluster) != 1 || all.Revision != second {
		t.Fatalf("got %d nodes, %d pods, %d others at %d, want 1, 2, 1 at %d", len(all.Nodes), len(all.Pods), len(all.Cluster), all.Revision, second)
	}
	a := all.Pods[0]
	if a.UID != "uid-3" || !a.CreationTimestamp.Time.Equal(birth) || a.Generation != 1 || a.Labels["app"] != "db" {
		t.Errorf("pod a: got uid %s, created %v, generation %d, labels %v, want uid-3, %v, 1, app=db", a.UID, a.CreationTimestamp, a.Generation, a.Labels, birth)
	}
	if want := fmt.Sprint(second); a.ResourceVersion != want {
		t.Errorf("resourceVersion of pod a: got %s, want %s", a.ResourceVersion, want)
	}
	if a.Spec.SchedulerName != v1.DefaultSchedulerName || a.Status.Phase != v1.PodPending {
		t.Errorf("defaults of pod a: got %q, %q", a.Spec.SchedulerName, a.Status.Phase)
	}
}

// The value of a PriorityClass stays, as with an API server: pods have it already.
func TestThePriorityOfAClassStays(t *testing.T) {
	r := newRig(t)
	class := func(value int32, description string) *schedulingv1.PriorityClass {
		return &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "high"}, Value: value, Description: description}
	}
	r.apply(t, class(7, ""))
	r.apply(t, class(7, "told better"))
	_, _, err := r.Apply(t.Context(), r.fence, []runtime.Object{class(8, "")}, false)
	if _, ok := err.(*store.InvalidError); !ok || !strings.Contains(fmt.Sprint(err), "value: Forbidden: field is immutable") {
		t.Errorf("another value: got %v, want an InvalidError", err)
	}
}

// What a PodGroup asks for stays, and so does what the scheduler has said of it.
func TestAPodGroupStays(t *testing.T) {
	r := newRig(t)
	gang := func(count int32) *schedulingv1alpha2.PodGroup {
		g := &schedulingv1alpha2.PodGroup{ObjectMeta: metav1.ObjectMeta{Name: "train", Namespace: "default"}}
		g.Spec.SchedulingPolicy.Gang = &schedulingv1alpha2.GangSchedulingPolicy{MinCount: count}
		return g
	}
	said := gang(2)
	said.Status.Conditions = []metav1.Condition{{Type: schedulingv1alpha2.PodGroupScheduled, Status: metav1.ConditionTrue, Reason: "Scheduled"}}
	r.apply(t, said)
	labelled := gang(2)
	labelled.Labels = map[string]string{"a": "b"}
	r.apply(t, labelled)
	got, ok := r.load(t).Cluster[0].(*schedulingv1alpha2.PodGroup)
	if !ok || got.Labels["a"] != "b" || len(got.Status.Conditions) != 1 || got.Generation != 1 {
		t.Errorf("got %+v, want the label, the condition and generation 1", got)
	}
	_, _, err := r.Apply(t.Context(), r.fence, []runtime.Object{gang(3)}, false)
	if _, ok := err.(*store.InvalidError); !ok || !strings.Contains(fmt.Sprint(err), "spec: Forbidden: field is immutable") {
		t.Errorf("another minCount: got %v, want an InvalidError", err)
	}
}

// A pod that is there joins no PodGroup, and leaves none.
func TestAPodStaysInItsPodGroup(t *testing.T) {
	r := newRig(t)
	r.apply(t, pod("a"))
	joins := pod("a")
	joins.Spec.SchedulingGroup = &v1.PodSchedulingGroup{PodGroupName: new("train")}
	_, _, err := r.Apply(t.Context(), r.fence, []runtime.Object{joins}, false)
	if _, ok := err.(*store.InvalidError); !ok || !strings.Contains(fmt.Sprint(err), "spec.schedulingGroup: Forbidden: field is immutable") {
		t.Errorf("got %v, want an InvalidError", err)
	}
}

func TestADryRunWritesNothing(t *testing.T) {
	r := newRig(t)
	r.apply(t, pod("there"))
	before := r.load(t).Revision
	got, _, err := r.Apply(t.Context(), r.fence, []runtime.Object{pod("there"), pod("new")}, true)
	if err != nil {
		t.Fatal(err)
	}
	wantOutcomes(t, got, same, created)
	if after := r.load(t); after.Revision != before || len(after.Pods) != 1 {
		t.Errorf("after a dry run: revision %d with %d pods, want %d with 1", after.Revision, len(after.Pods), before)
	}
}

func TestApplyForgetsWhatADumpCarries(t *testing.T) {
	r := newRig(t)
	p := pod("a")
	now := metav1.Now()
	p.UID, p.ResourceVersion, p.Generation, p.DeletionTimestamp = "theirs", "77", 9, &now
	p.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubectl"}}
	p.Spec.NodeName = "n1"
	p.Status.Phase = v1.PodRunning
	r.apply(t, p)
	got := r.pod(t, "a")
	if got.UID != "uid-1" || got.Generation != 1 || got.DeletionTimestamp != nil || got.ManagedFields != nil {
		t.Errorf("got %+v, want metadata of its own", got.ObjectMeta)
	}
	if got.Spec.NodeName != "n1" || got.Status.Phase != v1.PodRunning {
		t.Errorf("got node %q and phase %q, want those of the dump", got.Spec.NodeName, got.Status.Phase)
	}
}

func TestANodeManifestWithoutStatusKeepsTheStatus(t *testing.T) {
	r := newRig(t)
	r.apply(t, node("n1"))
	bare := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}, Spec: v1.NodeSpec{Unschedulable: true}}
	r.apply(t, bare)
	got := r.load(t).Nodes[0]
	if !got.Spec.Unschedulable || got.Status.Allocatable.Cpu().Cmp(resource.MustParse("8")) != 0 {
		t.Errorf("got unschedulable %v with %v, want true with 8 cores", got.Spec.Unschedulable, got.Status.Allocatable)
	}
}

func TestWhatMayChangeOfAPodThatIsThere(t *testing.T) {
	bigger := func(p *v1.Pod) {
		p.Spec.Containers[0].Resources.Requests[v1.ResourceCPU] = resource.MustParse("2")
	}
	for name, tc := range map[string]struct {
		bound string
		edit  func(*v1.Pod)
		want  pb.ApplyOutcome
		phase v1.PodPhase // empty: as before
		err   string
	}{
		"nothing, pending":             {edit: func(*v1.Pod) {}, want: same},
		"nothing, bound":               {bound: "n1", edit: func(*v1.Pod) {}, want: same},
		"requests of a pending pod":    {edit: bigger, want: changed},
		"requests of a bound pod":      {bound: "n1", edit: bigger, err: "spec: Forbidden: the pod is on node n1"},
		"labels of a bound pod":        {bound: "n1", edit: func(p *v1.Pod) { p.Labels["x"] = "y" }, want: changed},
		"the node of a pending pod":    {edit: func(p *v1.Pod) { p.Spec.NodeName = "n1" }, err: "spec.nodeName: Forbidden: the pod is there and pending"},
		"the node of a bound pod":      {bound: "n1", edit: func(p *v1.Pod) { p.Spec.NodeName = "n2" }, err: "spec.nodeName: Forbidden: the pod is on node n1"},
		"the same node of a bound pod": {bound: "n1", edit: func(p *v1.Pod) { p.Spec.NodeName = "n1" }, want: same},
		"the status":                   {edit: func(p *v1.Pod) { p.Status.Phase = v1.PodRunning }, want: same},
		"that a bound pod has ended":   {bound: "n1", edit: func(p *v1.Pod) { p.Status.Phase = v1.PodSucceeded }, want: changed, phase: v1.PodSucceeded},
		"that a pending pod has ended": {edit: func(p *v1.Pod) { p.Status.Phase = v1.PodFailed }, want: changed, phase: v1.PodFailed},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.apply(t, pod("a"))
			before := r.pod(t, "a")
			if tc.bound != "" {
				if errs := r.Bind(t.Context(), r.fence, []objects.Binding{{Pod: before, Node: tc.bound}}); errs[0] != nil {
					t.Fatal(errs[0])
				}
			}
			next := pod("a")
			tc.edit(next)
			got, _, err := r.Apply(t.Context(), r.fence, []runtime.Object{next}, false)
			if tc.err != "" {
				var invalid *store.InvalidError
				if !errors.As(err, &invalid) || !strings.Contains(err.Error(), tc.err) {
					t.Errorf("got %v, want an InvalidError with %q", err, tc.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			wantOutcomes(t, got, tc.want)
			after := r.pod(t, "a")
			if after.UID != before.UID || after.Spec.NodeName != tc.bound || after.Status.Phase != cmp.Or(tc.phase, before.Status.Phase) {
				t.Errorf("got uid %s on %q in phase %s, want %s on %q in %s", after.UID, after.Spec.NodeName, after.Status.Phase, before.UID, tc.bound, cmp.Or(tc.phase, before.Status.Phase))
			}
		})
	}
}

func TestNothingIsWrittenWhenOneObjectIsInvalid(t *testing.T) {
	r := newRig(t)
	r.apply(t, pod("there"))
	before := r.load(t).Revision
	negative := pod("negative")
	negative.Spec.Containers[0].Resources.Requests[v1.ResourceCPU] = resource.MustParse("-1")
	moved := pod("there")
	moved.Spec.NodeName = "n1"
	for name, bad := range map[string][]runtime.Object{
		"a field":            {pod("good"), negative},
		"a name twice":       {pod("good"), pod("twice"), pod("twice")},
		"against what it is": {pod("good"), moved},
	} {
		got, _, err := r.Apply(t.Context(), r.fence, bad, false)
		var invalid *store.InvalidError
		if !errors.As(err, &invalid) {
			t.Errorf("%s: got %v, %v, want an InvalidError", name, got, err)
			continue
		}
		if last := invalid.Objects[len(invalid.Objects)-1]; last.Index != len(bad)-1 {
			t.Errorf("%s: got index %d, want %d", name, last.Index, len(bad)-1)
		}
	}
	if after := r.load(t).Revision; after != before {
		t.Errorf("revision: got %d, want %d as before", after, before)
	}
	if _, _, err := r.Apply(t.Context(), r.fence, []runtime.Object{&v1.Secret{}}, false); !errors.Is(err, objects.ErrUnknownKind) {
		t.Errorf("a Secret: got %v, want ErrUnknownKind", err)
	}
}

func TestPodsOfARequestArriveInItsOrder(t *testing.T) {
	r := newRig(t)
	w := r.watch(t, r.load(t).Revision)
	objs := pods("p", 350)
	slices.Reverse(objs)
	r.apply(t, objs...)
	last := int64(0)
	for i := range objs {
		e := w.next(t)
		if e.Revision < last {
			t.Fatalf("event %d: revision %d after %d", i, e.Revision, last)
		}
		last = e.Revision
	}
	loaded := r.load(t).Pods
	if first, want := loaded[0].Name, "p-0349"; first < "p-0250" {
		t.Errorf("first pod loaded: got %s, want one of the first transaction, which begins with %s", first, want)
	}
}

func TestConcurrentAppliesOfOnePodAllSucceed(t *testing.T) {
	r := newRig(t)
	var group sync.WaitGroup
	for i := range 8 {
		group.Go(func() {
			p := pod("a")
			p.Labels["writer"] = fmt.Sprint(i)
			if _, _, err := r.Apply(t.Context(), r.fence, []runtime.Object{p}, false); err != nil {
				t.Errorf("writer %d: %v", i, err)
			}
		})
	}
	group.Wait()
	if got := r.load(t).Pods; len(got) != 1 {
		t.Errorf("got %d pods, want 1", len(got))
	}
}

func TestLargeObjectsAreSplitOverTransactions(t *testing.T) {
	r := newRig(t)
	big := make([]runtime.Object, 20)
	for i := range big {
		p := pod(fmt.Sprintf("big-%d", i))
		p.Annotations = map[string]string{"filling": strings.Repeat("x", 200<<10)}
		big[i] = p
	}
	r.apply(t, big...)
	if got := len(r.load(t).Pods); got != len(big) {
		t.Errorf("got %d pods, want %d", got, len(big))
	}
}

func TestDeleteTellsWhatWasThere(t *testing.T) {
	r := newRig(t)
	r.apply(t, pod("a"), pod("b"), node("n1"))
	entries := map[types.UID]*pb.QueueEntry{"uid-1": {Pod: "default/a"}, "uid-2": {Pod: "default/b"}}
	if err := r.SaveEntries(t.Context(), r.fence, entries, nil); err != nil {
		t.Fatal(err)
	}
	got, revision, err := r.Delete(t.Context(), r.fence, []objects.Ref{
		ref(objects.KindPod, "default", "a"), ref(objects.KindPod, "default", "none"), ref(objects.KindNode, "", "n1"),
	})
	if err != nil {
		t.Fatal(err)
	}
	if want := "[true false true]"; fmt.Sprint(got) != want {
		t.Errorf("deleted: got %v, want %s", got, want)
	}
	all := r.load(t)
	if len(all.Nodes) != 0 || len(all.Pods) != 1 || all.Pods[0].Name != "b" || all.Revision < revision {
		t.Errorf("left: got %d nodes and %d pods at %d, want pod b alone at %d or later", len(all.Nodes), len(all.Pods), all.Revision, revision)
	}
	left, err := r.LoadEntries(t.Context())
	if err != nil || len(left) != 1 || left["uid-2"] == nil {
		t.Errorf("journal: got %v, %v, want the entry of b alone", left, err)
	}
}

func TestDeleteValidatesItsReferences(t *testing.T) {
	r := newRig(t)
	for name, refs := range map[string][]objects.Ref{
		"unknown kind":        {ref("Secret", "default", "a")},
		"pod without name":    {ref(objects.KindPod, "default", "")},
		"pod without ns":      {ref(objects.KindPod, "", "a")},
		"node with namespace": {ref(objects.KindNode, "default", "a")},
		"a path":              {ref(objects.KindPod, "default", "../b")},
		"twice":               {ref(objects.KindNode, "", "a"), ref(objects.KindNode, "", "a")},
	} {
		var invalid *store.InvalidError
		if _, _, err := r.Delete(t.Context(), r.fence, refs); !errors.As(err, &invalid) {
			t.Errorf("%s: got %v, want an InvalidError", name, err)
		}
	}
}
