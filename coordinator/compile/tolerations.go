package compile

import (
	"cmp"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// tolerations lists the tolerations that can tolerate something. Their order
// plays no part in upstream, so they are sorted, each once.
func tolerations(list []v1.Toleration) []*pb.Toleration {
	var out []*pb.Toleration
	for i := range list {
		if t := toleration(&list[i]); t != nil {
			out = append(out, t)
		}
	}
	slices.SortFunc(out, compareTolerations)
	return slices.CompactFunc(out, func(a, b *pb.Toleration) bool { return compareTolerations(a, b) == 0 })
}

// toleration translates one; nil for one that tolerates nothing. Lt and Gt are
// among these: the gate TaintTolerationComparisonOperators is off.
func toleration(t *v1.Toleration) *pb.Toleration {
	if !usable(t.Key) || !usable(t.Value) {
		return nil
	}
	out := &pb.Toleration{Key: t.Key}
	if t.Effect != "" {
		out.Effect = effects(t.Effect)
		if out.Effect == pb.TaintEffect_TAINT_EFFECT_UNSPECIFIED {
			return nil
		}
	}
	switch t.Operator {
	case "", v1.TolerationOpEqual:
		out.Operator, out.Value = pb.TolerationOperator_TOLERATION_OPERATOR_EQUAL, t.Value
	case v1.TolerationOpExists:
		out.Operator = pb.TolerationOperator_TOLERATION_OPERATOR_EXISTS
	default:
		return nil
	}
	return out
}

// compareTolerations is a total order.
func compareTolerations(a, b *pb.Toleration) int {
	return cmp.Or(strings.Compare(a.Key, b.Key), cmp.Compare(a.Operator, b.Operator),
		strings.Compare(a.Value, b.Value), cmp.Compare(a.Effect, b.Effect))
}
