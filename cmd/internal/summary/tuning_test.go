package summary

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// The way in use is told with what it costs, and with the best of the others.
func TestTunings(t *testing.T) {
	way := func(own bool, ahead, classes uint32, micros int) *pb.Way {
		return &pb.Way{OwnTables: own, Ahead: ahead, Classes: classes, Cost: durationpb.New(time.Duration(micros) * time.Microsecond)}
	}
	inUse, alone := way(false, 1, 16, 91), way(true, 0, 16, 300)
	inUse.InUse, alone.InUse = true, true
	var out strings.Builder
	if err := Render(&out, &pb.Summary{
		Workers: []*pb.WorkerStatus{{Id: "w"}},
		Tunings: []*pb.Tuning{
			{Batches: "full batches", Ways: []*pb.Way{inUse, way(false, 2, 16, 93), way(true, 0, 16, 214), way(false, 1, 8, 220), way(false, 1, 32, 300)}},
			{Batches: "few pods", Ways: []*pb.Way{alone}},
			{Batches: "not measured"},
		},
	}, Style{}); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"full batches: workers 1 ahead, 16 classes a batch, 91.0 us a class (workers 2 ahead, 16 classes a batch 93.0 us, " +
			"own tables, 16 classes a batch 214 us, workers 1 ahead, 8 classes a batch 220 us)",
		"few pods: own tables, 16 classes a batch, 300 us a class",
	}
	for _, line := range want {
		if !strings.Contains(out.String(), line+"\n") {
			t.Errorf("got\n%s\nwant the line %q", out.String(), line)
		}
	}
	if strings.Contains(out.String(), "not measured") {
		t.Errorf("got\n%s\nwant nothing of what was not measured", out.String())
	}
}
