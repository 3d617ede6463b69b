package expression

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"

	"github.com/cespare/xxhash/v2"
	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/overloads"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"github.com/google/cel-go/ext"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// What an evaluation may cost, in the units of Kubernetes' CEL: about one for each step, one
// for ten characters that are walked. A unit is about 100 ns.
const (
	// NodeCost bounds one expression on one node.
	NodeCost = 10_000
	// ClassCost bounds all expressions of a plugin on one node together.
	ClassCost = 20_000
	// PodCost bounds each part that looks at the pod alone.
	PodCost = 100_000
)

const (
	// version counts changes of the language that the names of its functions do not tell.
	version = 3
	// maxDepth is how deep an expression may nest.
	maxDepth = 60
	// maxCopying bounds the macros that write their operand twice.
	maxCopying = 8
)

// language is the environment that expressions are compiled in.
type language struct {
	env   *cel.Env
	kinds map[string]*structure
	types *provider
	// fingerprint names the language.
	fingerprint string
}

// the is the language: immutable, made at first use, for it takes milliseconds.
var the = sync.OnceValue(newLanguage)

// Fingerprint names the language: its version, functions, types and variables.
func Fingerprint() string { return the().fingerprint }

func newLanguage() *language {
	l := &language{kinds: structures()}
	registry, err := types.NewRegistry()
	if err != nil {
		panic(err) // it is given no types
	}
	l.types = &provider{registry, l.kinds}
	options := []cel.EnvOption{
		cel.CustomTypeAdapter(l.types), cel.CustomTypeProvider(l.types),
		cel.Variable("node", l.kinds["shardsched.Node"].typ), cel.Variable("pod", l.kinds["shardsched.Pod"].typ),
		cel.HomogeneousAggregateLiterals(), cel.EagerlyValidateDeclarations(true), cel.DefaultUTCTimeZone(true),
		cel.CrossTypeNumericComparisons(true), cel.OptionalTypes(),
		cel.ParserExpressionSizeLimit(pb.MaxCelText), cel.ParserRecursionLimit(maxDepth),
		ext.Strings(ext.StringsVersion(2)), ext.Sets(), ext.Math(ext.MathVersion(2)), ext.Bindings(ext.BindingsVersion(0)),
	}
	options = append(options, quantityLibrary()...)
	options = append(options, listLibrary()...)
	if l.env, err = cel.NewEnv(options...); err != nil {
		panic(err) // the options are ours
	}
	l.fingerprint = l.describe()
	return l
}

// describe makes the fingerprint.
func (l *language) describe() string {
	var all []string
	for name, f := range l.env.Functions() {
		for _, o := range f.OverloadDecls() {
			all = append(all, fmt.Sprint(name, o.ID(), o.ResultType()))
		}
	}
	for name, k := range l.kinds {
		for i, f := range k.fields {
			all = append(all, fmt.Sprint(name, i, f.name, f.typ))
		}
	}
	for _, m := range l.env.Macros() {
		all = append(all, m.MacroKey())
	}
	slices.Sort(all)
	return fmt.Sprintf("cel/%d/%016x", version, xxhash.Sum64String(strings.Join(all, "\n")))
}

// costs is what functions cost that CEL itself has no figure for: what they walk and what they
// make.
type costs struct{}

// CallCost implements interpreter.ActualCostEstimator.
func (costs) CallCost(function, _ string, args []ref.Val, result ref.Val) *uint64 {
	sum := uint64(1)
	switch function {
	case operators.Add:
		// A list that a macro adds to is the result itself.
		if _, isList := result.(traits.Lister); !isList || len(args) < 2 || args[0] == result {
			return nil
		}
		sum = weight(result, PodCost)
	case "split", "join", "replace", "lowerAscii", "upperAscii", "trim", "substring", "charAt", "format", "strings.quote",
		"quantity", "isQuantity", "sum", "min", "max", "isSorted", "indexOf", "lastIndexOf":
		for _, a := range args {
			sum += walked(a)
		}
		sum += walked(result)
	case "find", "findAll", overloads.Matches:
		sum = patternCost(args)
	case "sets.contains", "sets.equivalent", "sets.intersects":
		if len(args) == 2 {
			sum += size(args[0]) * size(args[1])
		}
	default:
		return nil
	}
	return &sum
}

// walked is the cost of walking a value: texts are ten characters a unit.
func walked(v ref.Val) uint64 {
	if _, isList := v.(traits.Lister); isList {
		return size(v)
	}
	return uint64(math.Ceil(float64(size(v)) / 10))
}

func size(v ref.Val) uint64 {
	if s, ok := v.(traits.Sizer); ok {
		if n, ok := s.Size().(types.Int); ok {
			return uint64(n)
		}
	}
	return 1
}
