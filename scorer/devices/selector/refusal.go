package selector

import (
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/parser"

	"github.com/shardsched/shardsched/scorer/devices"
)

// maxParts is how many parts a conjunction is taken apart into, and maxPartsText how long it may be: each part is compiled, which
// takes about a millisecond.
const maxParts, maxPartsText = 8, 512

// Refusal finds the first part of the expression that is false. An expression that can't be taken apart is one part.
func (s *selector) Refusal(c *devices.Content) devices.Refusal {
	s.splitting.Do(s.split)
	whole, _ := s.Reads()
	for _, part := range s.parts {
		switch j := part.Judge(c); {
		case j.Error != "":
			return devices.Refusal{Expression: s.text, Reads: whole}
		case !j.Match:
			reads, _ := part.Reads()
			return devices.Refusal{Expression: part.text, Reads: reads}
		}
	}
	return devices.Refusal{Expression: s.text, Reads: whole}
}

// split takes a conjunction apart.
func (s *selector) split() {
	if len(s.text) > maxPartsText {
		return
	}
	x := s.compiled()
	x.mu.RLock()
	program := x.program
	x.mu.RUnlock()
	if program == nil {
		return
	}
	parsed, issues := program.Environment.Compile(s.text)
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
		part := &selector{text: text, compiler: s.compiler}
		if part.compiled().failed != "" {
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
