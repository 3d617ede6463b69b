package answers

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
	"github.com/shardsched/shardsched/scorer"
)

// Hard constraints that count the same pods may read one number of the row or several: each number gets the nominated pods once.
func TestNominatedPodsAreAddedToEachNumberOnce(t *testing.T) {
	hard := func(value, measure uint32) *pb.HardConstraint {
		return &pb.HardConstraint{Place: &pb.Place{In: &pb.Place_RowValue{RowValue: value}, Measure: measure}}
	}
	for name, x := range map[string]struct {
		hard           []*pb.HardConstraint
		values, totals []int64
	}{
		"one measure, two row values":  {[]*pb.HardConstraint{hard(0, 0), hard(1, 0)}, []int64{2, 2}, []int64{2, 0}},
		"one measure, one row value":   {[]*pb.HardConstraint{hard(1, 0), hard(1, 0)}, []int64{0, 2}, []int64{2, 0}},
		"two measures, two row values": {[]*pb.HardConstraint{hard(0, 0), hard(1, 1)}, []int64{2, 2}, []int64{2, 2}},
	} {
		t.Run(name, func(t *testing.T) {
			v := scorer.Verdict{Passed: true, Measured: []scorer.Measured{{Included: true}, {Included: true}}}
			v.Key.Values = []int64{0, 0}
			n := Nominee{Spread: []int64{2, 2}}
			n.AddTo(&v, &pb.Query{Spread: &pb.SpreadQuery{Hard: x.hard}}, false)
			got := []int64{v.Measured[0].Value, v.Measured[1].Value}
			if d := cmp.Diff(x.values, v.Key.Values) + cmp.Diff(x.totals, got); d != "" {
				t.Errorf("row values and measures (-want +got):\n%s", d)
			}
		})
	}
}
