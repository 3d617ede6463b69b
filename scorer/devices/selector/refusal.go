package selector

import (
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/parser"

	"github.com/shardsched/shardsched/scorer/devices"
)

// maxParts is how many parts a conjunction is taken apart into: each is compiled, which takes about a millisecond.
const maxParts = 8

// Refusal finds the first part of the expression that is false. An expression that can't be taken apart is one part.
func (s *selector) Refusal(c *devices.Content) devices.Refusal {
	s.splitting.Do(s.split)
	for _, part := range s.parts {
		switch j := part.Judge(c); {
		case j.Error != "":
			return devices.Refusal{Expression: s.text, Reads: s.reads}
		case !j.Match:
			return devices.Refusal{Expression: part.text, Reads: part.reads}
		}
	}
	return devices.Refusal{Expression: s.text, Reads: s.reads}
}

// split takes a conjunction apart.
func (s *selector) split() {
	if s.failed != "" {
		return
	}
	parsed, issues := s.program.Environment.Compile(s.text)
	if issues != nil {
		return
	}
	list := conjuncts(parsed.NativeRep().Expr(), nil)
	if len(list) < 2 || len(list) > maxParts {
		return
	}
	var parts []*selector
	for _, e := range list {
		text, err := parser.Unparse(e, parsed.NativeRep().SourceInfo())
		if err != nil {
			return
		}
		part := compile(text)
		if part.failed != "" {
			return
		}
		parts = append(parts, part)
	}
	s.parts = parts
}

// conjuncts are the operands of && from left to right.
func conjuncts(e ast.Expr, list []ast.Expr) []ast.Expr {
	if e.Kind() == ast.CallKind && e.AsCall().FunctionName() == operators.LogicalAnd {
		for _, arg := range e.AsCall().Args() {
			list = conjuncts(arg, list)
		}
		return list
	}
	return append(list, e)
}
