package scorer

import (
	"testing"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

func TestTolerationIsForTaint(t *testing.T) {
	const (
		exists = pb.TolerationOperator_TOLERATION_OPERATOR_EXISTS
		equal  = pb.TolerationOperator_TOLERATION_OPERATOR_EQUAL
		no     = pb.TaintEffect_TAINT_EFFECT_NO_SCHEDULE
		prefer = pb.TaintEffect_TAINT_EFFECT_PREFER_NO_SCHEDULE
	)
	taint := taint{key: "k", value: "v", effect: no}
	for _, c := range []struct {
		name string
		x    *pb.Toleration
		want bool
	}{
		{"equal key, value and effect", &pb.Toleration{Key: "k", Operator: equal, Value: "v", Effect: no}, true},
		{"no effect is every effect", &pb.Toleration{Key: "k", Operator: equal, Value: "v"}, true},
		{"another effect", &pb.Toleration{Key: "k", Operator: equal, Value: "v", Effect: prefer}, false},
		{"another value", &pb.Toleration{Key: "k", Operator: equal, Value: "w"}, false},
		{"Exists looks at no value", &pb.Toleration{Key: "k", Operator: exists, Value: "w"}, true},
		{"another key", &pb.Toleration{Key: "l", Operator: exists}, false},
		{"the empty key is every key", &pb.Toleration{Operator: exists}, true},
		{"the empty key with the same value", &pb.Toleration{Operator: equal, Value: "v"}, true},
		{"the empty key with another value", &pb.Toleration{Operator: equal}, false},
	} {
		if got := isFor(c.x, &taint); got != c.want {
			t.Errorf("%s: got %t, want %t", c.name, got, c.want)
		}
	}
}

// Only tolerations without effect or for PreferNoSchedule count in the score.
func TestDislikes(t *testing.T) {
	exists := pb.TolerationOperator_TOLERATION_OPERATOR_EXISTS
	r := new(taintToleration).make(&pb.Query{Tolerations: []*pb.Toleration{
		{Key: "a", Operator: exists, Effect: pb.TaintEffect_TAINT_EFFECT_NO_SCHEDULE},
		{Key: "b", Operator: exists, Effect: pb.TaintEffect_TAINT_EFFECT_PREFER_NO_SCHEDULE},
		{Key: "c", Operator: exists},
	}})
	prefer := pb.TaintEffect_TAINT_EFFECT_PREFER_NO_SCHEDULE
	list := []taint{{"a", "", prefer}, {"b", "", prefer}, {"c", "", prefer}, {"d", "", prefer}, {"d", "", pb.TaintEffect_TAINT_EFFECT_NO_EXECUTE}}
	if got := r.dislikes(list); got != 2 {
		t.Errorf("got %d disliked taints, want 2 (a and d)", got)
	}
}
