package selector

import (
	"context"
	"fmt"
	"sync"

	"github.com/blang/semver/v4"
	resourceapi "k8s.io/api/resource/v1"
	dra "k8s.io/dynamic-resource-allocation/cel"

	"github.com/shardsched/shardsched/internal/lru"
	"github.com/shardsched/shardsched/scorer/devices"
)

// MaxExpressions is how many compiled expressions are kept, and MaxExpressionBytes how long they are together: device
// classes are few, and claims come from templates. Upstream keeps 10.
const (
	MaxExpressions     = 1024
	MaxExpressionBytes = 4 << 20
)

// MaxJudgements is how many judgements of an expression are kept; beyond, all are dropped and made anew.
const MaxJudgements = 1 << 14

// Compiler compiles expressions, and keeps those last used. Goroutines may share it.
type Compiler struct {
	mu   sync.Mutex
	kept *lru.Cache[string, *selector]
}

// NewCompiler makes a compiler.
func NewCompiler() *Compiler {
	return &Compiler{kept: lru.New[string, *selector](MaxExpressions, MaxExpressionBytes, nil)}
}

// features are those of expressions that are stored in classes and claims: with every gate that an API server may have
// had when it took them, the list-type attributes of an alpha gate left out.
var features = dra.Features{EnableConsumableCapacity: true}

// Compile makes a selector of an expression.
func (c *Compiler) Compile(expression string) devices.Selector {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s, ok := c.kept.Get(expression); ok {
		return s
	}
	s := compile(expression)
	c.kept.Add(expression, s, int64(len(expression)))
	return s
}

// selector is a compiled expression and its judgements.
type selector struct {
	text    string
	program dra.CompilationResult
	failed  string
	reads   []string
	known   bool
	// parts are those of a conjunction, once Refusal was asked; none: it is no conjunction.
	splitting sync.Once
	parts     []*selector

	mu sync.RWMutex
	// byContent and byValues keep the same judgements; the latter under what the expression reads.
	byContent map[*devices.Content]devices.Judgement
	byValues  map[string]devices.Judgement
}

func compile(expression string) *selector {
	s := &selector{text: expression, byContent: map[*devices.Content]devices.Judgement{}, byValues: map[string]devices.Judgement{}}
	s.program = dra.GetCompiler(features).CompileCELExpression(expression, dra.Options{DisableCostEstimation: true})
	if s.program.Error != nil {
		s.failed, s.known = "CEL compile error: "+s.program.Error.Error(), true
		return s
	}
	if parsed, issues := s.program.Environment.Compile(expression); issues == nil {
		s.reads, s.known = reads(parsed.NativeRep().Expr())
	}
	return s
}

// Reads names the attributes that the expression looks at.
func (s *selector) Reads() ([]string, bool) { return s.reads, s.known }

// String is the expression.
func (s *selector) String() string { return s.text }

// Judge tells what the expression says of a content.
func (s *selector) Judge(c *devices.Content) devices.Judgement {
	if s.failed != "" {
		return devices.Judgement{Error: s.failed}
	}
	s.mu.RLock()
	j, ok := s.byContent[c]
	s.mu.RUnlock()
	if ok {
		return j
	}
	key := ""
	if s.known {
		only := c.Only(s.reads)
		key = only.Key()
		s.mu.RLock()
		j, ok = s.byValues[key]
		s.mu.RUnlock()
	}
	if !ok {
		j = s.evaluate(c)
	}
	s.keep(c, key, j)
	return j
}

func (s *selector) keep(c *devices.Content, key string, j devices.Judgement) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.byContent) >= MaxJudgements {
		clear(s.byContent)
	}
	s.byContent[c] = j
	if !s.known {
		return
	}
	if len(s.byValues) >= MaxJudgements {
		clear(s.byValues)
	}
	s.byValues[key] = j
}

// evaluate has the library evaluate the expression.
//
// Differs from upstream: of several attributes that can't be read, the first by name is told, where upstream tells any.
func (s *selector) evaluate(c *devices.Content) devices.Judgement {
	if fault := unreadable(c); fault != "" {
		return devices.Judgement{Error: "CEL runtime error: " + fault}
	}
	match, details, err := s.program.DeviceMatches(context.Background(), deviceOf(c))
	var j devices.Judgement
	if cost := details.ActualCost(); cost != nil {
		j.Cost = *cost
	}
	if err != nil {
		j.Error = "CEL runtime error: " + err.Error()
		return j
	}
	j.Match = match
	return j
}

// unreadable is why some attribute can't be read, if so.
func unreadable(c *devices.Content) string {
	for _, a := range c.Attributes {
		switch a.Value.Kind {
		case devices.ValueUnknown:
			return "attribute " + a.Name + ": unsupported attribute value"
		case devices.ValueVersion:
			if _, err := semver.Parse(a.Value.Text); err != nil {
				return fmt.Sprintf("attribute %s: parse semantic version: %s", a.Name, err)
			}
		}
	}
	return ""
}

// deviceOf is a content as the library takes it.
func deviceOf(c *devices.Content) dra.Device {
	d := dra.Device{
		Driver: c.Driver, AllowMultipleAllocations: &c.Multiple,
		Attributes: make(map[resourceapi.QualifiedName]resourceapi.DeviceAttribute, len(c.Attributes)),
		Capacity:   make(map[resourceapi.QualifiedName]resourceapi.DeviceCapacity, len(c.Capacities)),
	}
	for i := range c.Attributes {
		a := &c.Attributes[i]
		out := resourceapi.DeviceAttribute{}
		switch a.Value.Kind {
		case devices.ValueInt:
			out.IntValue = &a.Value.Int
		case devices.ValueBool:
			yes := a.Value.Int != 0
			out.BoolValue = &yes
		case devices.ValueString:
			out.StringValue = &a.Value.Text
		case devices.ValueVersion:
			out.VersionValue = &a.Value.Text
		}
		d.Attributes[resourceapi.QualifiedName(a.Name)] = out
	}
	for _, x := range c.Capacities {
		d.Capacity[resourceapi.QualifiedName(x.Name)] = resourceapi.DeviceCapacity{Value: Quantity(x.Value)}
	}
	return d
}
