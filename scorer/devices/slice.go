package devices

// Slice is a ResourceSlice: devices or counter sets of a pool, never both.
type Slice struct {
	Name, Driver, Pool string
	Generation         int64
	// Count says how many slices the pool has at its generation.
	Count       int64
	Reach       Reach
	Devices     []Device
	CounterSets []CounterSet
}

// Device is one device of a slice.
type Device struct {
	Name     string
	Content  *Content
	Taints   []Taint
	Consumes []Consumption
	// Reach counts where the slice's is ReachEach.
	Reach       Reach
	BindsToNode bool
	// Conditioned says that binding conditions are listed.
	Conditioned bool
}

// Reach says which nodes a slice or a device can be used from.
type Reach struct {
	Kind ReachKind
	// Index is the caller's number of the name (ReachName) or selector (ReachSelector).
	Index int32
	// Terms are the terms that a selector has.
	Terms int32
}

// ReachKind is one way to say which nodes.
type ReachKind uint8

const (
	// ReachNone is a way that is not known.
	ReachNone ReachKind = iota
	// ReachThisNode is this node by name.
	ReachThisNode
	// ReachName is the node of a name, this one or another; the caller tells.
	ReachName
	ReachAllNodes
	// ReachSelector is the nodes that a selector matches; the caller tells.
	ReachSelector
	// ReachEach leaves it to each device of the slice.
	ReachEach
)

// Taint keeps requests that do not tolerate it from a device.
type Taint struct{ Key, Value, Effect string }

// Counter is an amount by name: of a counter, or of a capacity.
type Counter struct {
	Name  string
	Value Amount
}

// CounterSet is what the devices of a pool share.
type CounterSet struct {
	Name     string
	Counters []Counter
}

// Consumption is what a device takes from a counter set while it is allocated.
type Consumption struct {
	Set      string
	Counters []Counter
}

// Content is what selectors, constraints and capacities read of a device. The caller makes equal contents one pointer,
// so that each is judged once.
type Content struct {
	Driver string
	// Multiple says that a device allows multiple allocations.
	Multiple bool
	// Attributes and Capacities are in the order of their names, which are qualified or belong to the driver's domain.
	Attributes []Attribute
	Capacities []Capacity
}

// Attribute is a value by name.
type Attribute struct {
	Name  string
	Value Value
}

// Value is an attribute's value; equal values are == each other.
type Value struct {
	Kind ValueKind
	// Int is that of an int, and 1 for true.
	Int int64
	// Text is that of a string or a version.
	Text string
}

// ValueKind is the type of a value.
type ValueKind uint8

const (
	// ValueUnknown is a type that is not supported, such as a list.
	ValueUnknown ValueKind = iota
	ValueInt
	ValueBool
	ValueString
	ValueVersion
)

// Capacity is an amount that a device has, and in which portions it is given.
type Capacity struct {
	Name  string
	Value Amount
	// Policy is nil where any amount may be asked for.
	Policy *Policy
}

// Policy says in which portions a capacity is given.
type Policy struct {
	// Default is what a share takes that asks for nothing.
	Default *Amount
	Range   *Range
	// Values are the portions, ascending, where there is no range.
	Values []Amount
}

// Range is portions between two amounts; nil is no bound, or no step.
type Range struct{ Min, Max, Step *Amount }
