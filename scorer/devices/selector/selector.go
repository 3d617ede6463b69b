package selector

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/blang/semver/v4"
	resourceapi "k8s.io/api/resource/v1"
	dra "k8s.io/dynamic-resource-allocation/cel"

	"github.com/shardsched/shardsched/internal/lru"
	"github.com/shardsched/shardsched/scorer/devices"
)

// MaxExpressions is how many compiled expressions are kept, and maxCompiledBytes how much they take together: device classes are
// few, and claims come from templates. Upstream keeps 10. The expressions of one pod fit.
const (
	MaxExpressions   = 1024
	maxCompiledBytes = 64 << 20
	// compiledBytes is what a compiled expression takes, and textBytes what it takes more for each byte of text.
	compiledBytes = 50 << 10
	textBytes     = 40
)

// MaxJudgements is how many judgements are kept, of all expressions. Beyond, all expressions are compiled anew.
const MaxJudgements = 1 << 17

// costSteps is how long one unit of CEL's cost takes, in steps of a search.
const costSteps = 3

// costLimit ends evaluations that would use up a search's budget, where the search ends.
var costLimit uint64 = devices.DefaultBudget / costSteps

// Compiler makes selectors, and keeps the compiled expressions that were last used. Goroutines may share it.
type Compiler struct {
	judgements atomic.Int64

	mu   sync.Mutex
	kept *lru.Cache[string, *compiled]
	// wanted are expressions that are to be compiled beside, the last one first.
	wanted    []string
	compiling bool
}

// NewCompiler makes a compiler.
func NewCompiler() *Compiler {
	c := &Compiler{}
	c.kept = lru.New(MaxExpressions, maxCompiledBytes, func(_ string, x *compiled) { c.judgements.Add(-x.drop()) })
	return c
}

// features are those of expressions that are stored in classes and claims: with every gate that an API server may have
// had when it took them, the list-type attributes of an alpha gate left out.
var features = dra.Features{EnableConsumableCapacity: true}

// Compile makes a selector of an expression, which is compiled when it is used.
func (c *Compiler) Compile(expression string) devices.Selector {
	return &selector{text: expression, compiler: c}
}

// compiled is an expression that was compiled.
func (c *Compiler) compiled(expression string) *compiled {
	if x, ok := c.peek(expression); ok {
		return x
	}
	x := compile(expression)
	c.mu.Lock()
	defer c.mu.Unlock()
	if faster, ok := c.kept.Get(expression); ok {
		return faster
	}
	c.kept.Add(expression, x, compiledBytes+textBytes*int64(len(expression)))
	return x
}

func (c *Compiler) peek(expression string) (x *compiled, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.kept.Get(expression)
}

// compileBeside has an expression compiled beside. What was asked for last comes first: who goes on asking gets it, however many
// others there are.
func (c *Compiler) compileBeside(expression string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wanted = append(slices.DeleteFunc(c.wanted, func(x string) bool { return x == expression }), expression)
	if len(c.wanted) > MaxExpressions {
		c.wanted = slices.Delete(c.wanted, 0, 1)
	}
	if c.compiling {
		return
	}
	c.compiling = true
	go func() {
		for next, ok := c.next(); ok; next, ok = c.next() {
			c.compiled(next)
		}
	}()
}

// next is the expression that is compiled beside next.
func (c *Compiler) next() (expression string, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	last := len(c.wanted) - 1
	if last < 0 {
		c.compiling = false
		return "", false
	}
	expression, c.wanted = c.wanted[last], c.wanted[:last]
	return expression, true
}

// remember counts a judgement that is kept.
func (c *Compiler) remember() {
	if c.judgements.Add(1) > MaxJudgements {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.kept.Age(0, MaxExpressions)
	}
}

// selector is an expression. Its compiler compiles it, and may forget that.
type selector struct {
	text     string
	compiler *Compiler
	last     atomic.Pointer[compiled]
	// parts are those of a conjunction, once Refusal was asked; none: it is no conjunction.
	splitting sync.Once
	parts     []*selector
}

// Ready tells whether the expression is compiled. If not, that is done now where it has no more than most bytes, and is told by
// their number; else it begins beside.
func (s *selector) Ready(most int) (ready bool, bytes int) {
	x, ok := s.compiler.peek(s.text)
	switch {
	case ok:
	case len(s.text) <= most:
		x, bytes = s.compiler.compiled(s.text), len(s.text)
	default:
		s.compiler.compileBeside(s.text)
		return false, 0
	}
	s.last.Store(x)
	return true, bytes
}

func (s *selector) compiled() *compiled {
	if x := s.last.Load(); x != nil && !x.dropped.Load() {
		return x
	}
	x := s.compiler.compiled(s.text)
	s.last.Store(x)
	return x
}

// Reads names the attributes that the expression looks at.
func (s *selector) Reads() ([]string, bool) {
	x := s.compiled()
	return x.reads, x.known
}

// String is the expression.
func (s *selector) String() string { return s.text }

// Judge tells what the expression says of a content.
func (s *selector) Judge(c *devices.Content) devices.Judgement {
	for {
		if j, ok := s.compiled().judge(c, s.compiler); ok {
			return j
		}
	}
}

// compiled is an expression that was compiled, and its judgements.
type compiled struct {
	failed string
	reads  []string
	known  bool

	dropped atomic.Bool
	mu      sync.RWMutex
	program *dra.CompilationResult
	// byContent and byValues keep the same judgements; the latter under what the expression reads.
	byContent map[*devices.Content]devices.Judgement
	byValues  map[string]devices.Judgement
}

// compile compiles an expression. A panic of the library is an error, too: nobody catches it where this is done beside.
func compile(expression string) (x *compiled) {
	x = &compiled{byContent: map[*devices.Content]devices.Judgement{}, byValues: map[string]devices.Judgement{}}
	defer func() {
		if v := recover(); v != nil {
			x.failed, x.known = fmt.Sprintf("CEL compile error: internal error: %v", v), true
		}
	}()
	program := dra.GetCompiler(features).CompileCELExpression(expression, dra.Options{DisableCostEstimation: true, CostLimit: &costLimit})
	if program.Error != nil {
		x.failed, x.known = "CEL compile error: "+program.Error.Error(), true
		return x
	}
	if parsed, issues := program.Environment.Parse(expression); issues == nil {
		x.reads, x.known = reads(parsed.NativeRep().Expr())
	}
	x.program = &program
	return x
}

// drop frees what the expression takes, and tells how many judgements that were.
func (x *compiled) drop() (judgements int64) {
	x.dropped.Store(true)
	x.mu.Lock()
	defer x.mu.Unlock()
	judgements = int64(len(x.byContent) + len(x.byValues))
	clear(x.byContent)
	clear(x.byValues)
	x.program = nil
	return judgements
}

// judge tells what the expression says of a content; false: it was dropped meanwhile.
func (x *compiled) judge(c *devices.Content, by *Compiler) (j devices.Judgement, ok bool) {
	if x.failed != "" {
		return devices.Judgement{Error: x.failed}, true
	}
	x.mu.RLock()
	j, ok = x.byContent[c]
	program := x.program
	x.mu.RUnlock()
	if ok || program == nil {
		return j, ok
	}
	if !x.known {
		j = evaluate(program, c)
		keep(x, by, x.byContent, c, j)
		return j, true
	}
	only := c.Only(x.reads)
	key := only.Key()
	x.mu.RLock()
	j, ok = x.byValues[key]
	x.mu.RUnlock()
	if !ok {
		j = evaluate(program, c)
		keep(x, by, x.byValues, key, j)
	}
	keep(x, by, x.byContent, c, j)
	return j, true
}

// keep remembers a judgement, unless the expression was dropped.
func keep[K comparable](x *compiled, by *Compiler, in map[K]devices.Judgement, key K, j devices.Judgement) {
	x.mu.Lock()
	before := len(in)
	if x.program != nil {
		in[key] = j
	}
	more := len(in) > before
	x.mu.Unlock()
	if more {
		by.remember()
	}
}

// evaluate has the library evaluate an expression.
//
// Differs from upstream: of several attributes that can't be read, the first by name is told, where upstream tells any. An
// evaluation that costs more than costLimit uses up its search's budget; upstream's limit is 1,000,000.
func evaluate(program *dra.CompilationResult, c *devices.Content) devices.Judgement {
	if fault := unreadable(c); fault != "" {
		return devices.Judgement{Error: "CEL runtime error: " + fault}
	}
	match, details, err := program.DeviceMatches(context.Background(), deviceOf(c))
	var j devices.Judgement
	if cost := details.ActualCost(); cost != nil {
		j.Steps = costSteps * int64(*cost)
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
