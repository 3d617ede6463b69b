package store_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/shardsched/shardsched/coordinator/objects"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

func TestABoundPodHasItsNodeItsConditionAndNoQueueEntry(t *testing.T) {
	r := newRig(t)
	r.apply(t, pod("a"))
	p := r.pod(t, "a")
	if err := r.SaveEntries(t.Context(), r.fence, map[types.UID]*pb.QueueEntry{p.UID: {Pod: "default/a", Attempts: 3}}, nil); err != nil {
		t.Fatal(err)
	}
	p.Status.NominatedNodeName = "n0"
	p.Status.Conditions = []v1.PodCondition{{Type: v1.PodScheduled, Status: v1.ConditionFalse, Reason: "Unschedulable"}, {Type: "Mine", Status: v1.ConditionTrue}}
	before := p.DeepCopy()
	if errs := r.Bind(t.Context(), r.fence, []objects.Binding{{Pod: p, Node: "n1"}}); errs[0] != nil {
		t.Fatal(errs[0])
	}
	if fmt.Sprint(p) != fmt.Sprint(before) {
		t.Errorf("the caller's pod was changed: got %v, want %v", p, before)
	}
	got := r.pod(t, "a")
	if got.Spec.NodeName != "n1" || got.Status.NominatedNodeName != "" {
		t.Errorf("got node %q, nominated %q, want n1 and none", got.Spec.NodeName, got.Status.NominatedNodeName)
	}
	if c := got.Status.Conditions; len(c) != 2 || c[0].Type != "Mine" || c[1].Type != v1.PodScheduled || c[1].Status != v1.ConditionTrue || c[1].Reason != "" || !c[1].LastTransitionTime.Time.Equal(birth) {
		t.Errorf("conditions: got %+v, want Mine and PodScheduled=True since %v", c, birth)
	}
	if at, by := objects.Arrival(got); by != "the-leader" || !at.Time.Equal(birth) {
		t.Errorf("got it decided by %q at %v, want the-leader at %v", by, at, birth)
	}
	if entries, err := r.LoadEntries(t.Context()); err != nil || len(entries) != 0 {
		t.Errorf("journal: got %v, %v, want none", entries, err)
	}
}

func TestARefusedBindingSaysWhyAndTheOthersAreCommitted(t *testing.T) {
	r := newRig(t)
	r.apply(t, pods("p", 150)...)
	loaded := map[string]*v1.Pod{}
	for _, p := range r.load(t).Pods {
		loaded[p.Name] = p
	}
	// What happens to pods between their decision and their bind.
	relabelled := pod("p-0010")
	relabelled.Labels["app"] = "db"
	r.apply(t, relabelled)
	gone := []objects.Ref{ref(objects.KindPod, "default", "p-0020"), ref(objects.KindPod, "default", "p-0030")}
	if _, _, err := r.Delete(t.Context(), r.fence, gone); err != nil {
		t.Fatal(err)
	}
	r.apply(t, pod("p-0030"))
	if errs := r.Bind(t.Context(), r.fence, []objects.Binding{{Pod: loaded["p-0040"], Node: "elsewhere"}}); errs[0] != nil {
		t.Fatal(errs[0])
	}

	bs := make([]objects.Binding, 0, 152)
	for i := range 150 {
		bs = append(bs, objects.Binding{Pod: loaded[fmt.Sprintf("p-%04d", i)], Node: "n1"})
	}
	bs = append(bs, objects.Binding{Pod: r.pod(t, "p-0040"), Node: "n1"}, objects.Binding{Pod: pod("never-stored"), Node: "n1"})
	errs := r.Bind(t.Context(), r.fence, bs)
	for i, want := range map[int]error{10: objects.ErrConflict, 20: objects.ErrNotFound, 30: objects.ErrNotFound, 40: objects.ErrAlreadyBound, 150: objects.ErrAlreadyBound} {
		wantError(t, fmt.Sprintf("binding %d", i), errs[i], want)
		errs[i] = nil
	}
	if errs[151] == nil {
		t.Error("a pod that was never stored: got no error")
	}
	for i, err := range errs[:151] {
		if err != nil {
			t.Errorf("binding %d: got %v, want none", i, err)
		}
	}
	bound := 0
	for _, p := range r.load(t).Pods {
		if p.Spec.NodeName == "n1" {
			bound++
		}
	}
	if want := 150 - 4; bound != want {
		t.Errorf("pods on n1: got %d, want %d", bound, want)
	}
}

func TestABindingMayBeAskedForAgain(t *testing.T) {
	r := newRig(t)
	r.apply(t, pod("a"))
	b := objects.Binding{Pod: r.pod(t, "a"), Node: "n1"}
	for range 2 {
		if errs := r.Bind(t.Context(), r.fence, []objects.Binding{b}); errs[0] != nil {
			t.Fatal(errs[0])
		}
	}
	twice := r.Bind(t.Context(), r.fence, []objects.Binding{b, b})
	if twice[0] != nil {
		t.Errorf("the first of two equal ones: got %v, want none", twice[0])
	}
	wantError(t, "the second of two equal ones", twice[1], objects.ErrConflict)
	b.Node = "n2"
	wantError(t, "to another node", r.Bind(t.Context(), r.fence, []objects.Binding{b})[0], objects.ErrAlreadyBound)
}

func TestOfConcurrentBindsOfOnePodOneWins(t *testing.T) {
	r := newRig(t)
	r.apply(t, pods("p", 120)...)
	loaded := r.load(t).Pods
	var wins atomic.Int64
	var group sync.WaitGroup
	for n := range 4 {
		group.Go(func() {
			bs := make([]objects.Binding, len(loaded))
			for i, p := range loaded {
				bs[i] = objects.Binding{Pod: p, Node: fmt.Sprintf("n%d", n)}
			}
			for i, err := range r.Bind(t.Context(), r.fence, bs) {
				if err == nil {
					wins.Add(1)
				} else {
					wantError(t, fmt.Sprintf("pod %d to n%d", i, n), err, objects.ErrAlreadyBound)
				}
			}
		})
	}
	group.Wait()
	if got, want := wins.Load(), int64(len(loaded)); got != want {
		t.Errorf("binds that won: got %d, want %d", got, want)
	}
}

func TestABindAgainstAnApplyLosesNeither(t *testing.T) {
	r := newRig(t)
	r.apply(t, pods("p", 50)...)
	loaded := r.load(t).Pods
	var group sync.WaitGroup
	var errs []error
	group.Go(func() {
		bs := make([]objects.Binding, len(loaded))
		for i, p := range loaded {
			bs[i] = objects.Binding{Pod: p, Node: "n1"}
		}
		errs = r.Bind(t.Context(), r.fence, bs)
	})
	group.Go(func() {
		objs := pods("p", 50)
		for _, o := range objs {
			o.(*v1.Pod).Labels["touched"] = "yes"
		}
		r.apply(t, objs...)
	})
	group.Wait()
	after := map[string]*v1.Pod{}
	for _, p := range r.load(t).Pods {
		after[p.Name] = p
	}
	for i, err := range errs {
		p := after[loaded[i].Name]
		if p.Labels["touched"] != "yes" {
			t.Errorf("%s: the apply is lost", p.Name)
		}
		if err != nil {
			wantError(t, p.Name, err, objects.ErrConflict)
		}
		if want := err == nil; (p.Spec.NodeName == "n1") != want {
			t.Errorf("%s: got node %q, bind said %v", p.Name, p.Spec.NodeName, err)
		}
	}
}
