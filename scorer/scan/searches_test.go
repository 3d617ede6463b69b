package scan

import (
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"
	"k8s.io/utils/clock"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
	"github.com/shardsched/shardsched/scorer"
	"github.com/shardsched/shardsched/scorer/devices/selector"
)

// differing are tables of nodes whose devices all differ.
func differing(t *testing.T, shards, nodes int) []*scorer.Table {
	t.Helper()
	out := tables(t, shards, nodes)
	for i, table := range out {
		for row := range uint32(nodes) {
			s := &pb.DeviceSlice{Name: "s", Driver: "d", Pool: "p", SliceCount: 1}
			for k := range 20 {
				id := &pb.DeviceAttribute_Int{Int: int64(i*1e6) + int64(row)*100 + int64(k)}
				s.Devices = append(s.Devices, &pb.Device{Name: fmt.Sprint("dev", k), Attributes: []*pb.DeviceAttribute{{Name: "id", Value: id}}})
			}
			if err := table.Apply(&pb.Delta{Row: row, Change: &pb.Delta_SetSlice{SetSlice: s}}); err != nil {
				t.Fatal(err)
			}
		}
	}
	return out
}

// hard is a class whose claim takes some 4,500 steps on each of these nodes, and none has its devices.
func hard(t *testing.T) *scorer.Class {
	t.Helper()
	exactly := func(name string, n int64, selectors ...*pb.DeviceSelector) *pb.DeviceRequest {
		return &pb.DeviceRequest{Name: name, Exactly: &pb.DeviceQuestion{
			Class: "c", Mode: pb.DeviceMode_DEVICE_MODE_EXACT_COUNT, Count: n, Selectors: selectors,
		}}
	}
	c, err := scorer.NewClassWith(&pb.Query{
		ClassId: 7, Filters: []pb.Plugin{pb.Plugin_PLUGIN_DYNAMIC_RESOURCES},
		ResourceClaims: &pb.ResourceClaimsQuery{Features: &pb.DeviceFeatures{}, Claims: []*pb.DeviceClaim{{
			Requests:    []*pb.DeviceRequest{exactly("pair", 2), exactly("last", 1, &pb.DeviceSelector{Expression: "false"})},
			Constraints: []*pb.DeviceConstraint{{Requests: []string{"pair"}, Of: &pb.DeviceConstraint_DistinctAttribute{DistinctAttribute: "d/id"}}},
		}}},
	}, nil, selector.NewCompiler())
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Runs that may take so many steps come to the answer that one has which may take any number, on however many cores: what each
// core finds serves all. A class that asks for no devices has its answer from each.
func TestRunsInSlices(t *testing.T) {
	const steps = 1 << 14
	tabs, class, plain := differing(t, 4, 15), hard(t), asks(t, 1)[0]
	want := make([]Answer, 2)
	if err := NewPool(1, clock.RealClock{}).Run(t.Context(), tabs, []Ask{{Class: class}, plain}, want); err != nil {
		t.Fatal(err)
	}
	for _, cores := range []int{1, 4} {
		p, got, runs := NewPool(cores, clock.RealClock{}), make([]Answer, 2), 0
		for again := true; again; runs++ {
			if err := p.Run(t.Context(), tabs, []Ask{{Class: class, Options: scorer.Options{Steps: steps}}, plain}, got); err != nil {
				t.Fatal(err)
			}
			failed := got[0].Result.Failed
			if again = failed != nil; again && !errors.Is(failed, scorer.ErrUnfinished) {
				t.Fatal(failed)
			}
			if diff := cmp.Diff(protos(want[1:]), protos(got[1:]), protocmp.Transform()); diff != "" {
				t.Fatalf("the class without claims (-want +got):\n%s", diff)
			}
		}
		if least := 4 * 15 * 4500 / (cores * steps); runs < least {
			t.Errorf("%d cores: got %d runs, want %d at the least", cores, runs, least)
		}
		if diff := cmp.Diff(protos(want[:1]), protos(got[:1]), protocmp.Transform()); diff != "" {
			t.Errorf("%d cores (-at once +in slices):\n%s", cores, diff)
		}
	}
}

// A dry run of preemption goes in slices, too.
func TestDryRunsInSlices(t *testing.T) {
	p, tabs, class := NewPool(2, clock.RealClock{}), differing(t, 2, 15), hard(t)
	var failed error
	runs := 0
	for ; runs == 0 || failed != nil; runs++ {
		got := make([]scorer.PreemptionResult, 1)
		asks := []PreemptAsk{{Class: class, Preemption: &scorer.Preemption{Priority: 1, Steps: 1 << 14}}}
		if err := p.RunPreempt(t.Context(), tabs, asks, got); err != nil {
			t.Fatal(err)
		}
		if failed = got[0].Failed; failed != nil && !errors.Is(failed, scorer.ErrUnfinished) {
			t.Fatal(failed)
		}
	}
	if runs < 3 {
		t.Errorf("got %d runs, want 3 at the least", runs)
	}
}
