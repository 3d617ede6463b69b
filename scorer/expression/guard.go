package expression

import (
	"github.com/google/cel-go/common/functions"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/overloads"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"github.com/google/cel-go/interpreter"
)

// Most costs are known when a step is done. A few steps can be the end by themselves: those whose
// result is as large as two of their operands multiplied, and comparisons of values that hold
// another one many times over, such as [a, a] in [b, b] in [c, c]. These are stopped before.

// guard is a decorator that stops an evaluation before a step that would make, or walk, more than
// limit.
func (l *language) guard(limit uint64) interpreter.InterpretableDecorator {
	return func(i interpreter.Interpretable) (interpreter.Interpretable, error) {
		switch i := i.(type) {
		case interpreter.InterpretableConstructor:
			for _, v := range i.InitVals() {
				if _, constant := v.(interpreter.InterpretableConst); !constant {
					return &boundedValue{i, limit}, nil
				}
			}
		case interpreter.InterpretableCall:
			if o := i.OverloadID(); i.Function() == operators.Add && (o == overloads.AddList || o == "") {
				return interpreter.NewCall(i.ID(), i.Function(), o, i.Args(),
					func(args ...ref.Val) ref.Val { return l.add(args, limit) }), nil
			}
			if ahead := ahead[i.Function()]; ahead != nil {
				call := l.binding(i.Function(), i.OverloadID())
				if i.Function() == overloads.Matches {
					if call = matches; constantPattern(i) {
						return i, nil // it is made ready by now
					}
				}
				if call != nil {
					return interpreter.NewCall(i.ID(), i.Function(), i.OverloadID(), i.Args(), func(args ...ref.Val) ref.Val {
						if ahead(args) > limit {
							panic(tooCostly)
						}
						return call(args...)
					}), nil
				}
			}
		}
		return i, nil
	}
}

// add is a + b. Lists become one: cel-go's are views, which a walk asks for their sizes at each
// step, all the way down.
func (l *language) add(args []ref.Val, limit uint64) ref.Val {
	first, ok := args[0].(traits.Adder)
	if !ok {
		return types.MaybeNoSuchOverloadErr(args[0])
	}
	a, isList := args[0].(traits.Lister)
	b, areLists := args[1].(traits.Lister)
	if _, ofMacro := args[0].(traits.MutableLister); !isList || !areLists || ofMacro {
		return first.Add(args[1])
	}
	n := size(a) + size(b)
	if n > limit {
		panic(tooCostly)
	}
	all := make([]ref.Val, 0, n)
	for _, list := range []traits.Lister{a, b} {
		for it := list.Iterator(); it.HasNext() == types.True; {
			all = append(all, it.Next())
		}
	}
	return types.NewRefValList(l.types, all)
}

// tooCostly ends an evaluation as cel-go does where the sum of its costs is too high.
var tooCostly = interpreter.EvalCancelledError{Message: "operation cancelled: actual cost limit exceeded",
	Cause: interpreter.CostLimitExceeded}

// ahead is what calls are going to cost, by function.
var ahead = map[string]func(args []ref.Val) uint64{
	"replace": func(args []ref.Val) uint64 {
		if len(args) < 3 {
			return 0
		}
		return product(1+size(args[0]), size(args[2])) / 10
	},
	"join": func(args []ref.Val) uint64 {
		if len(args) < 2 {
			return 0
		}
		return product(size(args[0]), size(args[1])) / 10
	},
	"find":            patternCost,
	"findAll":         patternCost,
	overloads.Matches: patternCost,
	"sets.contains":   pairs,
	"sets.equivalent": pairs,
	"sets.intersects": pairs,
}

// constantPattern tells whether a call is with a regular expression that stands in the text.
func constantPattern(i interpreter.InterpretableCall) bool {
	args := i.Args()
	if len(args) < 2 {
		return false
	}
	_, constant := args[1].(interpreter.InterpretableConst)
	return constant
}

func pairs(args []ref.Val) uint64 {
	if len(args) < 2 {
		return 0
	}
	return product(size(args[0]), size(args[1]))
}

// product is a * b of sizes, which are far below 2^32 each.
func product(a, b uint64) uint64 { return min(a, 1<<31) * min(b, 1<<31) }

// binding is what a function's overload does; nil: it has no such.
func (l *language) binding(function, overload string) functions.FunctionOp {
	list, err := l.env.Functions()[function].Bindings()
	if err != nil {
		return nil
	}
	for _, o := range list {
		if o.Operator != overload {
			continue
		}
		return func(args ...ref.Val) ref.Val {
			switch {
			case len(args) == 1 && o.Unary != nil:
				return o.Unary(args[0])
			case len(args) == 2 && o.Binary != nil:
				return o.Binary(args[0], args[1])
			}
			return o.Function(args...)
		}
	}
	return nil
}

// boundedValue makes a list, map or record, and stops where that is too large.
type boundedValue struct {
	interpreter.InterpretableConstructor
	limit uint64
}

// Eval implements interpreter.Interpretable.
func (b *boundedValue) Eval(a interpreter.Activation) ref.Val {
	v := b.InterpretableConstructor.Eval(a)
	if weight(v, b.limit) > b.limit {
		panic(tooCostly)
	}
	return v
}

// weight is how much a value holds with all that is in it, in units of cost: about most+1 where
// it is more than most.
func weight(v ref.Val, most uint64) uint64 {
	sum := uint64(1)
	add := func(v ref.Val) bool {
		sum += weight(v, most-min(sum, most))
		return sum <= most
	}
	switch v := v.(type) {
	case traits.Mapper:
		if _, ofNode := v.(*nodeMap); ofNode {
			return size(v)
		}
		for it := v.Iterator(); it.HasNext() == types.True; {
			key := it.Next()
			if !add(key) || !add(v.Get(key)) {
				break
			}
		}
	case traits.Lister:
		for it := v.Iterator(); it.HasNext() == types.True; {
			if !add(it.Next()) {
				break
			}
		}
	case *types.Optional:
		if v.HasValue() {
			add(v.GetValue())
		}
	default:
		return walked(v)
	}
	return sum
}
