package coordinator

import (
	"slices"
	"testing"
	"testing/synctest"

	v1 "k8s.io/api/core/v1"

	"github.com/shardsched/shardsched/coordinator/groups"
	"github.com/shardsched/shardsched/coordinator/objects"
	"github.com/shardsched/shardsched/internal/testkit/build"
)

// playParked has members of a gang of two come that extender foo is interested in.
func playParked(t *testing.T, cpu string, play func(*scenario, *advisor)) {
	t.Helper()
	a := newAdvisor()
	runScenarioWith(t, func(c *SchedulerConfig) {
		c.Extenders, c.extenderTransport, c.Groups = append(c.Extenders, foo("filter")), a, groups.Gates{Workload: true, Gang: true}
	}, clusterOf(nodesOf(cpu, "n")), nil, func(x *scenario) {
		if err := x.call(x.ctx, func() { x.groups.Set(build.Gang("g", 2).Obj()) }); err != nil {
			t.Fatal(err)
		}
		play(x, a)
	})
}

func wantingMate(name string) *v1.Pod {
	p, group := wanting(name, "1"), "g"
	p.Spec.SchedulingGroup = &v1.PodSchedulingGroup{PodGroupName: &group}
	return p
}

// firstMate is decided before its mates, whenever it comes.
func firstMate(name string) *v1.Pod {
	p := wantingMate(name)
	p.Spec.Priority = new(int32(1))
	return p
}

// wantTogether is want for calls that are under way at once.
func (a *advisor) wantTogether(t *testing.T, when string, want ...string) {
	t.Helper()
	synctest.Wait()
	a.mu.Lock()
	slices.Sort(a.seen)
	a.mu.Unlock()
	a.want(t, when, want...)
}

// Extenders are asked about all members at once, and the gang is decided when they have answered for all.
func TestAGangIsParkedUntilExtendersHaveAnsweredForAll(t *testing.T) {
	playParked(t, "4", func(x *scenario, a *advisor) {
		letGo := a.hang("/foo/filter")
		x.deliver(objects.Added, wantingMate("a"))
		x.deliver(objects.Added, firstMate("b"))
		a.wantTogether(t, "both are asked about", "/foo/filter a: n", "/foo/filter b: n")
		x.wantPods("parked", "a in flight", "b in flight")
		letGo(keepAll)
		x.wantPods("placed", "a promised n", "b promised n")
		a.wantTogether(t, "nobody is asked again", "/foo/filter a: n", "/foo/filter b: n")
	})
}

// What extenders keep may be gone with the mates before.
func TestAParkedGangThatIsShort(t *testing.T) {
	playParked(t, "1", func(x *scenario, a *advisor) {
		a.on("/foo/filter", keepAll)
		x.deliver(objects.Added, wantingMate("a"))
		x.deliver(objects.Added, firstMate("b"))
		x.wantPods("short", "a unschedulable", "b unschedulable")
		x.wantMessage("b", quorumMissed)
		x.wantMessage("a", "0/1 nodes are available: 1 Insufficient cpu.")
	})
}

// A member that is deleted while its mates wait for extenders is not placed, and what is left is decided anew.
func TestAMemberOfAParkedGangIsDeleted(t *testing.T) {
	playParked(t, "4", func(x *scenario, a *advisor) {
		letGo := a.hang("/foo/filter")
		x.deliver(objects.Added, wantingMate("a"))
		x.deliver(objects.Added, wantingMate("b"))
		x.deliver(objects.Deleted, wantingMate("a"))
		letGo(keepAll)
		x.wantPods("one is left", "b unschedulable")
		if !x.rests() {
			t.Error("the loop waits for an attempt that is over")
		}
		x.deliver(objects.Added, wantingMate("c"))
		x.wantPods("a new mate", "b promised n", "c promised n")
	})
}

// rests tells whether nothing is parked.
func (x *scenario) rests() (rests bool) {
	x.t.Helper()
	if err := x.call(x.ctx, func() {
		rests = len(x.parking.parked)+len(x.parking.resumed)+len(x.parking.gangs) == 0
	}); err != nil {
		x.t.Fatal(err)
	}
	return rests
}
