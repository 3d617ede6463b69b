package devices

// Claim is an unallocated claim.
type Claim struct {
	Requests    []Request
	Constraints []Constraint
}

// Request is what a claim asks for.
type Request struct {
	Name string
	// Prioritized requests list alternatives, the best first; an ordinary one has exactly one.
	Prioritized bool
	// Admin requests may have devices that are in use.
	Admin        bool
	Alternatives []Alternative
}

// Alternative is one way to meet a request.
type Alternative struct {
	// Name is that of the alternative (a subrequest); an ordinary request's is not read.
	Name string
	// Class is the device class; NoClass says that there is none of this name.
	Class   string
	NoClass bool
	// ClassSelectors and Selectors must all match a device, in this order. A nil one of Selectors is of a type that is not
	// known.
	ClassSelectors, Selectors []Selector
	// Mode is ExactCount or AllDevices; others are refused.
	Mode        string
	Count       int64
	Tolerations []Toleration
	// AsksCapacity says that Capacities were given, even if none is listed.
	AsksCapacity bool
	Capacities   []Counter
}

// The modes of an alternative.
const (
	ExactCount = "ExactCount"
	AllDevices = "All"
)

// Toleration lets a request have devices with a taint.
type Toleration struct{ Key, Operator, Value, Effect string }

// Constraint is what devices of a claim must have in common (Match), or not (Distinct): the qualified name of an
// attribute. One with neither is refused.
type Constraint struct {
	// Requests are names of requests, or request/alternative; none: all.
	Requests        []string
	Match, Distinct string
}

// Selector is an expression over a device. What needs it compiled compiles it where that is not done yet.
type Selector interface {
	// Ready tells whether the expression is compiled. If not, that is done now where it has no more than most bytes, and is told
	// by their number; else it begins beside.
	Ready(most int) (ready bool, bytes int)
	// Judge tells what the expression says of a device. It never changes for a content.
	Judge(*Content) Judgement
	// Reads names the attributes that Judge depends on, by qualified name, beside what Content.Only keeps anyway; false:
	// it may depend on any.
	Reads() (attributes []string, known bool)
	// String is the expression.
	String() string
	// Refusal is the part of the expression that is false for a content that it does not match: of a conjunction, the first.
	Refusal(*Content) Refusal
}

// Refusal is an expression that is false, as text, with the attributes that it reads, by qualified name.
type Refusal struct {
	Expression string
	Reads      []string
}

// Compiler makes selectors of expressions. An expression that does not compile is a selector, too: all its judgements
// have the error.
type Compiler interface {
	Compile(expression string) Selector
}

// Judgement is what a selector says of a content.
type Judgement struct {
	Match bool
	// Steps is the work of the evaluation, in steps of a search.
	Steps int64
	// Error is empty, or why there is no verdict: "CEL compile error: …", "CEL runtime error: …".
	Error string
}

// Features are the feature gates that a search looks at.
type Features struct {
	PrioritizedList, PartitionableDevices, DeviceTaints, BindingConditions, ConsumableCapacity bool
}

// DefaultFeatures are those of Kubernetes 1.36.
func DefaultFeatures() Features {
	return Features{PrioritizedList: true, PartitionableDevices: true, DeviceTaints: true, BindingConditions: true, ConsumableCapacity: true}
}
