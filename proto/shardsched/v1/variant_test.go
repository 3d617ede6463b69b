package shardschedv1

import (
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// With leaves nothing out that a query may have.
func TestWithSharesAllFields(t *testing.T) {
	fields := (&Query{}).ProtoReflect().Descriptor().Fields()
	for i := range fields.Len() {
		field := fields.Get(i)
		switch field.Name() {
		case "class_id", "fit", "balanced":
			continue
		}
		q := &Query{}
		m := q.ProtoReflect()
		switch {
		case field.IsList() && field.Kind() == protoreflect.MessageKind:
			m.Mutable(field).List().AppendMutable()
		case field.IsList() && field.Kind() == protoreflect.EnumKind:
			m.Mutable(field).List().Append(protoreflect.ValueOfEnum(1))
		case field.IsList():
			m.Mutable(field).List().Append(protoreflect.ValueOfString("x"))
		case field.Kind() == protoreflect.MessageKind:
			m.Mutable(field)
		default:
			m.Set(field, protoreflect.ValueOfString("x"))
		}
		if got := q.With(nil, nil); !proto.Equal(got, q) {
			t.Errorf("%s: got %v, want %v", field.Name(), got, q)
		}
	}
}

func TestVariantsAreTheQueriesThatTheyAreMadeOf(t *testing.T) {
	q := validQuery()
	other := q.With(&FitQuery{
		Requests: &Resources{MilliCpu: 700, Scalars: []*ScalarResource{{Name: "a/b", Quantity: 2}}}, ScoringType: q.Fit.ScoringType, Shape: q.Fit.Shape,
		Scored: []*ScoredResource{{Name: "cpu", Weight: 1, Request: 700}},
	}, &BalancedQuery{Scored: []*ScoredResource{{Name: "memory", Weight: 1, Request: 9}}})
	other.ClassId = 7
	if !q.CanVary(other.Fit, other.Balanced) {
		t.Fatal("can vary: got false, want true")
	}
	v := other.Variant(q.ClassId)
	if err := v.Validate(); err != nil {
		t.Fatal(err)
	}
	if got, err := q.Vary(v); err != nil || !proto.Equal(got, other) {
		t.Errorf("got %v and %v, want %v", got, err, other)
	}
	for name, change := range map[string]func(*Query){
		"no requests":                 func(x *Query) { x.Fit = nil },
		"nothing balanced":            func(x *Query) { x.Balanced = nil },
		"best effort":                 func(x *Query) { x.Fit.BestEffort = true },
		"another resource to score":   func(x *Query) { x.Fit.Scored[0].Name = "memory" },
		"more resources to score":     func(x *Query) { x.Fit.Scored = append(x.Fit.Scored, x.Fit.Scored[0]) },
		"another resource to balance": func(x *Query) { x.Balanced.Scored[0].Name = "cpu" },
	} {
		x := proto.CloneOf(other)
		if change(x); q.CanVary(x.Fit, x.Balanced) {
			t.Errorf("can vary to %s: got true, want false", name)
		}
	}
	for field, change := range map[string]func(*Variant){
		"fit_scored: expected one for each of 1 resources, got 2":      func(v *Variant) { v.FitScored = []int64{1, 2} },
		"balanced_scored: expected one for each of 1 resources, got 0": func(v *Variant) { v.BalancedScored = nil },
	} {
		x := proto.CloneOf(v)
		change(x)
		if _, err := q.Vary(x); err == nil || err.Error() != field {
			t.Errorf("got %v, want %s", err, field)
		}
	}
}
