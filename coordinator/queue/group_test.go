package queue

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/api/scheduling/v1alpha2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/shardsched/shardsched/coordinator/groups"
	"github.com/shardsched/shardsched/internal/testkit/build"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// gangs is a queue with pod groups, and a clock that stands still.
type gangs struct {
	testing.TB
	*Queue
	states *groups.Groups
	now    time.Time
	room   map[string]int64 // of nodes
	// preempts: there are pods that members may push out.
	preempts bool
}

func newGangs(t testing.TB) *gangs {
	x := &gangs{TB: t, states: groups.New(groups.All()), now: start, room: map[string]int64{}}
	plugins := append(modelPlugins(), Plugin{Name: GangScheduling, PreEnqueue: func(p *v1.Pod) string {
		if g := x.states.Of(p); g != nil {
			return g.Gate()
		}
		return ""
	}})
	for i := range plugins {
		plugins[i].Local, plugins[i].Room = plugins[i].Name != GangScheduling, plugins[i].Name == "room"
	}
	x.Queue = newOf(Config{
		Now: func() time.Time { return x.now }, Plugins: plugins, Groups: x.states,
		Profiles: roomOnly{gangs: x},
	})
	return x
}

// roomOnly knows the room of nodes, and pod groups.
type roomOnly struct {
	Profiles
	gangs *gangs
}

var _ KnowsGroups = roomOnly{}

func (r roomOnly) Room(_ *v1.Pod, _ *pb.Resources, node string) (int64, bool) {
	return r.gangs.room[node], true
}

func (r roomOnly) Groups() *groups.Groups    { return r.gangs.states }
func (r roomOnly) MayPreempt(_ *v1.Pod) bool { return r.gangs.preempts }

func member(name, group string) *build.PodBuilder { return build.Pod(name).Member(group) }

func (x *gangs) set(group string, minCount int32) {
	obj := &v1alpha2.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: group}}
	obj.Spec.SchedulingPolicy.Gang = &v1alpha2.GangSchedulingPolicy{MinCount: minCount}
	x.states.Set(obj)
	x.Regroup(types.NamespacedName{Namespace: "default", Name: group}, false)
}

func (x *gangs) add(p *v1.Pod) {
	x.Helper()
	x.states.PodSet(p, true)
	x.Add(p)
	check(x.TB, x.Queue)
}

// gang adds a whole gang, of n members.
func (x *gangs) gang(name string, n int) {
	x.Helper()
	x.set(name, int32(n))
	for i := range n {
		x.add(member(fmt.Sprintf("%s-%d", name, i), name).Obj())
	}
}

// pop pops, and tells the names.
func (x *gangs) pop(n int) (pods []*Pod, names string) {
	x.Helper()
	pods = x.PopBatch(n, nil)
	var list []string
	for _, p := range pods {
		list = append(list, p.Obj.Name)
	}
	check(x.TB, x.Queue)
	return pods, strings.Join(list, " ")
}

// fail fails an attempt of a gang in which fit members fit.
func (x *gangs) fail(pods []*Pod, wants, fit int) {
	x.Helper()
	for i, p := range pods {
		p.ClassID = 7
		by := []string{"room"}
		if i < fit {
			by = []string{GangScheduling}
		}
		x.Unschedulable(p, by, "no")
	}
	x.GroupFailed(pods[0].Group, wants, fit)
	check(x.TB, x.Queue)
}

// waitFor has gangs that wait, one after the other, for room for all of their members, with their backoff over.
func (x *gangs) waitFor(members int, names ...string) {
	x.Helper()
	for _, name := range names {
		x.gang(name, members)
		pods, _ := x.pop(1)
		x.fail(pods, members, 0)
	}
	x.now = x.now.Add(time.Minute)
}

func (x *gangs) wants(pods, want string) {
	x.Helper()
	if pods != want {
		x.Errorf("popped %q, want %q", pods, want)
	}
}

// freed is that a pod has left a node, which has room for n now.
func (x *gangs) freed(node string, n int64) {
	x.room[node] = n
	x.Move(AssignedPodDeleted(build.Pod("gone").Node(node).Obj()))
	check(x.TB, x.Queue)
}

func TestMembersArePoppedTogetherAndMakeTheBatchLonger(t *testing.T) {
	x := newGangs(t)
	x.add(build.Pod("a").Obj())
	x.gang("g", 3)
	x.add(build.Pod("b").Obj())
	x.add(build.Pod("high").Priority(9).Obj())
	_, got := x.pop(3)
	x.wants(got, "high a g-0 g-1 g-2")
	_, got = x.pop(3)
	x.wants(got, "b")
}

func TestAGangRanksByItsBestMember(t *testing.T) {
	x := newGangs(t)
	x.add(build.Pod("middle").Priority(5).Obj())
	x.set("g", 2)
	x.add(member("low", "g").Obj())
	x.add(member("high", "g").Priority(9).Obj())
	_, got := x.pop(1)
	x.wants(got, "high low")
}

func TestMembersWaitForTheirPodGroupAndForEachOther(t *testing.T) {
	x := newGangs(t)
	x.add(member("a", "g").Obj())
	x.add(member("b", "g").Obj())
	if _, got := x.pop(9); got != "" || x.Len(Gated) != 2 {
		t.Fatalf("without the PodGroup: popped %q, %d gated", got, x.Len(Gated))
	}
	x.set("g", 3)
	if x.Len(Gated) != 2 {
		t.Fatalf("with 2 of 3: %d gated, want 2", x.Len(Gated))
	}
	x.add(member("c", "g").Gate("own").Obj())
	_, got := x.pop(9)
	x.wants(got, "a b") // a gated member exists
	if x.Len(Gated) != 1 {
		t.Errorf("%d gated, want the one with a gate of its own", x.Len(Gated))
	}
}

func TestABoundMemberOfAnotherSchedulerCompletesAGang(t *testing.T) {
	x := newGangs(t)
	x.set("g", 2)
	x.add(member("a", "g").Obj())
	x.states.PodSet(member("b", "g").Node("n").Obj(), false)
	x.Regroup(types.NamespacedName{Namespace: "default", Name: "g"}, false)
	_, got := x.pop(9)
	x.wants(got, "a")
}

func TestAGangBacksOffAsOneAndThenWaitsForAnEvent(t *testing.T) {
	x := newGangs(t)
	x.gang("g", 2)
	pods, _ := x.pop(1)
	x.fail(pods, 0, 0)
	if x.Len(Unschedulable) != 2 {
		t.Fatalf("%d unschedulable, want 2", x.Len(Unschedulable))
	}
	if _, got := x.pop(9); got != "" {
		t.Errorf("popped %q without an event", got)
	}
	x.freed("n", 1)
	if _, got := x.pop(9); got != "" {
		t.Errorf("popped %q though it backs off and nothing else is active", got)
	}
	x.now = x.now.Add(2 * time.Second)
	_, got := x.pop(1)
	x.wants(got, "g-0 g-1")
}

func TestAGangIsTriedAgainAfterItsTimeWithoutAnEvent(t *testing.T) {
	x := newGangs(t)
	x.gang("g", 2)
	pods, _ := x.pop(1)
	x.fail(pods, 2, 1)
	x.now = x.now.Add(DefaultMaxUnschedulable + time.Minute)
	_, got := x.pop(1)
	x.wants(got, "g-0 g-1")
}

func TestANewMemberHasTheWholeGangTried(t *testing.T) {
	x := newGangs(t)
	x.gang("g", 2)
	pods, _ := x.pop(1)
	x.fail(pods, 2, 1)
	x.add(member("new", "g").Obj())
	_, got := x.pop(1)
	x.wants(got, "g-0 g-1 new")
}

func TestAnErrorOfOneHasAllTriedAgainAfterTheBackoff(t *testing.T) {
	x := newGangs(t)
	x.gang("g", 2)
	pods, _ := x.pop(1)
	x.Queue.Error(pods[0], errors.New("boom"))
	x.Unschedulable(pods[1], []string{"room"}, "no")
	x.GroupFailed(pods[0].Group, 0, 0)
	check(t, x.Queue)
	if x.Len(ErrorBackoff) != 2 {
		t.Errorf("%d in backoff, want both", x.Len(ErrorBackoff))
	}
	x.now = x.now.Add(2 * time.Second)
	_, got := x.pop(9)
	x.wants(got, "g-0 g-1")
}

// TestAGangSleepsUntilThereMayBeRoomForAllThatItLacks: 3 of 5 fit, so events have to make room for 2.
func TestAGangSleepsUntilThereMayBeRoomForAllThatItLacks(t *testing.T) {
	x := newGangs(t)
	x.gang("g", 5)
	pods, _ := x.pop(1)
	x.fail(pods, 5, 3)
	x.now = x.now.Add(time.Minute)
	x.freed("n", 1)
	x.freed("n", 1) // another pod has left, and yet it has room for one
	if _, got := x.pop(9); got != "" {
		t.Fatalf("popped %q with room for 4 of 5", got)
	}
	x.freed("m", 1)
	if _, got := x.pop(9); len(strings.Fields(got)) != 5 {
		t.Errorf("popped %q with room for 5 of 5", got)
	}
}

func TestOnlyAsManyGangsAreCalledAsThereMayBeRoomFor(t *testing.T) {
	x := newGangs(t)
	const n = 50
	for i := range n {
		x.gang(fmt.Sprintf("g%02d", i), 4)
	}
	for range n {
		pods, _ := x.pop(1)
		x.fail(pods, 4, 1)
	}
	x.now = x.now.Add(time.Minute)
	x.freed("n", 8)
	first, got := x.pop(1)
	x.wants(got, "g00-0 g00-1 g00-2 g00-3")
	second, got := x.pop(1)
	x.wants(got, "g01-0 g01-1 g01-2 g01-3")
	if _, got := x.pop(1); got != "" {
		t.Fatalf("popped %q beside two gangs of 4 with room for 9", got)
	}
	// The first has found its room; the second finds room for 3 alone, and nobody else is called.
	for _, p := range first {
		x.states.Assumed(p.Obj, "n")
		x.Done(p.Obj.UID)
	}
	x.fail(second, 4, 3)
	if _, got := x.pop(1); got != "" {
		t.Errorf("popped %q with room for 3", got)
	}
	x.freed("m", 1)
	if _, got := x.pop(1); !strings.HasPrefix(got, "g02-") {
		t.Errorf("popped %q with room for 4, want the gang that waits longest", got)
	}
}

func TestAnotherGangTakesThePlaceOfOneThatLeaves(t *testing.T) {
	x := newGangs(t)
	x.waitFor(2, "a", "b")
	x.freed("n", 2)
	for _, name := range []string{"a-0", "a-1"} {
		p := x.Find("default", name)
		x.states.PodGone(p.Obj)
		x.Delete(p.Obj.UID)
	}
	check(t, x.Queue)
	_, got := x.pop(9)
	x.wants(got, "b-0 b-1")
}

func TestASmallGangIsCalledThoughALargeOneWaitsLonger(t *testing.T) {
	x := newGangs(t)
	for name, n := range map[string]int{"large": 6, "small": 2} {
		x.gang(name, n)
	}
	for range 2 {
		pods, _ := x.pop(1)
		x.fail(pods, len(pods), 0)
	}
	x.now = x.now.Add(time.Minute)
	x.freed("n", 2)
	_, got := x.pop(9)
	x.wants(got, "small-0 small-1")
}

func TestNoMoreThanMaxMembersArePoppedTogether(t *testing.T) {
	x := newGangs(t)
	x.set("g", 1)
	for i := range groups.MaxMembers + 10 {
		p := member(fmt.Sprintf("p%05d", i), "g").Obj()
		x.states.PodSet(p, true)
		x.Add(p)
	}
	for _, want := range []int{groups.MaxMembers, 10, 0} {
		pods, _ := x.pop(1)
		if len(pods) != want {
			t.Errorf("popped %d, want %d", len(pods), want)
		}
	}
}

// Each member of a pod group that has too many for one attempt is tried, and then the pod group waits for an event.
func TestTooManyMembersAreNotTriedWithoutEnd(t *testing.T) {
	x := newGangs(t)
	x.set("g", 1)
	const members = 2*groups.MaxMembers + 10
	for i := range members {
		p := member(fmt.Sprintf("p%05d", i), "g").Obj()
		x.states.PodSet(p, true)
		x.Add(p)
	}
	tried := map[*Pod]bool{}
	for range 3 {
		pods, _ := x.pop(1)
		for _, p := range pods {
			tried[p] = true
		}
		x.fail(pods, 1, 0)
	}
	if len(tried) != members {
		t.Errorf("%d of %d members were tried", len(tried), members)
	}
	for range 2 {
		if pods, _ := x.pop(1); len(pods) != 0 {
			t.Errorf("%d are tried again, and nothing has changed", len(pods))
		}
		x.now = x.now.Add(time.Minute)
		x.Flush()
	}
	x.freed("n", 2)
	if pods, _ := x.pop(1); len(pods) != groups.MaxMembers {
		t.Errorf("%d are tried where there is room again", len(pods))
	}
}

func TestATurnIsHeldAgainstTheRankOfTheWholeGang(t *testing.T) {
	x := newGangs(t)
	x.gang("g", 2)
	pods, _ := x.pop(1)
	x.add(build.Pod("equal").Obj())
	if !x.Turn(pods[0]) {
		t.Error("a pod of the same priority that came later takes the turn")
	}
	x.add(build.Pod("high").Priority(1).Obj())
	if x.Turn(pods[0]) {
		t.Error("a pod of higher priority does not take the turn")
	}
	for _, p := range pods {
		x.GiveBack(p)
	}
	_, got := x.pop(9)
	x.wants(got, "high g-0 g-1 equal")
}

func TestAGangIsSetAsideAsOne(t *testing.T) {
	x := newGangs(t)
	x.gang("g", 3)
	pods, _ := x.pop(1)
	for _, p := range pods {
		x.SetAside(p, ForCounters, 5)
	}
	if got := x.PopBatch(9, nil); len(got) != 0 {
		t.Errorf("popped %d", len(got))
	}
	got := x.PopAside(ForCounters, 5, 1, nil)
	if len(got) != 3 || !x.Turn(got[0]) {
		t.Errorf("popped %d that were set aside, want 3", len(got))
	}
}

func TestCostlyMembersEndTheirBatch(t *testing.T) {
	x := newGangs(t)
	x.gang("g", 2)
	x.add(build.Pod("a").Obj())
	pods, _ := x.pop(1)
	pods[1].Cost = time.Second
	for _, p := range pods {
		x.GiveBack(p)
	}
	_, got := x.pop(9)
	x.wants(got, "g-0 g-1")
}

func TestAttemptsOfAGangAreRestored(t *testing.T) {
	x := newGangs(t)
	x.gang("g", 2)
	pods, _ := x.pop(1)
	x.fail(pods, 2, 1)
	y := newGangs(t)
	for _, p := range pods {
		y.Restore(map[types.UID]*pb.QueueEntry{p.Obj.UID: x.Entry(p)})
	}
	y.gang("g", 2)
	if y.Len(ErrorBackoff) != 2 {
		t.Fatalf("%v, want both to back off", y.Lens())
	}
	y.now = y.now.Add(3 * time.Second)
	again, _ := y.pop(1)
	if len(again) != 2 || again[0].UnschedulableCount != 1 || again[0].Attempts != 2 {
		t.Errorf("popped %d, the first with %d attempts", len(again), again[0].Attempts)
	}
}

func TestWithoutPodGroupsMembersArePlainPods(t *testing.T) {
	now := start
	q := newQueue(&now)
	q.Add(member("a", "g").Obj())
	q.Add(member("b", "g").Obj())
	pods := q.PopBatch(1, nil)
	if len(pods) != 1 || pods[0].Group != nil {
		t.Errorf("popped %d, of pod group %v", len(pods), pods[0].Group)
	}
	if slices.ContainsFunc(pods, func(p *Pod) bool { return p.place != InFlight }) {
		t.Error("it is not in flight")
	}
}

func TestAFavouredGangGoesBeforeItsEqualsAndKeepsTryingWhileItGainsRoom(t *testing.T) {
	x := newGangs(t)
	x.gang("g", 4)
	pods, _ := x.pop(1)
	x.Favour(pods[0].Group, true)
	x.fail(pods, 4, 1)
	x.add(build.Pod("equal").Obj())
	x.add(build.Pod("other").Obj())
	x.freed("n", 1)
	pods, got := x.pop(1)
	x.wants(got, "g-0 g-1 g-2 g-3")
	x.now = x.now.Add(time.Second)
	x.fail(pods, 4, 1)
	x.freed("m", 1)
	if _, got := x.pop(1); got != "equal" {
		t.Errorf("popped %q, want the gang to back off that has gained nothing", got)
	}
	x.Favour(pods[0].Group, false)
	check(t, x.Queue)
	x.now = x.now.Add(10 * time.Second)
	_, got = x.pop(1)
	x.wants(got, "other")
}

// A favoured gang is not tried again for room that is held for its members already, and backs off for no such attempt.
func TestAFavouredGangWakesForMoreRoomThanItHas(t *testing.T) {
	x := newGangs(t)
	x.gang("g", 3)
	pods, _ := x.pop(1)
	x.Favour(pods[0].Group, true)
	x.fail(pods, 3, 2)
	x.Nominate(pods[0], "n")
	x.Nominate(pods[1], "m")
	x.Nominate(pods[2], "n") // it does not fit there any more
	x.now = x.now.Add(time.Minute)
	x.freed("n", 1)
	if _, got := x.pop(1); got != "" {
		t.Errorf("popped %q for the room that one of them has", got)
	}
	x.freed("n", 2)
	_, got := x.pop(1)
	x.wants(got, "g-0 g-1 g-2")
}

// Where the clock stands still a backoff would never be over: a gang that an event has called is popped where nothing else is active.
func TestAFrozenClockKeepsNoGangBackingOff(t *testing.T) {
	for _, frozen := range []bool{false, true} {
		x := newGangs(t)
		x.frozen = frozen
		x.gang("g", 2)
		pods, _ := x.pop(1)
		x.fail(pods, 2, 0)
		x.freed("n", 2)
		want := ""
		if frozen {
			want = "g-0 g-1"
		}
		pods, names := x.pop(1)
		x.wants(names, want)
		if !frozen {
			continue
		}
		for _, p := range pods { // errors are tried again only after their backoff, and mates with them
			x.Queue.Error(p, errors.New("failed"))
		}
		x.GroupFailed(pods[0].Group, 0, 0)
		if _, names = x.pop(1); names != "" || x.Len(ErrorBackoff) != 2 {
			t.Errorf("popped %q after an error, %d back off; want nobody, and 2", names, x.Len(ErrorBackoff))
		}
	}
}

// A pod group that is given back is where it was: who backed off goes on to, and who waited for an event hears of those meanwhile.
func TestAGangThatIsGivenBackIsWhereItWas(t *testing.T) {
	for _, helped := range []bool{false, true} {
		x := newGangs(t)
		x.gang("g", 2)
		pods, _ := x.pop(10)
		x.fail(pods, 2, 1)
		x.now = x.now.Add(time.Minute) // no backoff any more
		x.add(member("late", "g").Obj())
		x.add(member("other", "h").Obj()) // gated
		pods, names := x.pop(10)
		x.wants(names, "g-0 g-1 late")
		if x.Turn(pods[0]); helped {
			x.freed("n", 5)
		}
		for _, p := range pods {
			x.GiveBack(p)
		}
		check(t, x.Queue)
		want := Unschedulable
		if helped {
			want = Active
		}
		for _, p := range pods {
			if to := map[bool]Place{true: Active, false: want}[p.Obj.Name == "late"]; p.place != to {
				t.Errorf("helped %v: %s is in %s, want %s", helped, p.Obj.Name, p.place, to)
			}
		}
		if pods[0].Group.wait.counted {
			t.Errorf("helped %v: it waits for a count, and the bucket that knew it is gone", helped)
		}
	}
}

// A clock that stands still lets gangs be popped from their backoff; given back they are there again, all of them.
func TestAGangThatWasPoppedEarlyGoesBackToItsBackoff(t *testing.T) {
	x := newGangs(t)
	x.frozen = true
	x.gang("g", 2)
	pods, _ := x.pop(10)
	x.fail(pods, 2, 1)
	x.freed("n", 5)
	pods, names := x.pop(10)
	x.wants(names, "g-0 g-1")
	x.add(build.Pod("new").Obj())
	if x.Turn(pods[0]) {
		t.Error("it has its turn before a pod that is ready")
	}
	for _, p := range pods {
		x.GiveBack(p)
	}
	_, names = x.pop(10)
	x.wants(names, "new g-0 g-1")
}

// A pod group has the turn of those of its pods that were ready, not of those that they have taken along.
func TestAGangHasTheTurnOfThoseThatWereReady(t *testing.T) {
	x := newGangs(t)
	x.gang("g", 2)
	pods, _ := x.pop(10)
	x.fail(pods, 2, 1)
	x.now = x.now.Add(time.Minute)
	x.add(build.Pod("between").Obj())
	between, _ := x.pop(1)
	x.now = x.now.Add(time.Minute)
	x.add(member("late", "g").Obj())
	pods, names := x.pop(10)
	x.wants(names, "g-0 g-1 late")
	x.GiveBack(between[0]) // it came before the member that has the pod group tried
	if x.Turn(pods[0]) {
		t.Error("it has its turn before a pod that came earlier")
	}
}

// Members beyond those that were placed are tried again at once, without an event, and back off as if they had not been tried before.
func TestMembersBeyondThosePlacedAreTriedAgain(t *testing.T) {
	x := newGangs(t)
	x.gang("a", 3)
	pods, _ := x.pop(9)
	x.fail(pods, 0, 0)
	x.now = x.now.Add(10 * time.Second)
	x.freed("n", 1)
	pods, _ = x.pop(9)
	x.Done(pods[0].Obj.UID)
	x.fail(pods[1:], 0, 0)
	x.RetryGroup(pods[1].Group)
	again, names := x.pop(9)
	x.wants(names, "a-1 a-2")
	x.fail(again, 0, 0)
	if got, want := again[0].BackoffUntil, x.now.Add(DefaultInitialBackoff).Truncate(backoffWindow); got.After(want) {
		t.Errorf("backs off until %v, want no longer than after a first attempt: %v", got, want)
	}
	if _, names := x.pop(9); names != "" {
		t.Errorf("popped %q after an attempt that placed nobody, want nobody", names)
	}
}

// A clock that stands still: a gang whose last attempt has ended in an error waits, and may be popped early once one has not.
func TestAGangBacksOffAsItsLastAttemptHasEnded(t *testing.T) {
	x := newGangs(t)
	x.frozen = true
	x.gang("g", 1)
	pods, _ := x.pop(10)
	x.Queue.Error(pods[0], errors.New("boom"))
	x.GroupFailed(pods[0].Group, 0, 0)
	if pods[0].place != ErrorBackoff {
		t.Fatalf("after an error it is in %s", pods[0].place)
	}
	x.now = x.now.Add(time.Minute)
	pods, _ = x.pop(10)
	x.Turn(pods[0])
	x.freed("n", 5) // may help it
	x.fail(pods, 1, 0)
	if pods[0].place != Backoff {
		t.Errorf("after a refusal it is in %v, want that it may be popped early", pods[0].place)
	}
	if _, names := x.pop(10); names != "g-0" {
		t.Errorf("popped %q, want it", names)
	}
}

// A pod group keeps the turn of the pod that it was popped for, also where that one is not tried.
func TestAGangKeepsTheTurnOfAPodThatIsGone(t *testing.T) {
	x := newGangs(t)
	x.set("g", 1)
	x.add(member("leaving", "g").Obj())
	x.add(build.Pod("other").Obj())
	x.add(member("late", "g").Obj())
	pods, names := x.pop(1)
	x.wants(names, "leaving late")
	x.Done(pods[0].Obj.UID)
	if !x.Turn(pods[1]) {
		t.Error("it has lost its turn to a pod that came after the first of its pods")
	}
}
