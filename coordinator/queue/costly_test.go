package queue

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/shardsched/shardsched/coordinator/build"
)

// Pods whose preparation was costly are popped behind all others, whatever their priority, one a batch; no pod that
// arrives takes the turn of such a one away, and the next attempt may be cheap again.
func TestCostlyPodsWaitBehindOthers(t *testing.T) {
	now := time.Unix(1e9, 0)
	q := New(Config{Now: func() time.Time { return now }})
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
	q := New(Config{Now: func() time.Time { return now }})
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

// Pods that are set aside are popped by what they wait for, in the queue's order, behind none that has come since; what
// happens to them meanwhile happens as to all that are active.
func TestPodsThatAreSetAside(t *testing.T) {
	now := time.Unix(1e9, 0)
	q := New(Config{Now: func() time.Time { return now }})
	for i := range 5 {
		q.Add(build.Pod(fmt.Sprint(i)).UID(fmt.Sprint(i)).Priority(int32(i)).Obj())
	}
	for i, p := range q.PopBatch(9, nil) {
		q.SetAside(p, uint64(1+i%2)) // 4, 2 and 0 for 1, the others for 2
	}
	names := func(pods []*Pod) (out []string) {
		for _, p := range pods {
			out = append(out, p.Obj.Name)
		}
		return out
	}
	q.Add(build.Pod("plain").UID("plain").Obj())
	if got := names(q.PopBatch(9, nil)); !slices.Equal(got, []string{"plain"}) || q.Len(Active) != 5 {
		t.Errorf("got %q, and %d active, want the plain one and 5", got, q.Len(Active))
	}
	q.Delete("2")
	if got := q.AsideFor(); got != 1 {
		t.Errorf("the first waits for %d, want 1", got)
	}
	pods := q.PopAside(1, 9, nil)
	if got := names(pods); !slices.Equal(got, []string{"4", "0"}) {
		t.Errorf("popped %q, want 4 and 0", got)
	}
	q.Add(build.Pod("important").UID("important").Priority(99).Obj())
	for _, p := range pods {
		if !q.Turn(p) || p.Attempts != 1 {
			t.Errorf("pod %s loses its turn in attempt %d to one that has come since", p.Obj.Name, p.Attempts)
		}
	}
	q.Unschedulable(pods[0], []string{"NodeResourcesFit"}, "no")
	q.GiveBack(pods[1])
	if got := names(q.PopBatch(9, nil)); !slices.Equal(got, []string{"important", "0"}) {
		t.Errorf("popped %q, want those that are not set aside", got)
	}
	if got := names(q.PopAside(2, 1, nil)); !slices.Equal(got, []string{"3"}) {
		t.Errorf("popped %q, want the first of two", got)
	}
}

// Namespaces take turns among pods that are set aside, however many one of them has, and of what priority.
func TestNamespacesTakeTurnsAside(t *testing.T) {
	q := New(Config{})
	for i := range 5 {
		name := fmt.Sprint("loud-", i)
		q.Add(build.Pod(name).Namespace("loud").UID(name).Priority(9).Obj())
	}
	for i := range 2 {
		name := fmt.Sprint("calm-", i)
		q.Add(build.Pod(name).Namespace("calm").UID(name).Obj())
	}
	for i, p := range q.PopBatch(9, nil) {
		q.SetAside(p, uint64(1+i))
	}
	var got []string
	for q.Aside() > 0 {
		for _, p := range q.PopAside(q.AsideFor(), 9, nil) {
			got = append(got, p.Obj.Name)
		}
	}
	if want := []string{"loud-0", "calm-0", "loud-1", "calm-1", "loud-2", "loud-3", "loud-4"}; !slices.Equal(got, want) {
		t.Errorf("popped %q, want %q", got, want)
	}
}
