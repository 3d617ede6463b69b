package scorer

import (
	"testing"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

func TestRoom(t *testing.T) {
	table := NewTable(0)
	apply := func(d *pb.Delta) {
		t.Helper()
		if err := table.Apply(d); err != nil {
			t.Fatal(err)
		}
	}
	gpu := func(n int64) []*pb.ScalarResource { return []*pb.ScalarResource{{Name: "gpu", Quantity: n}} }
	apply(&pb.Delta{Row: 1, Change: &pb.Delta_SetNode{SetNode: &pb.Node{
		Name: "n", AllowedPods: 5, Allocatable: &pb.Resources{MilliCpu: 4000, MemoryBytes: 100, Scalars: gpu(4)},
	}}})
	apply(&pb.Delta{Row: 1, Change: &pb.Delta_AddPod{AddPod: &pb.PodUsage{Requests: &pb.Resources{MilliCpu: 1500, Scalars: gpu(1)}}}})
	for _, c := range []struct {
		name string
		row  uint32
		asks *pb.Resources
		want int64
	}{
		{"nothing asked: as many as may be there", 1, &pb.Resources{}, 4},
		{"by cpu", 1, &pb.Resources{MilliCpu: 1000}, 2},
		{"by memory", 1, &pb.Resources{MilliCpu: 1, MemoryBytes: 100}, 1},
		{"too much", 1, &pb.Resources{MilliCpu: 2501}, 0},
		{"by a scalar", 1, &pb.Resources{Scalars: gpu(2)}, 1},
		{"of a scalar that there is not", 1, &pb.Resources{Scalars: []*pb.ScalarResource{{Name: "fpga", Quantity: 1}}}, 0},
		{"of one that is passed over", 1, &pb.Resources{Scalars: []*pb.ScalarResource{{Name: "ignored", Quantity: 1}}}, 4},
		{"no node", 2, &pb.Resources{}, 0},
	} {
		if got := table.Room(c.row, c.asks, func(name string) bool { return name == "ignored" }); got != c.want {
			t.Errorf("%s: got %d, want %d", c.name, got, c.want)
		}
	}
}
