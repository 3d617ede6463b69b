package cache

import (
	"fmt"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/shardsched/shardsched/internal/testkit/build"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// alike says that all pods of an app add to the same counters, those from 1 on. Like the registry's, a list
// is shared until there are other counters.
type alike struct {
	termless
	counters int
	asked    int
	lists    map[string][]*pb.CounterValue
}

func (a *alike) Contributions(p *v1.Pod) []*pb.CounterValue {
	a.asked++
	app := p.Labels["app"]
	if a.lists[app] == nil {
		for id := range a.counters {
			a.lists[app] = append(a.lists[app], &pb.CounterValue{Counter: uint32(id + 1), Value: 1})
		}
	}
	return a.lists[app]
}

// use has so many counters in use.
func (a *alike) use(counters int) {
	a.counters, a.lists = counters, map[string][]*pb.CounterValue{}
}

// crowd is so many pods of ten apps on a tenth as many nodes.
func crowd(t testing.TB, pods int) (*Cache, *alike) {
	t.Helper()
	c, a := New(4), &alike{lists: map[string][]*pb.CounterValue{}}
	c.UseCounters(a)
	for i := range pods / 10 {
		if _, err := c.SetNode(newNode(fmt.Sprint("n", i))); err != nil {
			t.Fatal(err)
		}
	}
	for i := range pods {
		name := fmt.Sprint("p", i)
		p := build.Pod(name).UID(name).Label("app", fmt.Sprint(i%10)).Node(fmt.Sprint("n", i/10)).Obj()
		if _, err := c.SetPod(p); err != nil {
			t.Fatal(err)
		}
	}
	return c, a
}

// newOnes brings the counters after the first few into use, as so many.
func newOnes(t testing.TB, c *Cache, a *alike, few, all int) {
	t.Helper()
	a.use(all)
	var ids []uint32
	for id := few; id < all; id++ {
		ids = append(ids, uint32(id+1))
	}
	if err := c.FillCounters(ids, true, nil); err != nil {
		t.Fatal(err)
	}
}

// However many counters come into use at once, each pod is asked once; and however many pods add the same,
// one list is kept of them, coming and going.
func TestCountersThatComeTogetherAskEachPodOnce(t *testing.T) {
	c, a := crowd(t, 1000)
	newOnes(t, c, a, 0, 20)
	a.asked = 0
	newOnes(t, c, a, 20, 60)
	if a.asked != 1000 {
		t.Errorf("40 counters at once: want 1,000 pods asked, got %d", a.asked)
	}
	seen := map[list]bool{}
	for _, p := range c.pods {
		seen[listOf(p.counters)] = true
	}
	if len(seen) != 10 {
		t.Errorf("pods of ten apps: want 10 lists, got %d", len(seen))
	}
	a.use(59)
	a.asked = 0
	if err := c.DropCounters([]uint32{60}); err != nil {
		t.Fatal(err)
	}
	if a.asked != 1000 || c.Table(0).HasCounter(60, 0, 0) {
		t.Errorf("dropped: want 1,000 pods asked and no column, got %d, %t", a.asked, c.Table(0).HasCounter(60, 0, 0))
	}
	a.asked = 0
	if err := c.DropCounters([]uint32{60}); err != nil || a.asked != 0 {
		t.Errorf("a counter that no pod adds to is dropped: want nobody asked, got %d, %v", a.asked, err)
	}
}

// Filling costs allocations by counters and kinds of pods, not by their product with pods.
func TestFillingAllocatesByCounterNotByPod(t *testing.T) {
	cost := func(pods int) float64 {
		c, a := crowd(t, pods)
		newOnes(t, c, a, 0, 200)
		n := 200
		return testing.AllocsPerRun(3, func() { newOnes(t, c, a, n, n+10); n += 10 })
	}
	few, many := cost(200), cost(2000)
	if many > 3*few+2000 {
		t.Errorf("ten counters over 200 pods take %g allocations: want about as many over 2,000, got %g", few, many)
	}
}

// broken is counters that meet a bug with every pod.
type broken struct{ termless }

func (broken) Contributions(*v1.Pod) []*pb.CounterValue { panic("a bug") }

// Pods that look alike are asked once, but where what they add can not be told, that is said of each.
func TestEachPodIsNamedThatCanNotBeCounted(t *testing.T) {
	c, _ := crowd(t, 20)
	labels := map[string]string{"app": "x"}
	for _, p := range c.pods {
		alike := p.object.DeepCopy()
		alike.Labels = labels
		if _, err := c.SetPod(alike); err != nil {
			t.Fatal(err)
		}
	}
	untold := map[string]bool{}
	c.OnUntold(func(p *v1.Pod, _ string, _ error) { untold[p.Name] = true })
	c.UseCounters(broken{})
	if err := c.FillCounters([]uint32{1}, true, nil); err != nil {
		t.Fatal(err)
	}
	if len(untold) != 20 {
		t.Errorf("got %d pods named, want all 20", len(untold))
	}
}

// A log of large columns is shorter: it is bounded by what they name.
func TestColumnsWeighWhatTheyName(t *testing.T) {
	c, a := crowd(t, 2000)
	for n := 0; n < 2000; n += 50 {
		newOnes(t, c, a, n, n+50)
	}
	for _, s := range c.shards {
		entries := 0
		for _, d := range s.log {
			entries += len(d.GetSetCounter().GetPodRows())
		}
		if most := 2 * s.kept() * columnEntries; entries > most {
			t.Errorf("want columns of at most %d pods kept, got %d", most, entries)
		}
	}
	if !slices.ContainsFunc(c.shards, func(s *shard) bool { return s.first > 0 }) {
		t.Error("want a log that was trimmed: the bound was not reached")
	}
}

// BenchmarkFillCounters is 16 counters that come into use among 1,000, and go again: of 5,000 pods of ten
// apps, which all of them count.
func BenchmarkFillCounters(b *testing.B) {
	c, a := crowd(b, 5000)
	newOnes(b, c, a, 0, 1000)
	ids := make([]uint32, 16)
	for i := range ids {
		ids[i] = uint32(1001 + i)
	}
	b.ReportAllocs()
	for b.Loop() {
		newOnes(b, c, a, 1000, 1016)
		a.use(1000)
		if err := c.DropCounters(ids); err != nil {
			b.Fatal(err)
		}
	}
}
