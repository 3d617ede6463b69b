package queue

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/shardsched/shardsched/internal/testkit/build"
)

// Pods whose preparation was costly are popped behind all others, whatever their priority, one a batch; no pod that
// arrives takes the turn of such a one away, and the next attempt may be cheap again.
func TestCostlyPodsWaitBehindOthers(t *testing.T) {
	now := time.Unix(1e9, 0)
	q := newOf(Config{Now: func() time.Time { return now }})
	for i := range 3 {
		q.Add(build.Pod(fmt.Sprint("costly", i)).UID(fmt.Sprint("costly", i)).Priority(9).Obj())
	}
	for _, p := range q.PopBatch(9, nil) {
		p.Cost = Costly + 1
		q.GiveBack(p)
	}
	added := 0
	add := func(n int) {
		for range n {
			added++
			name := fmt.Sprintf("plain-%d", added)
			q.Add(build.Pod(name).UID(name).Obj())
		}
	}
	batch := func(n int) (names []string, pods []*Pod) {
		pods = q.PopBatch(n, nil)
		for _, p := range pods {
			name, _, _ := strings.Cut(p.Obj.Name, "-")
			names = append(names, name)
		}
		return names, pods
	}
	want := func(what string, got []string, want ...string) {
		t.Helper()
		if !slices.Equal(got, want) {
			t.Errorf("%s: got %q, want %q", what, got, want)
		}
	}
	add(3)
	names, _ := batch(1)
	want("a batch of one", names, "plain")
	names, pods := batch(2)
	want("with more of the others than there is room for", names, "plain", "costly0")
	add(1)
	if !q.Turn(pods[1]) {
		t.Error("a pod that has come since takes the costly one's turn")
	}
	pods[1].Cost = Costly
	q.GiveBack(pods[1])
	names, _ = batch(9)
	want("it was cheap", names, "costly0", "plain", "plain", "costly1")
	names, pods = batch(9)
	want("with no other", names, "costly2")
	q.Unschedulable(pods[0], []string{"NodeResourcesFit"}, "no")
	q.Delete(pods[0].Obj.UID)
	if names, _ = batch(9); len(names) != 0 || q.Len(Active) != 0 {
		t.Errorf("at the end: got %q and %d active, want none", names, q.Len(Active))
	}
}

// Of pods that are popped before their backoff is over a batch has one costly one at the most, too.
func TestCostlyPodsThatBackOff(t *testing.T) {
	now := time.Unix(1e9, 0)
	q := newOf(Config{Now: func() time.Time { return now }})
	for i := range 3 {
		q.Add(build.Pod(fmt.Sprint(i)).UID(fmt.Sprint(i)).Obj())
	}
	for _, p := range q.PopBatch(9, nil) {
		p.Cost = Costly + 1
		q.Unschedulable(p, []string{"NodeResourcesFit"}, "no")
	}
	q.Move(NodeAdded(build.Node("n").CPU("4").Obj()))
	if n := q.Len(Backoff); n != 3 {
		t.Fatalf("got %d backing off, want 3", n)
	}
	for range 3 {
		if n := len(q.PopBatch(9, nil)); n != 1 {
			t.Errorf("got a batch of %d, want 1", n)
		}
	}
}
