package store_test

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/shardsched/shardsched/coordinator/lease"
	"github.com/shardsched/shardsched/coordinator/objects"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

const why = "default-scheduler: preempting to accommodate a higher priority pod"

func preemptor() *v1.Pod {
	p := pod("preemptor")
	p.UID, p.Spec.SchedulerName = "uid-preemptor", "default-scheduler"
	return p
}

// stored applies pods and returns them as they are kept.
func (r *rig) stored(t *testing.T, pods ...*v1.Pod) []*v1.Pod {
	t.Helper()
	out := make([]*v1.Pod, len(pods))
	for i, p := range pods {
		r.apply(t, p)
		out[i] = r.pod(t, p.Name)
	}
	return out
}

func TestVictimsAreSeenToLeaveAndWhy(t *testing.T) {
	r := newRig(t)
	onNode := pod("a")
	onNode.Spec.NodeName = "n1"
	victims := r.stored(t, onNode, pod("b"))
	if err := r.SaveEntries(t.Context(), r.fence, map[types.UID]*pb.QueueEntry{victims[1].UID: {Pod: "default/b"}}, nil); err != nil {
		t.Fatal(err)
	}
	w := r.watch(t, r.load(t).Revision)
	if err := r.Evict(t.Context(), r.fence, &objects.Eviction{Preemptor: preemptor(), Node: "n1", Victims: victims}); err != nil {
		t.Fatal(err)
	}
	seen := map[string][]objects.EventType{}
	for range 4 {
		e := w.next(t)
		seen[e.Pod.Name] = append(seen[e.Pod.Name], e.Type)
		c := e.Pod.Status.Conditions
		if len(c) == 0 || c[len(c)-1].Type != v1.DisruptionTarget || c[len(c)-1].Status != v1.ConditionTrue ||
			c[len(c)-1].Reason != v1.PodReasonPreemptionByScheduler || c[len(c)-1].Message != why || !c[len(c)-1].LastTransitionTime.Time.Equal(birth) {
			t.Errorf("%s: got conditions %+v, want that it is the scheduler's victim", e.Pod.Name, c)
		}
	}
	for _, name := range []string{"a", "b"} {
		if got := seen[name]; len(got) != 2 || got[0] != objects.Modified || got[1] != objects.Deleted {
			t.Errorf("%s: got %v, want it told, then deleted", name, got)
		}
	}
	if entries, err := r.LoadEntries(t.Context()); err != nil || len(entries) != 0 {
		t.Errorf("journal: got %v, %v, want none", entries, err)
	}
}

// A pod that nobody but its controller would make again is made again, and says for whom it left; one without a controller is gone.
func TestAVictimOfAWorkloadIsMadeAgain(t *testing.T) {
	r := newRig(t)
	owned, alone := pod("owned"), pod("alone")
	owned.Spec.NodeName, alone.Spec.NodeName = "n1", "n1"
	owned.Labels = map[string]string{"app": "web"}
	yes := true
	owned.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web", UID: "uid-web", Controller: &yes}}
	victims := r.stored(t, owned, alone)
	e := &objects.Eviction{Preemptor: preemptor(), Node: "n1", Victims: victims}
	for range 2 { // it may be called again
		if err := r.Evict(t.Context(), r.fence, e); err != nil {
			t.Fatal(err)
		}
	}
	all := r.load(t).Pods
	if len(all) != 1 {
		t.Fatalf("got %d pods, want the one that has a controller", len(all))
	}
	p := all[0]
	if p.Name != "owned" || p.UID == victims[0].UID || p.UID == "" || p.Spec.NodeName != "" || len(p.Status.Conditions) != 0 || p.Labels["app"] != "web" ||
		len(p.OwnerReferences) != 1 || p.Annotations[objects.PreemptedBy] != "default/preemptor" {
		t.Errorf("got %+v, want the pod anew, without a node, which says that it left for default/preemptor", p)
	}
}

func TestWhoIsMeantByAnEviction(t *testing.T) {
	r := newRig(t)
	lower := func(name, nominated, node string) *v1.Pod {
		p := pod(name)
		p.Status.NominatedNodeName, p.Spec.NodeName = nominated, node
		return p
	}
	low := r.stored(t, lower("here", "n1", ""), lower("there", "n2", ""), lower("bound", "n1", "n1"), lower("gone", "n1", ""))
	victims := r.stored(t, pod("replaced"), pod("left"))
	for _, p := range []*v1.Pod{low[3], victims[0], victims[1]} {
		if err := r.Evict(t.Context(), r.fence, &objects.Eviction{Preemptor: preemptor(), Node: "n1", Victims: []*v1.Pod{p}}); err != nil {
			t.Fatal(err)
		}
	}
	r.apply(t, pod("replaced"))
	if err := r.Evict(t.Context(), r.fence, &objects.Eviction{Preemptor: preemptor(), Node: "n1", Victims: victims, Lower: low}); err != nil {
		t.Fatal(err)
	}
	if p := r.pod(t, "replaced"); len(p.Status.Conditions) > 0 {
		t.Errorf("another of a victim's name: got conditions %v, want it untouched", p.Status.Conditions)
	}
	for name, want := range map[string]string{"here": "", "there": "n2", "bound": "n1"} {
		if got := r.pod(t, name).Status.NominatedNodeName; got != want {
			t.Errorf("%s: got nominated node %q, want %q", name, got, want)
		}
	}
	// Again, with nobody left.
	if err := r.Evict(t.Context(), r.fence, &objects.Eviction{Preemptor: preemptor(), Node: "n1", Victims: victims, Lower: low}); err != nil {
		t.Errorf("again: got %v, want no error", err)
	}
}

func TestADeposedLeaderEvictsNobody(t *testing.T) {
	r := newRig(t)
	victims := r.stored(t, pod("a"))
	r.depose(t)
	wantError(t, "evict", r.Evict(t.Context(), r.fence, &objects.Eviction{Preemptor: preemptor(), Node: "n1", Victims: victims}), lease.ErrDeposed)
	if p := r.pod(t, "a"); len(p.Status.Conditions) > 0 {
		t.Errorf("got conditions %v, want none", p.Status.Conditions)
	}
}
