package expression

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/overloads"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// Kind is what an expression is to come to.
type Kind int

// The kinds.
const (
	// Filter: a bool.
	Filter Kind = iota
	// Score: a number.
	Score
)

// Error is what is wrong with an expression.
type Error struct {
	// Line and Column are where, from 1; 0: not known.
	Line, Column int
	Problem      string
}

// Error names the line only where it is not the first.
func (e *Error) Error() string {
	switch {
	case e.Line > 1:
		return fmt.Sprintf("line %d, column %d: %s", e.Line, e.Column, e.Problem)
	case e.Column > 0:
		return fmt.Sprintf("column %d: %s", e.Column, e.Problem)
	}
	return e.Problem
}

// Read is what an expression reads of a pod or a node: a field, or one entry of a field that is
// a map.
type Read struct {
	Field string
	Keyed bool
	Key   string
}

// Template is an expression, checked and taken apart.
type Template struct {
	text string
	kind Kind
	ast  *ast.AST
	// parts are in the order of the text, partOf finds them by the ids of their roots.
	parts  []part
	partOf map[int64]int
	// Of the pod, by the parts; and of the node.
	pod, node []Read
}

// part is what is answered before there is a node.
type part struct {
	typ *types.Type
	// program answers it; nil: it is the same for every pod.
	program  cel.Program
	constant ref.Val
}

// Compile checks an expression and takes it apart. What is wrong comes as *Error.
func Compile(text string, kind Kind) (*Template, error) {
	if len(text) > pb.MaxCelText {
		return nil, &Error{Problem: fmt.Sprintf("longer than %d bytes", pb.MaxCelText)}
	}
	if !utf8.ValidString(text) {
		return nil, &Error{Problem: "expected UTF-8"}
	}
	if n := strings.Count(text, "optMap") + strings.Count(text, "optFlatMap"); n > maxCopying {
		return nil, &Error{Problem: fmt.Sprintf("optMap and optFlatMap %d times, expected at most %d", n, maxCopying)}
	}
	checked, issues := the().env.Compile(text)
	if issues.Err() != nil {
		first := issues.Errors()[0]
		problem := strings.TrimSpace(strings.ToValidUTF8(first.Message, "\uFFFD"))
		return nil, &Error{Line: first.Location.Line(), Column: first.Location.Column() + 1, Problem: problem}
	}
	t := &Template{text: text, kind: kind, ast: checked.NativeRep(), partOf: map[int64]int{}}
	if err := t.checkResult(); err != nil {
		return nil, err
	}
	s := survey{ast: t.ast, facts: map[int64]facts{}}
	s.look(t.ast.Expr(), nil)
	if s.err != nil {
		return nil, s.err
	}
	if err := t.split(&s, t.ast.Expr()); err != nil {
		return nil, err
	}
	if err := t.checkPlan(); err != nil {
		return nil, err
	}
	t.pod, t.node = sorted(s.pod), sorted(s.node)
	return t, nil
}

// Text is the expression.
func (t *Template) Text() string { return t.text }

// PodReads is what of a pod the expression reads, sorted.
func (t *Template) PodReads() []Read { return t.pod }

// NodeReads is what of a node the expression reads, sorted.
func (t *Template) NodeReads() []Read { return t.node }

func (t *Template) checkResult() error {
	got := t.ast.GetType(t.ast.Expr().ID())
	want := []types.Kind{types.BoolKind, types.DynKind}
	text := "a bool"
	if t.kind == Score {
		want = []types.Kind{types.IntKind, types.UintKind, types.DoubleKind, types.DynKind}
		text = "an int or a double"
	}
	if slices.Contains(want, got.Kind()) {
		return nil
	}
	return t.wrong(t.ast.Expr(), fmt.Sprintf("expected %s, got %s", text, got))
}

// checkPlan tells of what can be checked but not evaluated, such as a variable that is a type.
func (t *Template) checkPlan() error {
	b := binding{template: t, ast: ast.Copy(t.ast), factory: ast.NewExprFactory()}
	b.substitute(b.ast.Expr())
	if _, err := plan(b.ast, NodeCost); err != nil {
		return t.wrong(t.ast.Expr(), err.Error())
	}
	return nil
}

func (t *Template) wrong(e ast.Expr, problem string) error { return wrongAt(t.ast, e, problem) }

func wrongAt(a *ast.AST, e ast.Expr, problem string) error {
	at := a.SourceInfo().GetStartLocation(e.ID())
	if at.Line() < 1 {
		return &Error{Problem: problem}
	}
	return &Error{Line: at.Line(), Column: at.Column() + 1, Problem: problem}
}

// facts are what a survey finds out about an expression.
type facts struct {
	node, pod bool
	// inner tells that it uses a variable of a macro around it.
	inner bool
	// plain: a literal, or a list or map of such.
	plain bool
}

// survey looks at all of an expression.
type survey struct {
	ast       *ast.AST
	facts     map[int64]facts
	pod, node []Read
	err       error
}

func (s *survey) wrong(e ast.Expr, problem string) {
	if s.err == nil {
		s.err = wrongAt(s.ast, e, problem)
	}
}

// look notes the facts of an expression and of all within. bound are the variables of macros
// around it. The names that it leaves open are returned.
func (s *survey) look(e ast.Expr, bound []string) (open []string) {
	f := facts{}
	if root, read, ok := accessed(s.ast, e); ok && !slices.Contains(bound, root) {
		s.note(e, root, read)
		f.node, f.pod = root == "node", root == "pod"
		s.facts[e.ID()] = f
		return nil
	}
	switch e.Kind() {
	case ast.LiteralKind:
		f.plain = true
	case ast.IdentKind:
		switch name := e.AsIdent(); {
		case slices.Contains(bound, name):
			open = []string{name}
		case name == "node" || name == "pod":
			s.wrong(e, fmt.Sprintf("%s stands by itself: name one of its fields, such as %s.labels", name, name))
		}
	case ast.StructKind:
		s.wrong(e, "messages can not be made here")
	case ast.CallKind:
		s.checkPattern(e.AsCall())
		open = s.lookInto(e, bound, &f)
	case ast.ComprehensionKind:
		open = s.lookComprehension(e, bound, &f)
	default:
		f.plain = e.Kind() == ast.ListKind || e.Kind() == ast.MapKind
		open = s.lookInto(e, bound, &f)
	}
	f.inner = len(open) > 0
	s.facts[e.ID()] = f
	return open
}

// lookInto looks at what an expression is made of.
func (s *survey) lookInto(e ast.Expr, bound []string, f *facts) (open []string) {
	for _, c := range children(e) {
		open = append(open, s.look(c, bound)...)
		f.take(s.facts[c.ID()])
	}
	return open
}

// checkPattern tells of a regular expression that is none, where it stands in the text.
func (s *survey) checkPattern(c ast.CallExpr) {
	at := 0
	switch c.FunctionName() {
	case "find", "findAll":
	case overloads.Matches:
		if !c.IsMemberFunction() {
			at = 1
		}
	default:
		return
	}
	if at >= len(c.Args()) || c.Args()[at].Kind() != ast.LiteralKind {
		return
	}
	if text, isText := c.Args()[at].AsLiteral().(types.String); isText {
		if err := patternOf(string(text)).err; err != nil {
			s.wrong(c.Args()[at], err.Error())
		}
	}
}

func (f *facts) take(o facts) {
	f.node, f.pod, f.plain = f.node || o.node, f.pod || o.pod, f.plain && o.plain
}

func (s *survey) lookComprehension(e ast.Expr, bound []string, f *facts) (open []string) {
	c := e.AsComprehension()
	loop := []string{c.IterVar(), c.AccuVar()}
	if c.HasIterVar2() {
		loop = append(loop, c.IterVar2())
	}
	for _, name := range loop {
		if name == "node" || name == "pod" {
			s.wrong(e, fmt.Sprintf("a macro's variable may not be named %s", name))
		}
	}
	inner := append(slices.Clone(bound), loop...)
	for _, part := range []struct {
		e     ast.Expr
		bound []string
	}{{c.IterRange(), bound}, {c.AccuInit(), bound}, {c.LoopCondition(), inner}, {c.LoopStep(), inner}, {c.Result(), inner}} {
		open = append(open, s.look(part.e, part.bound)...)
		f.take(s.facts[part.e.ID()])
	}
	return slices.DeleteFunc(open, func(name string) bool { return slices.Contains(loop, name) && !slices.Contains(bound, name) })
}

// note keeps what is read.
func (s *survey) note(e ast.Expr, root string, read Read) {
	if root == "pod" {
		s.pod = append(s.pod, read)
		return
	}
	if read.Field == "annotations" && !read.Keyed {
		s.wrong(e, "node.annotations: name the annotation by a constant, for rows carry no others")
	}
	s.node = append(s.node, read)
}

// accessed takes apart what reads a field of node or pod: node.labels['a'], 'a' in node.labels,
// node.labels.a, node.labels[?'a'], node.name.
func accessed(a *ast.AST, e ast.Expr) (root string, read Read, ok bool) {
	if root, field, ok := fieldOf(e); ok {
		return root, Read{Field: field}, true
	}
	keyed := func(of ast.Expr, key string) (string, Read, bool) {
		root, field, ok := fieldOf(of)
		if !ok || of.AsSelect().IsTestOnly() || a.GetType(of.ID()).Kind() != types.MapKind {
			return "", Read{}, false
		}
		return root, Read{Field: field, Keyed: true, Key: key}, true
	}
	switch e.Kind() {
	case ast.SelectKind:
		return keyed(e.AsSelect().Operand(), e.AsSelect().FieldName())
	case ast.CallKind:
		c := e.AsCall()
		if len(c.Args()) != 2 {
			return "", Read{}, false
		}
		of, key := c.Args()[0], c.Args()[1]
		switch c.FunctionName() {
		case operators.Index, operators.OptIndex, operators.OptSelect:
		case operators.In:
			of, key = key, of
		default:
			return "", Read{}, false
		}
		if key.Kind() != ast.LiteralKind {
			return "", Read{}, false
		}
		if text, isText := key.AsLiteral().(types.String); isText {
			return keyed(of, string(text))
		}
	}
	return "", Read{}, false
}

// fieldOf takes apart node.f, pod.f and has(pod.f).
func fieldOf(e ast.Expr) (root, field string, ok bool) {
	if e.Kind() != ast.SelectKind || e.AsSelect().Operand().Kind() != ast.IdentKind {
		return "", "", false
	}
	root = e.AsSelect().Operand().AsIdent()
	return root, e.AsSelect().FieldName(), root == "node" || root == "pod"
}

// children are what an expression is made of, comprehensions aside.
func children(e ast.Expr) (list []ast.Expr) {
	switch e.Kind() {
	case ast.SelectKind:
		list = append(list, e.AsSelect().Operand())
	case ast.CallKind:
		if e.AsCall().IsMemberFunction() {
			list = append(list, e.AsCall().Target())
		}
		list = append(list, e.AsCall().Args()...)
	case ast.ListKind:
		list = append(list, e.AsList().Elements()...)
	case ast.MapKind:
		for _, x := range e.AsMap().Entries() {
			list = append(list, x.AsMapEntry().Key(), x.AsMapEntry().Value())
		}
	case ast.ComprehensionKind:
		c := e.AsComprehension()
		list = append(list, c.IterRange(), c.AccuInit(), c.LoopCondition(), c.LoopStep(), c.Result())
	}
	return list
}

// split makes parts of the largest expressions that look at no node.
func (t *Template) split(s *survey, e ast.Expr) error {
	f := s.facts[e.ID()]
	// A type is never an argument: an identifier that is one has to be a type's name.
	if f.node || f.inner || t.ast.GetType(e.ID()).Kind() == types.TypeKind {
		for _, c := range children(e) {
			if _, seen := s.facts[c.ID()]; !seen {
				continue // below what accessed takes whole
			}
			if err := t.split(s, c); err != nil {
				return err
			}
		}
		return nil
	}
	if _, known := t.partOf[e.ID()]; known || f.plain {
		return nil
	}
	if len(t.parts) == pb.MaxCelArguments {
		return t.wrong(e, fmt.Sprintf("more than %d parts look at the pod alone", pb.MaxCelArguments))
	}
	p := part{typ: t.ast.GetType(e.ID())}
	alone := ast.NewCheckedAST(ast.NewAST(e, t.ast.SourceInfo()), t.ast.TypeMap(), t.ast.ReferenceMap())
	program, err := plan(alone, PodCost)
	if err != nil {
		return t.wrong(e, err.Error())
	}
	if f.pod {
		p.program = program
	} else {
		p.constant = answer(program, &activation{})
		if types.IsError(p.constant) {
			return t.wrong(e, "fails whatever the pod and the node are: "+p.constant.(*types.Err).Error())
		}
	}
	t.partOf[e.ID()] = len(t.parts)
	t.parts = append(t.parts, p)
	return nil
}

// plan makes a checked expression ready. A constant that can not be made ready beforehand, such
// as a malformed regular expression, is left until it is come to.
func plan(a *ast.AST, limit uint64) (cel.Program, error) {
	options := []cel.ProgramOption{cel.CostTracking(costs{}), cel.CostLimit(limit), cel.CustomDecorator(the().guard(limit)),
		cel.EvalOptions(cel.OptTrackCost)}
	program, err := planned(a, append(options, cel.EvalOptions(cel.OptOptimize))...)
	if err != nil {
		program, err = planned(a, options...)
	}
	return program, err
}

// planned is cel-go's plan, which evaluates constants, and panics where that does.
func planned(a *ast.AST, options ...cel.ProgramOption) (program cel.Program, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%v", p)
		}
	}()
	return the().env.PlanProgram(a, options...)
}

// answer is what a part comes to, a failure included.
func answer(p cel.Program, a *activation) ref.Val {
	v, _, err := p.Eval(a)
	if err != nil {
		return failure(err.Error())
	}
	return v
}

func sorted(list []Read) []Read {
	slices.SortFunc(list, func(a, b Read) int {
		return cmp.Or(strings.Compare(a.Field, b.Field), strings.Compare(a.Key, b.Key), boolInt(a.Keyed)-boolInt(b.Keyed))
	})
	return slices.Compact(list)
}

func boolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}
