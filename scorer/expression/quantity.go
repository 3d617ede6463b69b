package expression

import (
	"fmt"
	"math"
	"math/big"
	"reflect"
	"strconv"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/overloads"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
)

// Quantity is an amount of a resource, exact to a billionth. Its value is
// units + nanos/1e9, where nanos is from 0 to 999999999.
type Quantity struct {
	units int64
	nanos int32
}

const (
	nano = 1_000_000_000
	// maxQuantityText and maxExponent are more than any amount needs.
	maxQuantityText = 64
	maxExponent     = 40
)

// quantityType is named as in Kubernetes' own CEL.
var quantityType = types.NewObjectType("kubernetes.Quantity", traits.AdderType, traits.ComparerType, traits.DividerType,
	traits.SubtractorType)

// Whole is an amount of whole units.
func Whole(n int64) Quantity { return Quantity{units: n} }

// Thousandths is an amount of thousandths, such as of CPUs.
func Thousandths(n int64) Quantity {
	units, rest := n/1000, n%1000
	if rest < 0 {
		units, rest = units-1, rest+1000
	}
	return Quantity{units, int32(rest) * (nano / 1000)}
}

// ParseQuantity reads an amount as Kubernetes writes it: 1500m, 1.5, 4Gi, 2e3. Less than a
// billionth is rounded away from zero; what does not fit into 64 bits is an error.
func ParseQuantity(s string) (Quantity, error) {
	bad := fmt.Errorf("quantity %.80q: expected a number with a suffix such as m, k, M, Gi or e3", s)
	if s == "" || len(s) > maxQuantityText {
		return Quantity{}, bad
	}
	number, negative := s, false
	if s[0] == '-' || s[0] == '+' {
		number, negative = s[1:], s[0] == '-'
	}
	end := strings.IndexFunc(number, func(r rune) bool { return (r < '0' || r > '9') && r != '.' })
	suffix := ""
	if end >= 0 {
		number, suffix = number[:end], number[end:]
	}
	whole, fraction, _ := strings.Cut(number, ".")
	digits, ok := new(big.Int).SetString(whole+fraction, 10)
	if !ok || strings.Contains(fraction, ".") {
		return Quantity{}, bad
	}
	ten, two, ok := exponents(suffix)
	if !ok {
		return Quantity{}, bad
	}
	// The amount in nanos is digits × 10^(9+ten−len(fraction)) × 2^two.
	digits.Lsh(digits, two)
	power := 9 + ten - len(fraction)
	if power >= 0 {
		digits.Mul(digits, tenTo(power))
	} else {
		rest := new(big.Int)
		digits.QuoRem(digits, tenTo(-power), rest)
		if rest.Sign() != 0 {
			digits.Add(digits, big.NewInt(1))
		}
	}
	if negative {
		digits.Neg(digits)
	}
	return fromNanos(digits)
}

func tenTo(n int) *big.Int { return new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(n)), nil) }

// exponents are what a suffix stands for, as powers of ten and of two.
func exponents(suffix string) (ten int, two uint, ok bool) {
	switch suffix {
	case "":
		return 0, 0, true
	case "n", "u", "m":
		return map[string]int{"n": -9, "u": -6, "m": -3}[suffix], 0, true
	}
	if i := strings.Index("kMGTPE", suffix); i >= 0 && len(suffix) == 1 {
		return 3 * (i + 1), 0, true
	}
	if i := strings.Index("KMGTPE", suffix[:1]); i >= 0 && len(suffix) == 2 && suffix[1] == 'i' {
		return 0, uint(10 * (i + 1)), true
	}
	if suffix[0] != 'e' && suffix[0] != 'E' {
		return 0, 0, false
	}
	n, err := strconv.Atoi(suffix[1:])
	return n, 0, err == nil && n >= -maxExponent && n <= maxExponent
}

func fromNanos(n *big.Int) (Quantity, error) {
	units, rest := new(big.Int).DivMod(n, big.NewInt(nano), new(big.Int))
	if !units.IsInt64() {
		return Quantity{}, fmt.Errorf("quantity: more than %d", int64(math.MaxInt64))
	}
	return Quantity{units.Int64(), int32(rest.Int64())}, nil
}

func (q Quantity) inNanos() *big.Int {
	n := new(big.Int).Mul(big.NewInt(q.units), big.NewInt(nano))
	return n.Add(n, big.NewInt(int64(q.nanos)))
}

// String is an amount that ParseQuantity reads as the same.
func (q Quantity) String() string {
	if q.nanos == 0 {
		return fmt.Sprint(q.units)
	}
	n := q.inNanos()
	for _, s := range []struct {
		suffix string
		nanos  int64
	}{{"m", 1_000_000}, {"u", 1000}} {
		if whole, rest := new(big.Int).QuoRem(n, big.NewInt(s.nanos), new(big.Int)); rest.Sign() == 0 {
			return whole.String() + s.suffix
		}
	}
	return n.String() + "n"
}

// Float is about the amount.
func (q Quantity) Float() float64 { return float64(q.units) + float64(q.nanos)/nano }

func (q Quantity) compare(o Quantity) int {
	switch {
	case q.units < o.units, q.units == o.units && q.nanos < o.nanos:
		return -1
	case q == o:
		return 0
	}
	return 1
}

// sum is q + o, or q − o with sign −1.
func (q Quantity) sum(o Quantity, sign int64) ref.Val {
	n := o.inNanos()
	n.Mul(n, big.NewInt(sign))
	s, err := fromNanos(n.Add(n, q.inNanos()))
	if err != nil {
		return types.WrapErr(err)
	}
	return s
}

// Add implements traits.Adder.
func (q Quantity) Add(other ref.Val) ref.Val {
	return q.with(other, func(o Quantity) ref.Val { return q.sum(o, 1) })
}

// Subtract implements traits.Subtractor.
func (q Quantity) Subtract(other ref.Val) ref.Val {
	return q.with(other, func(o Quantity) ref.Val { return q.sum(o, -1) })
}

// Compare implements traits.Comparer.
func (q Quantity) Compare(other ref.Val) ref.Val {
	return q.with(other, func(o Quantity) ref.Val { return types.Int(q.compare(o)) })
}

// Divide implements traits.Divider: the ratio, a double.
func (q Quantity) Divide(other ref.Val) ref.Val {
	return q.with(other, func(o Quantity) ref.Val {
		if o == (Quantity{}) {
			return types.NewErr("divide by zero")
		}
		return types.Double(q.Float() / o.Float())
	})
}

func (q Quantity) with(other ref.Val, f func(Quantity) ref.Val) ref.Val {
	o, ok := other.(Quantity)
	if !ok {
		return types.MaybeNoSuchOverloadErr(other)
	}
	return f(o)
}

// ConvertToNative implements ref.Val.
func (q Quantity) ConvertToNative(reflect.Type) (any, error) {
	return nil, fmt.Errorf("a quantity stays one")
}

// ConvertToType implements ref.Val.
func (q Quantity) ConvertToType(t ref.Type) ref.Val {
	switch t.TypeName() {
	case types.TypeType.TypeName():
		return quantityType
	case quantityType.TypeName():
		return q
	case types.DoubleType.TypeName():
		return types.Double(q.Float())
	case types.IntType.TypeName():
		return q.integer()
	}
	return types.NewErr("type conversion error from 'quantity' to '%s'", t.TypeName())
}

func (q Quantity) integer() ref.Val {
	if q.nanos != 0 {
		return types.NewErr("cannot convert value to integer")
	}
	return types.Int(q.units)
}

// Equal implements ref.Val.
func (q Quantity) Equal(other ref.Val) ref.Val {
	o, ok := other.(Quantity)
	return types.Bool(ok && o == q)
}

// Type implements ref.Val.
func (q Quantity) Type() ref.Type { return quantityType }

// Value implements ref.Val.
func (q Quantity) Value() any { return q }

// IsZeroValue implements traits.Zeroer.
func (q Quantity) IsZeroValue() bool { return q == Quantity{} }

// quantityLibrary are Kubernetes' functions of quantities; and quantities compare, add up,
// subtract and divide by operators too.
func quantityLibrary() []cel.EnvOption {
	q, b, i := quantityType, cel.BoolType, cel.IntType
	args := func(t ...*cel.Type) []*cel.Type { return t }
	operator := func(name, id string, result *cel.Type) cel.EnvOption {
		return cel.Function(name, cel.Overload(id, args(q, q), result))
	}
	with := func(f func(a, b Quantity) ref.Val) cel.OverloadOpt {
		return cel.BinaryBinding(func(l, r ref.Val) ref.Val { return f(l.(Quantity), r.(Quantity)) })
	}
	withInt := func(sign int64) cel.OverloadOpt {
		return cel.BinaryBinding(func(l, r ref.Val) ref.Val { return l.(Quantity).sum(Whole(int64(r.(types.Int))), sign) })
	}
	of := func(f func(Quantity) ref.Val) cel.OverloadOpt {
		return cel.UnaryBinding(func(v ref.Val) ref.Val { return f(v.(Quantity)) })
	}
	return []cel.EnvOption{
		cel.Function("quantity", cel.Overload("string_to_quantity", args(cel.StringType), q, cel.UnaryBinding(parseQuantity))),
		cel.Function("isQuantity", cel.Overload("is_quantity_string", args(cel.StringType), b, cel.UnaryBinding(func(v ref.Val) ref.Val {
			return types.Bool(!types.IsError(parseQuantity(v)))
		}))),
		operator(operators.Less, "less_quantity", b),
		operator(operators.LessEquals, "less_equals_quantity", b),
		operator(operators.Greater, "greater_quantity", b),
		operator(operators.GreaterEquals, "greater_equals_quantity", b),
		operator(operators.Add, "add_quantity", q),
		operator(operators.Subtract, "subtract_quantity", q),
		operator(operators.Divide, "divide_quantity", cel.DoubleType),
		cel.Function(overloads.TypeConvertDouble, cel.Overload("quantity_to_double", args(q), cel.DoubleType,
			of(func(v Quantity) ref.Val { return types.Double(v.Float()) }))),
		cel.Function(overloads.TypeConvertInt, cel.Overload("quantity_to_int", args(q), i, of(Quantity.integer))),
		cel.Function("sign", cel.MemberOverload("quantity_sign", args(q), i,
			of(func(v Quantity) ref.Val { return types.Int(v.compare(Quantity{})) }))),
		cel.Function("isInteger", cel.MemberOverload("quantity_is_integer", args(q), b,
			of(func(v Quantity) ref.Val { return types.Bool(v.nanos == 0) }))),
		cel.Function("asInteger", cel.MemberOverload("quantity_get_int", args(q), i, of(Quantity.integer))),
		cel.Function("asApproximateFloat", cel.MemberOverload("quantity_get_float", args(q), cel.DoubleType,
			of(func(v Quantity) ref.Val { return types.Double(v.Float()) }))),
		cel.Function("compareTo", cel.MemberOverload("quantity_compare_to", args(q, q), i,
			with(func(a, b Quantity) ref.Val { return types.Int(a.compare(b)) }))),
		cel.Function("isGreaterThan", cel.MemberOverload("quantity_is_greater_than", args(q, q), b,
			with(func(a, b Quantity) ref.Val { return types.Bool(a.compare(b) > 0) }))),
		cel.Function("isLessThan", cel.MemberOverload("quantity_is_less_than", args(q, q), b,
			with(func(a, b Quantity) ref.Val { return types.Bool(a.compare(b) < 0) }))),
		cel.Function("add",
			cel.MemberOverload("quantity_add", args(q, q), q, with(func(a, b Quantity) ref.Val { return a.sum(b, 1) })),
			cel.MemberOverload("quantity_add_int", args(q, i), q, withInt(1))),
		cel.Function("sub",
			cel.MemberOverload("quantity_sub", args(q, q), q, with(func(a, b Quantity) ref.Val { return a.sum(b, -1) })),
			cel.MemberOverload("quantity_sub_int", args(q, i), q, withInt(-1))),
	}
}

func parseQuantity(v ref.Val) ref.Val {
	s, ok := v.(types.String)
	if !ok {
		return types.MaybeNoSuchOverloadErr(v)
	}
	q, err := ParseQuantity(string(s))
	if err != nil {
		return types.WrapErr(err)
	}
	return q
}
