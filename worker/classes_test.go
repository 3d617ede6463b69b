package worker

import (
	"slices"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
	"github.com/shardsched/shardsched/scorer"
	"github.com/shardsched/shardsched/scorer/scan"
)

// Classes that list very many volumes push others out before there are too many of them.
func TestClassesAreBoundedByTheirMemory(t *testing.T) {
	c := newClassCache(100, newMetrics(prometheus.NewRegistry()))
	volumes := slices.Repeat([]*pb.CandidateVolume{{}}, 300_000)
	for id := uint64(1); id <= 10; id++ {
		class, err := scorer.NewClass(&pb.Query{ClassId: id, VolumeBinding: &pb.VolumeBindingQuery{Volumes: volumes}})
		if err != nil {
			t.Fatal(err)
		}
		for range 2 { // a class that is sent again takes nothing more
			c.keep(&pb.EvaluateRequest{Cluster: "c", Rules: scan.Rules(), Term: 7}, map[uint64]*scorer.Class{id: class})
		}
	}
	if n := c.held.Len(); n != 4 || c.held.Bytes() > classBytes {
		t.Errorf("got %d classes of %d bytes, want 4 of %d at the most", n, c.held.Bytes(), classBytes)
	}
	if c.peek(classKey{7, 10}) == nil || c.peek(classKey{7, 6}) != nil {
		t.Error("got others than the last four classes")
	}
}
