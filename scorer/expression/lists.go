package expression

import (
	"regexp"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
)

// listLibrary are Kubernetes' functions of lists (sum, min, max, isSorted, indexOf,
// lastIndexOf) and of regular expressions (find, findAll).
func listLibrary() []cel.EnvOption {
	item := cel.TypeParamType("T")
	list := cel.ListType(item)
	fold := func(name string, f func(traits.Lister) ref.Val) cel.EnvOption {
		return cel.Function(name, cel.MemberOverload("list_"+name, []*cel.Type{list}, item,
			cel.UnaryBinding(func(v ref.Val) ref.Val { return f(v.(traits.Lister)) })))
	}
	find := func(name string, step int) cel.EnvOption {
		return cel.Function(name, cel.MemberOverload("list_"+name, []*cel.Type{list, item}, cel.IntType,
			cel.BinaryBinding(func(l, v ref.Val) ref.Val { return position(l.(traits.Lister), v, step) })))
	}
	text, texts := cel.StringType, cel.ListType(cel.StringType)
	return []cel.EnvOption{
		fold("sum", sum),
		fold("min", func(l traits.Lister) ref.Val { return extreme(l, -1) }),
		fold("max", func(l traits.Lister) ref.Val { return extreme(l, 1) }),
		cel.Function("isSorted", cel.MemberOverload("list_isSorted", []*cel.Type{list}, cel.BoolType,
			cel.UnaryBinding(func(v ref.Val) ref.Val { return isSorted(v.(traits.Lister)) }))),
		find("indexOf", 1), find("lastIndexOf", -1),
		cel.Function("find", cel.MemberOverload("string_find_string", []*cel.Type{text, text}, text,
			cel.BinaryBinding(func(s, pattern ref.Val) ref.Val {
				return matching(pattern, func(r *regexp.Regexp) ref.Val { return types.String(r.FindString(string(s.(types.String)))) })
			}))),
		cel.Function("findAll",
			cel.MemberOverload("string_find_all_string", []*cel.Type{text, text}, texts,
				cel.BinaryBinding(func(s, pattern ref.Val) ref.Val { return findAll(s, pattern, -1) })),
			cel.MemberOverload("string_find_all_string_int", []*cel.Type{text, text, cel.IntType}, texts,
				cel.FunctionBinding(func(args ...ref.Val) ref.Val { return findAll(args[0], args[1], int(args[2].(types.Int))) }))),
	}
}

func findAll(s, pattern ref.Val, most int) ref.Val {
	return matching(pattern, func(r *regexp.Regexp) ref.Val {
		return types.NewStringList(types.DefaultTypeAdapter, r.FindAllString(string(s.(types.String)), most))
	})
}

// sum adds up; of an empty list it is 0.
func sum(l traits.Lister) ref.Val {
	var total ref.Val
	for it := l.Iterator(); it.HasNext() == types.True; {
		v := it.Next()
		if total == nil {
			total = v
			continue
		}
		a, ok := total.(traits.Adder)
		if !ok {
			return types.MaybeNoSuchOverloadErr(total)
		}
		if total = a.Add(v); types.IsError(total) {
			return total
		}
	}
	switch total.(type) {
	case nil:
		return types.IntZero
	case types.Int, types.Uint, types.Double, types.Duration, Quantity:
		return total
	}
	return types.MaybeNoSuchOverloadErr(total)
}

// extreme is the largest (sign 1) or smallest (−1).
func extreme(l traits.Lister, sign types.Int) ref.Val {
	var best ref.Val
	for it := l.Iterator(); it.HasNext() == types.True; {
		v := it.Next()
		if best == nil {
			best = v
			continue
		}
		c, ok := v.(traits.Comparer)
		if !ok {
			return types.MaybeNoSuchOverloadErr(v)
		}
		switch n := c.Compare(best).(type) {
		case types.Int:
			if n == sign {
				best = v
			}
		default:
			return n
		}
	}
	if best == nil {
		return types.NewErr("min and max of an empty list")
	}
	return best
}

func isSorted(l traits.Lister) ref.Val {
	var last ref.Val
	for it := l.Iterator(); it.HasNext() == types.True; {
		v := it.Next()
		if last != nil {
			c, ok := last.(traits.Comparer)
			if !ok {
				return types.MaybeNoSuchOverloadErr(last)
			}
			switch n := c.Compare(v).(type) {
			case types.Int:
				if n > 0 {
					return types.False
				}
			default:
				return n
			}
		}
		last = v
	}
	return types.True
}

// position is where a list has a value, -1 where it has not; from the end with step -1.
func position(l traits.Lister, v ref.Val, step int) ref.Val {
	n := int(l.Size().(types.Int))
	i := 0
	if step < 0 {
		i = n - 1
	}
	for ; i >= 0 && i < n; i += step {
		if types.Equal(l.Get(types.Int(i)), v) == types.True {
			return types.Int(i)
		}
	}
	return types.IntNegOne
}
