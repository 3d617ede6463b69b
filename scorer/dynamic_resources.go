package scorer

import (
	"errors"
	"slices"

	"google.golang.org/protobuf/proto"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
	"github.com/shardsched/shardsched/scorer/devices"
)

// dynamicResources is the plugin DynamicResources: a node must be among those of the pod's allocated claims, and have
// devices for all others.
//
// It has a third verdict beside yes and no: a row may fail the pod, whatever the other rows say. Such a row stays, in a
// group that is marked (Key.LateFilter): only Settle knows whether a filter before this one refuses the group.
type dynamicResources struct {
	query  *pb.ResourceClaimsQuery
	claims []devices.Claim
	// selectors are the nodes of each allocated claim; nil: all.
	allocated []*selector
	// resources are the extended ones.
	resources []resourceRef
	compiler  devices.Compiler
	features  devices.Features
	// asks stands for what verdicts rest on of the query.
	asks digest
	why  []Reason
}

// The reasons of dynamicResources. Bit unavailableClaim+i of a group's reasons tells that allocated claim i is not for its rows.
const (
	failsPod = iota
	claimUnavailable
	noDevicesLeft
	invalidPools
	staleClaim
	cannotFit
	unavailableClaim
)

// mostUnavailable is how many allocated claims have bits.
const mostUnavailable = 64 - unavailableClaim

func newDynamicResources(q *pb.Query, compiler devices.Compiler) (*dynamicResources, error) {
	x := q.GetResourceClaims()
	f := x.GetFeatures()
	r := &dynamicResources{query: x, compiler: compiler, features: devices.Features{
		PrioritizedList: f.GetPrioritizedList(), PartitionableDevices: f.GetPartitionableDevices(), DeviceTaints: f.GetDeviceTaints(),
		BindingConditions: f.GetBindingConditions(), ConsumableCapacity: f.GetConsumableCapacity(),
	}}
	if compiler == nil && (len(x.GetClaims()) > 0 || x.GetExtended() != nil) {
		return nil, errors.New("nobody compiles selectors of devices")
	}
	for _, c := range x.GetClaims() {
		r.claims = append(r.claims, r.newClaim(c))
	}
	for _, c := range x.GetAllocated() {
		r.allocated = append(r.allocated, newSelector(c.GetSelector()))
	}
	for _, e := range x.GetExtended().GetResources() {
		r.resources = append(r.resources, newResourceRef(e.GetName()))
	}
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(
		&pb.ResourceClaimsQuery{Claims: x.GetClaims(), Extended: x.GetExtended(), Features: f})
	if err != nil {
		return nil, err
	}
	r.asks = digestOf(b)
	plugin := PluginName(r.plugin())
	r.why = []Reason{
		failsPod:         {plugin, "devices can not be searched for", true},
		claimUnavailable: {plugin, "resourceclaim not available on the node", true},
		noDevicesLeft:    {plugin, "cannot allocate all claims", true},
		invalidPools:     {plugin, "invalid resource pools were encountered", true},
		staleClaim:       {plugin, "cannot schedule extended resource claim", true},
		cannotFit:        {plugin, "cannot fit resource", true},
	}
	return r, nil
}

func (r *dynamicResources) newClaim(p *pb.DeviceClaim) devices.Claim {
	var c devices.Claim
	for _, x := range p.GetRequests() {
		request := devices.Request{Name: x.GetName(), Prioritized: x.GetExactly() == nil, Admin: x.GetAdminAccess()}
		questions := x.GetFirstAvailable()
		if x.GetExactly() != nil {
			questions = []*pb.DeviceQuestion{x.GetExactly()}
		}
		for _, q := range questions {
			request.Alternatives = append(request.Alternatives, r.newAlternative(q))
		}
		c.Requests = append(c.Requests, request)
	}
	for _, x := range p.GetConstraints() {
		c.Constraints = append(c.Constraints, devices.Constraint{
			Requests: x.GetRequests(), Match: x.GetMatchAttribute(), Distinct: x.GetDistinctAttribute(),
		})
	}
	return c
}

func (r *dynamicResources) newAlternative(q *pb.DeviceQuestion) devices.Alternative {
	a := devices.Alternative{
		Name: q.GetName(), Class: q.GetClass(), NoClass: q.GetNoClass(), Mode: q.GetUnknownMode(), Count: q.GetCount(),
		ClassSelectors: compiledSelectors(q.GetClassSelectors(), r.compiler), Selectors: compiledSelectors(q.GetSelectors(), r.compiler),
		AsksCapacity: q.GetCapacity() != nil, Capacities: countersOfDevice(q.GetCapacity().GetAmounts()),
	}
	switch q.GetMode() {
	case pb.DeviceMode_DEVICE_MODE_EXACT_COUNT:
		a.Mode = devices.ExactCount
	case pb.DeviceMode_DEVICE_MODE_ALL:
		a.Mode = devices.AllDevices
	}
	for _, t := range q.GetTolerations() {
		operator := "Equal"
		if t.GetOperator() == pb.TolerationOperator_TOLERATION_OPERATOR_EXISTS {
			operator = "Exists"
		}
		a.Tolerations = append(a.Tolerations,
			devices.Toleration{Key: t.GetKey(), Operator: operator, Value: t.GetValue(), Effect: effectName(t.GetEffect())})
	}
	return a
}

func compiledSelectors(list []*pb.DeviceSelector, compiler devices.Compiler) []devices.Selector {
	out := make([]devices.Selector, len(list))
	for i, s := range list {
		if s.GetExpression() != "" {
			out[i] = compiler.Compile(s.GetExpression())
		}
	}
	return out
}

// demand is what a row is asked for whose extended resources of some bits are served by devices.
func (r *dynamicResources) demand(served uint64) (*devices.Demand, []ResourceMapping) {
	if r.query.GetExtended() == nil {
		return devices.NewDemand(r.claims, r.features), nil
	}
	special, mappings := extendedClaim(r.query.GetExtended(), served, r.compiler)
	return devices.NewDemand(append(slices.Clone(r.claims), special), r.features), mappings
}

func (r *dynamicResources) plugin() pb.Plugin { return pb.Plugin_PLUGIN_DYNAMIC_RESOURCES }
func (r *dynamicResources) reasons() []Reason { return r.why }

// served are the extended resources of a row that devices serve, as bits; ok is false where neither a class nor the node knows a
// resource. Whether the node has enough of it is not asked here.
func (r *dynamicResources) served(v view) (bits uint64, ok bool) {
	for i, ref := range r.resources {
		if allocatable, _ := v.amounts(ref); allocatable > 0 {
			continue
		}
		switch resource := r.query.GetExtended().GetResources()[i]; {
		case resource.GetClass() != "":
			bits |= 1 << i
		case !v.t.traits.reportsNone(v.row, resource.GetName()):
			return 0, false
		}
	}
	return bits, true
}

// judge is the verdict of a row, but for allocated claims.
func (r *dynamicResources) judge(v view) deviceVerdict {
	if r.query.GetExtended() == nil {
		if len(r.claims) == 0 {
			return deviceVerdict{reason: letsThrough}
		}
		return v.e.searchDevices(r, v, 0)
	}
	if r.query.GetExtended().GetStale() {
		return deviceVerdict{reason: staleClaim}
	}
	bits, ok := r.served(v)
	switch {
	case !ok:
		return deviceVerdict{reason: cannotFit}
	case bits == 0 && len(r.claims)+len(r.allocated) == 0:
		return deviceVerdict{reason: letsThrough}
	}
	return v.e.searchDevices(r, v, bits)
}

// unavailable tells whether a row is none of an allocated claim's.
func (r *dynamicResources) unavailable(i int, v view) bool {
	return r.query.GetAllocated()[i].GetUnavailable() || !r.allocated[i].matches(v)
}

// refusal is why a row is refused; letsThrough: it is not.
func (r *dynamicResources) refusal(v view) int8 {
	if d := r.judge(v); d.reason != letsThrough {
		return d.reason
	}
	for i := range r.allocated {
		if r.unavailable(i, v) {
			return claimUnavailable
		}
	}
	return letsThrough
}

func (r *dynamicResources) narrow(e *Evaluator, t *Table, rows bitmap) {
	for row := range rows.all {
		if r.refusal(view{t: t, row: row, e: e}) != letsThrough {
			rows.remove(row)
		}
	}
}

func (r *dynamicResources) passes(v view) bool { return r.refusal(v) == letsThrough }

func (r *dynamicResources) refusals(v view, into []int) []int { return append(into, int(r.refusal(v))) }

// marks are the refusals, and which claims are not for the row.
func (r *dynamicResources) marks(v view, into []int) []int {
	why := r.refusal(v)
	if why == claimUnavailable {
		for i := range min(len(r.allocated), mostUnavailable) {
			if r.unavailable(i, v) {
				into = append(into, unavailableClaim+i)
			}
		}
	}
	return append(into, int(why))
}

// fails tells whether the row fails the pod.
func (r *dynamicResources) fails(v view) bool { return r.judge(v).reason == failsPod }

func (r *dynamicResources) column(e *Evaluator, t *Table, rows bitmap, into []int64) (some bitmap) {
	if !r.scores() {
		return nil
	}
	for row := range rows.all {
		into[row] = r.score(e, view{t: t, row: row})
	}
	return rows
}

// scores tells whether any row may have a score.
func (r *dynamicResources) scores() bool {
	prioritized := func(c devices.Claim) bool {
		return slices.ContainsFunc(c.Requests, func(x devices.Request) bool { return x.Prioritized })
	}
	return r.features.PrioritizedList && (slices.ContainsFunc(r.claims, prioritized) || r.query.GetAllocatedScore() > 0)
}

func (r *dynamicResources) score(e *Evaluator, v view) int64 {
	if !r.scores() {
		return 0
	}
	v.e = e
	d := r.judge(v)
	if !d.searched || d.reason != letsThrough {
		return 0
	}
	return d.score + r.query.GetAllocatedScore()
}
