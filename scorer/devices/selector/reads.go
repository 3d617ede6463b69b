package selector

import (
	"slices"
	"strings"

	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
)

// reads finds the attributes that an expression looks up by constant names; false: it does something else with the
// device, too.
func reads(e ast.Expr) ([]string, bool) {
	r := reading{known: true}
	r.walk(e)
	slices.SortFunc(r.names, strings.Compare)
	return slices.Compact(r.names), r.known
}

type reading struct {
	names []string
	known bool
}

// walk looks for the device in an expression.
func (r *reading) walk(e ast.Expr) {
	if name, ok := lookedUp(e); ok {
		r.names = append(r.names, name)
		return
	}
	switch e.Kind() {
	case ast.IdentKind:
		r.known = r.known && e.AsIdent() != "device"
	case ast.SelectKind:
		s := e.AsSelect()
		if isDevice(s.Operand()) && s.FieldName() != "attributes" {
			return // the driver, capacities and sharing are read in any case
		}
		r.walk(s.Operand())
	case ast.CallKind:
		if c := e.AsCall(); c.IsMemberFunction() {
			r.walk(c.Target())
		}
		for _, arg := range e.AsCall().Args() {
			r.walk(arg)
		}
	case ast.ComprehensionKind:
		c := e.AsComprehension()
		for _, part := range []ast.Expr{c.IterRange(), c.AccuInit(), c.LoopCondition(), c.LoopStep(), c.Result()} {
			r.walk(part)
		}
	case ast.LiteralKind:
	default:
		r.composed(e)
	}
}

// composed walks lists and maps.
func (r *reading) composed(e ast.Expr) {
	switch e.Kind() {
	case ast.ListKind:
		for _, element := range e.AsList().Elements() {
			r.walk(element)
		}
	case ast.MapKind:
		for _, entry := range e.AsMap().Entries() {
			r.walk(entry.AsMapEntry().Key())
			r.walk(entry.AsMapEntry().Value())
		}
	default:
		r.known = false
	}
}

// lookedUp gives the qualified name of an attribute in device.attributes["domain"].id and the like.
func lookedUp(e ast.Expr) (string, bool) {
	inner, id, ok := member(e)
	if !ok {
		return "", false
	}
	attributes, domain, ok := member(inner)
	if !ok || attributes.Kind() != ast.SelectKind {
		return "", false
	}
	s := attributes.AsSelect()
	return domain + "/" + id, s.FieldName() == "attributes" && isDevice(s.Operand())
}

// member takes e.name and e["name"] apart.
func member(e ast.Expr) (operand ast.Expr, name string, ok bool) {
	switch e.Kind() {
	case ast.SelectKind:
		return e.AsSelect().Operand(), e.AsSelect().FieldName(), true
	case ast.CallKind:
		c := e.AsCall()
		if c.FunctionName() != operators.Index || len(c.Args()) != 2 || c.Args()[1].Kind() != ast.LiteralKind {
			return nil, "", false
		}
		text, ok := c.Args()[1].AsLiteral().(types.String)
		return c.Args()[0], string(text), ok
	}
	return nil, "", false
}

func isDevice(e ast.Expr) bool { return e.Kind() == ast.IdentKind && e.AsIdent() == "device" }
