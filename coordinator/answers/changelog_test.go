package answers

import (
	"testing"

	"github.com/shardsched/shardsched/coordinator/build"
	"github.com/shardsched/shardsched/coordinator/cache"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// Once a node has come or gone no answer is repaired before the next batch: what the node's pods change is not logged,
// each change held against all before it. While a batch is decided everything is.
func TestChangesAreLoggedForAnswersAlone(t *testing.T) {
	for _, deciding := range []bool{false, true} {
		log := &ChangeLog{reads: true, deciding: deciding}
		c := cache.New(1)
		c.Watch(log)
		if _, err := c.SetNode(build.Node("n").CPU("1").Obj()); err != nil {
			t.Fatal(err)
		}
		table := c.Table(0)
		for range 5 {
			d := &pb.Delta{Change: &pb.Delta_AddPod{AddPod: &pb.PodUsage{Counters: []*pb.CounterValue{{Counter: 1, Value: 1}}}}}
			log.Changing(table, d)
			if err := table.Apply(d); err != nil {
				t.Fatal(err)
			}
			log.Changed(table, d)
		}
		want := 0
		if deciding {
			want = 5
		}
		if got := len(log.list); got != want || !log.lost {
			t.Errorf("deciding %t: got %d changes, lost %t; want %d", deciding, got, log.lost, want)
		}
	}
}
