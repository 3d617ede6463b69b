package devices

import (
	"fmt"
	"runtime"
	"testing"

	"google.golang.org/protobuf/proto"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"pgregory.net/rapid"
)

// partition is a slice of node n1's pool with counter sets, or with devices that consume of one.
func partition(name string, generation, count int64, sets []string, devices int, consumes string) *resourcev1.ResourceSlice {
	s := &resourcev1.ResourceSlice{}
	node := "n1"
	s.Name, s.Spec.Driver, s.Spec.NodeName = name, "d", &node
	some := map[string]resourcev1.Counter{"c": {Value: resource.MustParse("1")}}
	s.Spec.Pool = resourcev1.ResourcePool{Name: "p", Generation: generation, ResourceSliceCount: count}
	for _, set := range sets {
		s.Spec.SharedCounters = append(s.Spec.SharedCounters, resourcev1.CounterSet{Name: set, Counters: some})
	}
	for i := range devices {
		s.Spec.Devices = append(s.Spec.Devices, resourcev1.Device{
			Name: fmt.Sprint(name, "-", i), ConsumesCounters: []resourcev1.DeviceCounterConsumption{{
				CounterSet: consumes, Counters: some,
			}},
		})
	}
	return s
}

// TestTalliesAreThoseOfTheSlicesThatAreThere: whatever slices there were before, a pool is told of as if it had come as it is.
func TestTalliesAreThoseOfTheSlicesThatAreThere(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := New(Config{})
		names := []string{"s0", "s1", "s2"}
		of := func(what string, list ...string) string { return rapid.SampledFrom(list).Draw(t, what) }
		for range rapid.IntRange(1, 30).Draw(t, "changes") {
			name := of("slice", names...)
			generation, count := rapid.Int64Range(1, 2).Draw(t, "generation"), rapid.Int64Range(1, 3).Draw(t, "count")
			switch of("change", "none", "sets", "devices") {
			case "sets":
				c.Set(partition(name, generation, count, []string{of("set", "a", "b")}, 0, ""))
			case "devices":
				c.Set(partition(name, generation, count, nil, 2, of("consumed", "a", "b")))
			case "none":
				gone := &resourcev1.ResourceSlice{}
				gone.Name = name
				c.Delete(gone)
			}
			fresh := New(Config{})
			for _, name := range names {
				if s := c.slices[name]; s != nil {
					fresh.Set(s)
				}
			}
			key := poolKey{"d", "p"}
			got, want := c.pools[key], fresh.pools[key]
			switch {
			case (got == nil) != (want == nil):
				t.Fatalf("got pool %v, want %v", got, want)
			case want == nil:
			case got.place != want.place || len(got.tallies) != len(want.tallies):
				t.Fatalf("got place %v and %d generations with counters, want %v and %d",
					got.place, len(got.tallies), want.place, len(want.tallies))
			}
		}
	})
}

// TestManySlicesOfAPoolWithCounters: a change of a slice costs the same however many the pool has.
func TestManySlicesOfAPoolWithCounters(t *testing.T) {
	const many = 200
	c := New(Config{})
	set := func(consumes string) (out []PlacedSlice) {
		told := c.Set(partition("devices", 1, many+1, nil, 64, consumes))
		out, err := told.Slices(c)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	for i := range many {
		var sets []string
		for k := range 8 {
			sets = append(sets, fmt.Sprint(i, "-", k))
		}
		c.Set(partition(fmt.Sprint("sets", i), 1, many+1, sets, 0, ""))
	}
	set("0-0")
	if got := c.pools[poolKey{"d", "p"}].place; got != (place{local, "n1"}) {
		t.Fatalf("the pool is told of at %v", got)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	got := set("7-7")
	runtime.ReadMemStats(&after)
	if len(got) != 1 || proto.Size(got[0].Message) == 0 {
		t.Errorf("told of %v", got)
	}
	if n := after.TotalAlloc - before.TotalAlloc; n > 200_000 {
		t.Errorf("a change of one slice of %d takes %d bytes", many, n)
	}
}
