package expression

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/interpreter"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// activation gives a program its variables.
type activation struct {
	node      *nodeValue
	pod       *podValue
	arguments []ref.Val
}

// ResolveName implements cel.Activation.
func (a *activation) ResolveName(name string) (any, bool) {
	switch {
	case name == "node" && a.node != nil:
		return a.node, true
	case name == "pod" && a.pod != nil:
		return a.pod, true
	}
	if i := partNamed(name); i >= 0 && i < len(a.arguments) && a.arguments[i] != nil {
		return a.arguments[i], true
	}
	return nil, false
}

// Parent implements cel.Activation.
func (a *activation) Parent() cel.Activation { return nil }

// partPrefix begins the names of arguments; no expression can write them.
const partPrefix = "@p"

// partNamed is the part that a variable stands for, -1 for none.
func partNamed(name string) int {
	if len(name) <= len(partPrefix) || name[:len(partPrefix)] != partPrefix {
		return -1
	}
	n, err := strconv.Atoi(name[len(partPrefix):])
	if err != nil {
		return -1
	}
	return n
}

// Ask answers the parts for a pod.
func (t *Template) Ask(p *Pod) []ref.Val {
	out := make([]ref.Val, len(t.parts))
	a := &activation{pod: &podValue{the(), p}}
	for i := range t.parts {
		if out[i] = t.parts[i].constant; out[i] == nil {
			// What goes over the wire is what counts.
			v, err := the().decode(encode(answer(t.parts[i].program, a)))
			if err != nil {
				v = failure(err.Error())
			}
			out[i] = v
		}
	}
	return out
}

// Decode reads arguments from the wire.
func (t *Template) Decode(list []*pb.CelArgument) ([]ref.Val, error) {
	out := make([]ref.Val, len(t.parts))
	for i := range t.parts {
		out[i] = t.parts[i].constant
	}
	for _, a := range list {
		n := int(a.GetPart())
		if n >= len(t.parts) || t.parts[n].program == nil {
			return nil, fmt.Errorf("part %d of the expression does not look at the pod", n)
		}
		v, err := the().decode(a.GetValue())
		if err != nil {
			return nil, fmt.Errorf("part %d of the expression: %w", n, err)
		}
		if !fits(t.parts[n].typ, v) {
			return nil, fmt.Errorf("part %d of the expression: expected %s, got %s", n, t.parts[n].typ, v.Type().TypeName())
		}
		out[n] = v
	}
	return out, nil
}

// Residual is an expression over the node alone.
type Residual struct {
	kind Kind
	// constant is what it comes to whatever the node is; nil: that depends.
	constant  *Outcome
	program   cel.Program
	arguments []ref.Val
	live      []int
	reads     []Read
}

// Outcome is what an expression comes to on a node.
type Outcome struct {
	// Failed tells why it comes to nothing; empty: it comes to Pass or Number.
	Failed string
	// Costly tells that it failed for its cost.
	Costly bool
	Pass   bool
	Number float64
	// Cost is what was spent, NodeCost at the most.
	Cost uint64
}

// Residual makes the expression that is left once the parts are answered. An argument that is
// nil must not matter.
//
// cel-go's own partial evaluation does not serve: of 1,000 drawn expressions about 550 leave a residual that can not be sent as
// text, with values or halves of macros that no text stands for, and 110 to 140 one that still names the pod; what it does make
// takes a worker twice the time and three times the memory, for each class is checked anew.
func (t *Template) Residual(arguments []ref.Val) (*Residual, error) {
	if len(arguments) != len(t.parts) {
		return nil, fmt.Errorf("expected %d arguments, got %d", len(t.parts), len(arguments))
	}
	b := binding{template: t, arguments: arguments, ast: ast.Copy(t.ast), factory: ast.NewExprFactory()}
	b.substitute(b.ast.Expr())
	root := b.ast.Expr()
	live := b.reduce(root)
	b.collect(root, &live)
	slices.Sort(live)
	r := &Residual{kind: t.kind, arguments: arguments}
	for _, n := range slices.Compact(live) {
		if arguments[n] == nil {
			return nil, fmt.Errorf("part %d of the expression has no answer", n)
		}
		if t.parts[n].program != nil {
			r.live = append(r.live, n)
		}
	}
	if v := b.valueOf(root); v != nil {
		o := t.kind.outcome(v)
		r.constant = &o
		return r, nil
	}
	b.inline(root)
	s := survey{ast: b.ast, facts: map[int64]facts{}}
	s.look(root, nil)
	r.reads = sorted(s.node)
	var err error
	r.program, err = plan(b.ast, NodeCost)
	return r, err
}

// Encode writes the arguments that matter.
func (r *Residual) Encode() []*pb.CelArgument {
	var out []*pb.CelArgument
	for _, n := range r.live {
		out = append(out, &pb.CelArgument{Part: uint32(n), Value: encode(r.arguments[n])})
	}
	return out
}

// Constant is what the residual comes to on every node; false: that depends on the node.
func (r *Residual) Constant() (Outcome, bool) {
	if r.constant == nil {
		return Outcome{}, false
	}
	return *r.constant, true
}

// Reads is what of a node the residual reads, sorted.
func (r *Residual) Reads() []Read { return r.reads }

// Eval comes to a node's outcome: always the same for what Reads names.
func (r *Residual) Eval(n Node) Outcome {
	if r.constant != nil {
		return *r.constant
	}
	v, details, err := r.program.Eval(&activation{node: &nodeValue{the(), n}, arguments: r.arguments})
	return r.kind.judge(v, details, err)
}

// judge makes an outcome of an evaluation.
func (k Kind) judge(v ref.Val, details *cel.EvalDetails, err error) Outcome {
	var cancelled interpreter.EvalCancelledError
	if errors.As(err, &cancelled) && cancelled.Cause == interpreter.CostLimitExceeded {
		return Outcome{Failed: "it costs too much", Costly: true, Cost: NodeCost}
	}
	var o Outcome
	if err != nil {
		o = k.outcome(failure(err.Error()))
	} else {
		o = k.outcome(v)
	}
	if details != nil && details.ActualCost() != nil {
		o.Cost = min(*details.ActualCost(), NodeCost)
	}
	return o
}

// outcome makes an outcome of a value.
func (k Kind) outcome(v ref.Val) Outcome {
	if err, failed := v.(*types.Err); failed {
		return Outcome{Failed: err.Error()}
	}
	if b, isBool := v.(types.Bool); isBool && k == Filter {
		return Outcome{Pass: bool(b)}
	}
	if k == Score {
		number := 0.0
		switch n := v.(type) {
		case types.Int:
			number = float64(n)
		case types.Uint:
			number = float64(n)
		case types.Double:
			number = float64(n)
		default:
			return Outcome{Failed: fmt.Sprintf("expected an int or a double, got %s", v.Type().TypeName())}
		}
		if math.IsNaN(number) {
			return Outcome{Failed: "it is not a number"}
		}
		return Outcome{Number: number}
	}
	return Outcome{Failed: fmt.Sprintf("expected a bool, got %s", v.Type().TypeName())}
}

// binding puts arguments into a copy of a template's expression.
type binding struct {
	template  *Template
	arguments []ref.Val
	ast       *ast.AST
	factory   ast.ExprFactory
}

// substitute puts a variable in the place of each part.
func (b *binding) substitute(e ast.Expr) {
	if n, ok := b.template.partOf[e.ID()]; ok {
		name := partPrefix + strconv.Itoa(n)
		e.SetKindCase(b.factory.NewIdent(e.ID(), name))
		b.ast.SetReference(e.ID(), ast.NewIdentReference(name, nil))
		return
	}
	for _, c := range children(e) {
		b.substitute(c)
	}
}

// valueOf is what an expression is known to be; nil: it is not.
func (b *binding) valueOf(e ast.Expr) ref.Val {
	switch e.Kind() {
	case ast.LiteralKind:
		return e.AsLiteral()
	case ast.IdentKind:
		if n := partNamed(e.AsIdent()); n >= 0 {
			return b.arguments[n]
		}
	}
	return nil
}

// reduce takes away what can not matter: of a && b, a || b, !a and a ? b : c, where operands are
// known. It returns the parts by which it went.
func (b *binding) reduce(e ast.Expr) (by []int) {
	if e.Kind() == ast.CallKind {
		switch c := e.AsCall(); c.FunctionName() {
		case operators.Conditional:
			return b.reduceConditional(e, c.Args())
		case operators.LogicalAnd:
			return b.reduceLogic(e, c.Args(), types.False)
		case operators.LogicalOr:
			return b.reduceLogic(e, c.Args(), types.True)
		case operators.LogicalNot:
			by = b.reduce(c.Args()[0])
			if v, ok := b.valueOf(c.Args()[0]).(types.Bool); ok {
				return append(by, b.become(e, c.Args()[0], !v)...)
			}
			return by
		}
	}
	for _, c := range children(e) {
		by = append(by, b.reduce(c)...)
	}
	return by
}

// become makes an expression the literal v, for what an operand is.
func (b *binding) become(e, operand ast.Expr, v ref.Val) (by []int) {
	b.collect(operand, &by)
	e.SetKindCase(b.factory.NewLiteral(e.ID(), v))
	delete(b.ast.ReferenceMap(), e.ID())
	return by
}

// replace makes an expression one of its own operands.
func (b *binding) replace(e, operand ast.Expr) {
	reference, typ := b.ast.ReferenceMap()[operand.ID()], b.ast.GetType(operand.ID())
	e.SetKindCase(operand)
	b.ast.SetType(e.ID(), typ)
	if reference == nil {
		delete(b.ast.ReferenceMap(), e.ID())
	} else {
		b.ast.SetReference(e.ID(), reference)
	}
}

func (b *binding) reduceConditional(e ast.Expr, args []ast.Expr) []int {
	by := b.reduce(args[0])
	switch v := b.valueOf(args[0]).(type) {
	case types.Bool:
		b.collect(args[0], &by)
		branch := args[1]
		if !v {
			branch = args[2]
		}
		by = append(by, b.reduce(branch)...)
		b.replace(e, branch)
		return by
	case *types.Err:
		b.replace(e, args[0])
		return by
	}
	return append(append(by, b.reduce(args[1])...), b.reduce(args[2])...)
}

// reduceLogic reduces && and ||, of which one operand that is absorbing decides.
func (b *binding) reduceLogic(e ast.Expr, args []ast.Expr, absorbing types.Bool) (by []int) {
	var each [2][]int
	for i, a := range args {
		each[i] = b.reduce(a)
		if b.valueOf(a) == absorbing {
			return append(each[i], b.become(e, a, absorbing)...)
		}
	}
	for i, a := range args {
		other := args[1-i]
		if b.valueOf(a) == !absorbing && b.ast.GetType(other.ID()).Kind() == types.BoolKind {
			by = append(each[i], each[1-i]...)
			b.collect(a, &by)
			b.replace(e, other)
			return by
		}
	}
	return append(each[0], each[1]...)
}

// collect adds the parts that are left in an expression.
func (b *binding) collect(e ast.Expr, into *[]int) {
	if e.Kind() == ast.IdentKind {
		if n := partNamed(e.AsIdent()); n >= 0 {
			*into = append(*into, n)
		}
	}
	for _, c := range children(e) {
		b.collect(c, into)
	}
}

// inline makes literals of arguments that can be: a regular expression is then made ready once.
func (b *binding) inline(e ast.Expr) {
	if e.Kind() == ast.IdentKind {
		n := partNamed(e.AsIdent())
		if n < 0 {
			return
		}
		switch v := b.arguments[n].(type) {
		case types.String:
			if strings.Contains(string(v), "{") && patternOf(string(v)).steps > maxSteps {
				return // cel-go would make it ready
			}
			e.SetKindCase(b.factory.NewLiteral(e.ID(), v))
			delete(b.ast.ReferenceMap(), e.ID())
		case types.Bool, types.Int, types.Uint, types.Double, types.Bytes:
			e.SetKindCase(b.factory.NewLiteral(e.ID(), v))
			delete(b.ast.ReferenceMap(), e.ID())
		}
		return
	}
	for _, c := range children(e) {
		b.inline(c)
	}
}
