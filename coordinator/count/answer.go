package count

import (
	"slices"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// sum sorts a list by counter and adds up what there is several times of. It changes the
// list, whose values must not be shared.
func sum(list []*pb.CounterValue) []*pb.CounterValue {
	slices.SortFunc(list, func(a, b *pb.CounterValue) int { return int(a.Counter) - int(b.Counter) })
	out := list[:0]
	for _, v := range list {
		if n := len(out); n > 0 && out[n-1].Counter == v.Counter {
			out[n-1].Value += v.Value
		} else {
			out = append(out, v)
		}
	}
	return slices.DeleteFunc(out, func(v *pb.CounterValue) bool { return v.Value == 0 })
}

// union merges lists that have no counter in common.
func union(a, b []*pb.CounterValue) []*pb.CounterValue {
	out := make([]*pb.CounterValue, 0, len(a)+len(b))
	for len(a) > 0 && len(b) > 0 {
		if a[0].Counter < b[0].Counter {
			out, a = append(out, a[0]), a[1:]
		} else {
			out, b = append(out, b[0]), b[1:]
		}
	}
	return append(append(out, a...), b...)
}

// keptUnions bounds the values of the unions that are kept, of 8 bytes each.
const keptUnions = 1 << 20

// unions are unions of two answers, kept for as long as both are.
type unions struct {
	kept   map[[2]*answer]*answer
	values int
}

func (x *unions) clear() {
	clear(x.kept)
	x.values = 0
}

// of is the union of two answers.
func (x *unions) of(a, b *answer) *answer {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	}
	if u := x.kept[[2]*answer{a, b}]; u != nil {
		return u
	}
	u := &answer{union(a.list, b.list)}
	if x.values += len(u.list); x.values > keptUnions {
		x.clear()
		x.values = len(u.list)
	}
	if x.kept == nil {
		x.kept = map[[2]*answer]*answer{}
	}
	x.kept[[2]*answer{a, b}] = u
	return u
}

// merge puts what a pod adds to counters of all kinds together.
func (r *Registry) merge(pods, terms *answer, keys []*pb.CounterValue) []*pb.CounterValue {
	var list []*pb.CounterValue
	if a := r.pods.both.of(pods, terms); a != nil {
		list = a.list
	}
	if len(keys) == 0 {
		return list
	}
	return union(list, keys)
}
