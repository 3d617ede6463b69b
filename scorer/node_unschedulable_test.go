package scorer

import (
	"testing"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

func TestNodeUnschedulableTolerations(t *testing.T) {
	const exists, equal = pb.TolerationOperator_TOLERATION_OPERATOR_EXISTS, pb.TolerationOperator_TOLERATION_OPERATOR_EQUAL
	const key = "node.kubernetes.io/unschedulable"
	for _, c := range []struct {
		name string
		x    *pb.Toleration
		want bool
	}{
		{"its key exists", &pb.Toleration{Key: key, Operator: exists}, true},
		{"the empty value is equal", &pb.Toleration{Key: key, Operator: equal}, true},
		{"another value is not", &pb.Toleration{Key: key, Operator: equal, Value: "true"}, false},
		{"every key exists", &pb.Toleration{Operator: exists}, true},
		{"another effect", &pb.Toleration{Key: key, Operator: exists, Effect: pb.TaintEffect_TAINT_EFFECT_NO_EXECUTE}, false},
		{"another key", &pb.Toleration{Key: "node.kubernetes.io/not-ready", Operator: exists}, false},
	} {
		if got := new(nodeUnschedulable).make(&pb.Query{Tolerations: []*pb.Toleration{c.x}}).tolerated; got != c.want {
			t.Errorf("%s: got tolerated %t, want %t", c.name, got, c.want)
		}
	}
}
