package oracle

import (
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/shardsched/shardsched/internal/testkit/build"
)

// member is a pod of a pod group that takes a whole node of the tests.
func member(group string, i int) *v1.Pod {
	return build.Pod(fmt.Sprintf("%s-%d", group, i)).Member(group).CPU("3").Obj()
}

func TestSchedulerRunsTheCycleOfAPodGroup(t *testing.T) {
	restore, err := PodGroups(Gates{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(restore)
	c, err := DefaultConfig()
	if err != nil {
		t.Fatal(err)
	}
	s, err := NewScheduler(t.Context(), c, 100)
	if err != nil {
		t.Fatal(err)
	}
	for _, obj := range []Object{
		build.Node("a").CPU("4").Obj(), build.Node("b").CPU("4").Obj(),
		build.Gang("large", 3).Obj(), member("large", 0), member("large", 1), member("large", 2),
		build.Gang("small", 2).Obj(), member("small", 0), member("small", 1),
	} {
		if err := s.Set(obj); err != nil {
			t.Fatal(err)
		}
	}
	bound, failed, err := s.Next(t.Context(), 3)
	if err != nil || len(bound) != 0 || len(failed) != 3 {
		t.Fatalf("three members on two nodes: got %v bound, %v not, %v, want nobody bound", bound, failed, err)
	}
	const held = "pod group is unschedulable, waiting for minCount pods from a gang to be scheduled, " +
		"one or more plugins asked to wait and no plugin rejected pod"
	if failed[0].Message != held {
		t.Errorf("of a member that fits: got %q, want %q", failed[0].Message, held)
	}
	if bound, failed, err = s.Next(t.Context(), 2); err != nil || len(bound) != 2 || len(failed) != 0 {
		t.Errorf("two members on two nodes: got %v bound, %v not, %v, want both bound", bound, failed, err)
	}
}
