package queue

import (
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/shardsched/shardsched/coordinator/groups"
	"github.com/shardsched/shardsched/internal/testkit/build"
)

// patient makes a gang of two that is given up after 10 minutes, and tried again after retry.
func (x *gangs) patient(group, retry string) {
	x.Helper()
	obj := build.Gang(group, 2).Annotation(groups.GiveUpAfter, "10m")
	if retry != "" {
		obj.Annotation(groups.RetryAfter, retry)
	}
	x.states.Set(obj.Obj())
	for i := range 2 {
		x.add(member(fmt.Sprintf("%s-%d", group, i), group).Obj())
	}
}

// failAll pops what there is, and fails it.
func (x *gangs) failAll() (tried int) {
	x.Helper()
	pods, _ := x.pop(100)
	if len(pods) > 0 {
		x.fail(pods, 2, 1)
	}
	return len(pods)
}

func (x *gangs) after(d time.Duration) {
	x.Helper()
	x.now = x.now.Add(d)
	x.Flush()
	check(x.TB, x.Queue)
}

func TestAGangIsGivenUpAndTriedAgainAsItAsks(t *testing.T) {
	x := newGangs(t)
	var told []string
	x.gaveUp = func(g *Group) { told = append(told, g.Name().Name) }
	x.patient("g", "5m")
	x.failAll()
	if wake := x.NextWake(); wake.After(x.now.Add(10 * time.Minute)) {
		t.Errorf("it wakes at %v, want no later than its deadline", wake)
	}
	x.after(6 * time.Minute)
	if x.failAll() != 2 { // flushed
		t.Error("it is not tried before its time is over")
	}
	x.after(4*time.Minute + time.Second)
	p := x.Find("default", "g-0")
	const want = "given up after 10m0s: too few of its pods fit, it is tried again after 5m0s"
	if x.Len(Gated) != 2 || p.Message != want || len(told) != 1 {
		t.Fatalf("%v, message %q, told of %v, want both gated with %q", x.Lens(), p.Message, told, want)
	}
	x.freed("n", 100)
	if x.failAll() != 0 {
		t.Error("an event has it tried")
	}
	x.after(5 * time.Minute)
	if x.failAll() != 2 {
		t.Error("it is not tried again")
	}
	x.after(9 * time.Minute)
	if x.Len(Gated) != 0 {
		t.Error("its time has not begun anew")
	}
	x.after(time.Minute)
	if x.failAll(); x.Len(Gated) != 2 {
		t.Errorf("%v, want it given up again", x.Lens())
	}
}

func TestAGangThatIsGivenUpComesBackWithANewMemberOrAnotherPodGroup(t *testing.T) {
	x := newGangs(t)
	for _, group := range []string{"a", "b"} {
		x.patient(group, "")
		x.failAll()
	}
	x.after(11 * time.Minute)
	if x.failAll(); x.Len(Gated) != 4 || len(x.deadlines) != 0 {
		t.Fatalf("%v, %d deadlines, want all given up for good", x.Lens(), len(x.deadlines))
	}
	x.add(member("a-new", "a").Obj())
	if n := x.failAll(); n != 3 {
		t.Errorf("%d are tried with the new member, want 3", n)
	}
	x.states.Set(build.Gang("b", 1).Obj())
	x.Regroup(name("b"), true)
	if n := x.failAll(); n != 2 {
		t.Errorf("%d are tried after the PodGroup has changed, want 2", n)
	}
	if len(x.deadlines) != 1 {
		t.Errorf("%d deadlines, want a's", len(x.deadlines))
	}
}

func TestAnAttemptThatOutlivesTheDeadlineIsTheLast(t *testing.T) {
	x := newGangs(t)
	x.patient("g", "")
	x.failAll()
	x.after(6 * time.Minute)
	pods, _ := x.pop(1)
	x.after(6 * time.Minute)
	if x.Len(InFlight) != 2 {
		t.Fatalf("%v, want it in flight", x.Lens())
	}
	if x.fail(pods, 2, 1); x.Len(Gated) != 2 {
		t.Errorf("%v, want it given up", x.Lens())
	}
}

func name(group string) types.NamespacedName {
	return types.NamespacedName{Namespace: "default", Name: group}
}
