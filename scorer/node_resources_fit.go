package scorer

import (
	"fmt"
	"strconv"
	"strings"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// nodeResourcesFit is the plugin NodeResourcesFit: a node must have room for the pod, and
// is scored by how full it gets.
type nodeResourcesFit struct {
	// requests are what the pod requests, without zeros, in the order of their reasons.
	requests []resourceRequest
	why      []Reason

	strategy pb.ScoringType
	scored   []scoredResource
	// usual are memory for requests and scored.
	usual struct {
		requests [2]resourceRequest
		scored   [2]scoredResource
	}
	// points is the score at each utilization from 0 to 100, for
	// RequestedToCapacityRatio.
	points []int64
}

// resourceRequest is what the pod requests of one resource.
type resourceRequest struct {
	resourceRef
	amount int64
	// mapped tells that a class of devices may serve the resource: DynamicResources does so where the node has none to
	// allocate.
	mapped bool
}

// short tells whether a node has less left than the pod asks for.
func (n *resourceRequest) short(allocatable, requested int64) bool {
	return lacks(n.amount, allocatable, requested) && (!n.mapped || allocatable > 0)
}

func (r *nodeResourcesFit) make(q *pb.Query) *nodeResourcesFit {
	f := q.GetFit()
	*r = nodeResourcesFit{strategy: f.GetScoringType()}
	r.scored, r.requests = appendScored(r.usual.scored[:0], f.GetScored()), r.usual.requests[:0]
	if !f.GetBestEffort() {
		names := fixedNames()
		r.addRequest(resourceRef{names[cpu], cpu}, f.GetRequests().GetMilliCpu())
		r.addRequest(resourceRef{names[memory], memory}, f.GetRequests().GetMemoryBytes())
		r.addRequest(resourceRef{names[ephemeralStorage], ephemeralStorage}, f.GetRequests().GetEphemeralStorageBytes())
		for _, s := range f.GetRequests().GetScalars() {
			r.addRequest(newResourceRef(s.GetName()), s.GetQuantity())
		}
	}
	// Differs from upstream: where the profile has no DynamicResources, the query has no such map, and the pod is refused.
	for _, m := range q.GetResourceClaims().GetExtended().GetResources() {
		for i := range r.requests {
			r.requests[i].mapped = r.requests[i].mapped || m.GetClass() != "" && r.requests[i].name == m.GetName()
		}
	}
	r.why = usualShortages
	if len(r.requests) != 2 || r.requests[0].fixed != cpu || r.requests[1].fixed != memory {
		r.why = shortages(r.requests)
	}
	if f.GetScoringType() == pb.ScoringType_SCORING_TYPE_REQUESTED_TO_CAPACITY_RATIO {
		r.points = brokenLine(f.GetShape())
	}
	return r
}

func (r *nodeResourcesFit) addRequest(ref resourceRef, amount int64) {
	if amount > 0 {
		r.requests = append(r.requests, resourceRequest{resourceRef: ref, amount: amount})
	}
}

// left is what rows that pass have left of cpu and memory, at least.
func (r *nodeResourcesFit) left() (amounts [2]int64) {
	for i := range r.requests {
		if n := &r.requests[i]; !n.mapped && (n.fixed == cpu || n.fixed == memory) {
			amounts[n.fixed] = n.amount
		}
	}
	return amounts
}

// shortage is the reason of a node that lacks the resource.
func (n *resourceRequest) shortage() string {
	switch n.fixed {
	case cpu:
		return "Insufficient cpu"
	case memory:
		return "Insufficient memory"
	}
	return "Insufficient " + n.name
}

// shortages are the reasons of pods with such requests, each twice: for nodes on which preemption may help, and for
// those on which it cannot.
func shortages(requests []resourceRequest) []Reason {
	plugin := PluginName(pb.Plugin_PLUGIN_NODE_RESOURCES_FIT)
	out := make([]Reason, 0, 2*(1+len(requests)))
	out = append(out, Reason{plugin, "Too many pods", false}, Reason{plugin, "Too many pods", true})
	for i := range requests {
		text := requests[i].shortage()
		out = append(out, Reason{plugin, text, false}, Reason{plugin, text, true})
	}
	return out
}

// usualShortages are those of pods that request cpu and memory alone, as most do. Nothing writes to them.
var usualShortages = shortages([]resourceRequest{{resourceRef: resourceRef{fixed: cpu}}, {resourceRef: resourceRef{fixed: memory}}})

func (r *nodeResourcesFit) plugin() pb.Plugin { return pb.Plugin_PLUGIN_NODE_RESOURCES_FIT }
func (r *nodeResourcesFit) reasons() []Reason { return r.why }

// lacks tells whether a node has less left of a resource than the pod asks for.
func lacks(amount, allocatable, requested int64) bool { return amount > allocatable-requested }

// full tells whether a node has no room for one more pod.
func full(pods, allowed int64) bool { return pods+1 > allowed }

func (r *nodeResourcesFit) narrow(_ *Evaluator, t *Table, rows bitmap) {
	rows.without(t.derived.full)
	for i := range r.requests {
		r.requests[i].narrow(t, rows)
	}
}

func (n *resourceRequest) narrow(t *Table, rows bitmap) {
	x := t.resource(n.resourceRef)
	switch {
	case n.mapped:
		n.narrowMapped(x, rows)
	case x == nil:
		clear(rows)
	case n.fixed == cpu || n.fixed == memory:
		n.narrowDense(x, rows, t.derived.free[n.fixed].amount)
	case x.allocatable.dense != nil && x.requested.dense != nil:
		n.narrowDense(x, rows, nil)
	default:
		x.allocatable.intersect(rows) // the others have none
		allocatable, requested := cursor{amounts: &x.allocatable}, cursor{amounts: &x.requested}
		for row := range rows.all {
			if lacks(n.amount, allocatable.at(row), requested.at(row)) {
				rows.remove(row)
			}
		}
	}
}

// narrowMapped is narrow for a resource that devices may serve. x may be nil: no row has any.
func (n *resourceRequest) narrowMapped(x *resource, rows bitmap) {
	if x == nil {
		return
	}
	allocatable, requested := cursor{amounts: &x.allocatable}, cursor{amounts: &x.requested}
	for row := range rows.all {
		if n.short(allocatable.at(row), requested.at(row)) {
			rows.remove(row)
		}
	}
}

// narrowDense is narrow for columns with a slot a row. free is the least that the rows of each word have
// left; nil: nobody knows.
func (n *resourceRequest) narrowDense(x *resource, rows bitmap, free []int64) {
	amount := n.amount
	for w, word := range rows {
		if word == 0 || free != nil && amount <= free[w] {
			continue
		}
		allocatable := x.allocatable.dense[w*wordRows : (w+1)*wordRows]
		requested := x.requested.dense[w*wordRows : (w+1)*wordRows]
		var refused uint64
		for i, a := range allocatable {
			refused |= asBit(lacks(amount, a, requested[i%wordRows])) << (i % wordRows)
		}
		rows[w] = word &^ refused
	}
}

func asBit(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}

func (r *nodeResourcesFit) passes(v view) bool {
	if full(v.pods(), v.t.allowedPods[v.row]) {
		return false
	}
	for i := range r.requests {
		allocatable, requested := v.amounts(r.requests[i].resourceRef)
		if r.requests[i].short(allocatable, requested) {
			return false
		}
	}
	return true
}

// refusals gives one reason for each resource that is short. All are unresolvable where
// one of them is more than the whole node has.
func (r *nodeResourcesFit) refusals(v view, into []int) []int {
	from := len(into)
	if full(v.pods(), v.t.allowedPods[v.row]) {
		into = append(into, 0)
	}
	unresolvable := 0
	for i := range r.requests {
		allocatable, requested := v.amounts(r.requests[i].resourceRef)
		if !r.requests[i].short(allocatable, requested) {
			continue
		}
		into = append(into, 2*(i+1))
		if r.requests[i].amount > allocatable {
			unresolvable = 1
		}
	}
	for i := range into[from:] {
		into[from+i] += unresolvable
	}
	return into
}

// Shortfall is how much a row lacks of one resource.
type Shortfall struct {
	// Text is such as "cpu: short by 500m", or "cpu: short by 2, too small even when empty (4 > 2)".
	Text string
	// Share is what is missing, as a share of what the pod asks for: above 0, and above 1
	// where the row is overcommitted.
	Share float64
}

// String is the shortfall for people.
func (s Shortfall) String() string { return s.Text }

// shortfalls tells how much is missing of each resource that is short.
func (r *nodeResourcesFit) shortfalls(v view) []Shortfall {
	var out []Shortfall
	if allowed := v.t.allowedPods[v.row]; full(v.pods(), allowed) {
		missing := v.pods() + 1 - allowed
		out = append(out, Shortfall{fmt.Sprintf("pods: short by %d", missing), float64(missing)})
	}
	for i := range r.requests {
		n := &r.requests[i]
		if allocatable, requested := v.amounts(n.resourceRef); n.short(allocatable, requested) {
			missing := n.amount - (allocatable - requested)
			text := n.name + ": short by " + n.quantity(missing)
			if n.amount > allocatable {
				text += fmt.Sprintf(", too small even when empty (%s > %s)", n.quantity(n.amount), n.quantity(allocatable))
			}
			out = append(out, Shortfall{text, float64(missing) / float64(n.amount)})
		}
	}
	return out
}

// quantity words an amount of a resource in its unit, rounded up.
func (n *resourceRequest) quantity(amount int64) string {
	switch {
	case n.fixed == cpu && amount%1000 == 0:
		return strconv.FormatInt(amount/1000, 10)
	case n.fixed == cpu:
		return strconv.FormatInt(amount, 10) + "m"
	case n.fixed == memory || n.fixed == ephemeralStorage || strings.HasPrefix(n.name, "hugepages-"):
		return byteQuantity(amount)
	}
	return strconv.FormatInt(amount, 10)
}

// byteQuantity words bytes in the largest binary unit that is exact, or of which there are
// ten or more.
func byteQuantity(amount int64) string {
	units := [...]string{"", "Ki", "Mi", "Gi", "Ti", "Pi"}
	unit := 0
	for ; unit < len(units)-1 && (amount >= 10<<10 || amount >= 1<<10 && amount%(1<<10) == 0); unit++ {
		amount = (amount-1)>>10 + 1
	}
	return strconv.FormatInt(amount, 10) + units[unit]
}
