package store_test

import (
	"fmt"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/shardsched/shardsched/coordinator/objects"
	"github.com/shardsched/shardsched/internal/testkit/build"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// dbSize is how much of etcd's database is in use.
func (r *rig) dbSize(t *testing.T) int64 {
	t.Helper()
	// It brings to the file what was written.
	if _, err := r.client.Defragment(t.Context(), r.client.Endpoints()[0]); err != nil {
		t.Fatal(err)
	}
	s, err := r.client.Status(t.Context(), r.client.Endpoints()[0])
	if err != nil {
		t.Fatal(err)
	}
	return s.DbSizeInUse
}

// TestWhatTenThousandPodsTake holds the figures of docs/etcd.md, "What is written". It logs what it measures.
func TestWhatTenThousandPodsTake(t *testing.T) {
	const n, mega = 10_000, 1e6
	r := newRig(t)
	before := r.dbSize(t)
	step := func(what string, least, most float64, do func()) {
		t.Helper()
		do()
		after := r.dbSize(t)
		got := float64(after-before) / mega
		before = after
		t.Logf("%s: %.1f MB for 10,000 pods", what, got)
		if got < least || got > most {
			t.Errorf("%s: got %.1f MB, want between %.1f and %.1f", what, got, least, most)
		}
	}
	step("an attempt that fails, in the journal", 4, 7, func() {
		now := timestamppb.New(time.Unix(1_700_000_000, 123_456_789))
		put := map[types.UID]*pb.QueueEntry{}
		for i := range n {
			put[types.UID(fmt.Sprintf("5f3c7b1e-9c1d-4a53-8d1e-%012d", i))] = &pb.QueueEntry{
				Pod: fmt.Sprintf("namespace-%02d/web-7d4b9c5f6-x%05d", i%50, i), Attempts: 7, FirstAttempt: now, Queued: now, BackoffUntil: now,
				UnschedulableCount: 7, RejectedBy: []string{"NodeAffinity", "NodeResourcesFit"},
				Message: "0/5000 nodes are available: 1200 node(s) didn't match Pod's node affinity/selector, 3800 Insufficient cpu. " +
					"preemption: 0/5000 nodes are available: 5000 Preemption is not helpful for scheduling.",
			}
		}
		if err := r.SaveEntries(t.Context(), r.fence, put, nil); err != nil {
			t.Fatal(err)
		}
	})
	var all []runtime.Object
	step("a pod, as applied", 4, 7, func() {
		for i := range n {
			p := build.Pod(fmt.Sprintf("web-7d4b9c5f6-x%05d", i)).CPU("500m").Memory("1Gi").Label("app", "web").Label("pod-template-hash", "7d4b9c5f6").Obj()
			p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web-7d4b9c5f6", UID: "5f3c7b1e-9c1d-4a53-8d1e-000000000000"}}
			all = append(all, p)
		}
		r.apply(t, all...)
	})
	step("a bind, which writes the pod again", 5, 9, func() {
		var bindings []objects.Binding
		for _, p := range r.load(t).Pods {
			bindings = append(bindings, objects.Binding{Pod: p, Node: "ip-10-0-0-1.example.internal"})
		}
		for i, err := range r.Bind(t.Context(), r.fence, bindings) {
			if err != nil {
				t.Fatalf("bind %d: %v", i, err)
			}
		}
	})
}
