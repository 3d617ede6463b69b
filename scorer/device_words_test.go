package scorer

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
	"github.com/shardsched/shardsched/scorer/devices"
	compiled "github.com/shardsched/shardsched/scorer/devices/selector"
)

// What golden scripts say of devices. In apply, with "shared" for a node where a pool is no single one's:
//
//	slice NODE DRIVER/POOL/NAME [gen=N] [of=N] [reach:REACH] DEVICE … [set:NAME;COUNTER=N;…]
//	unslice NODE DRIVER/POOL/NAME
//	use NODE DRIVER/POOL/DEVICE [whole] [shares=N] [held:CAPACITY=N]      nothing: it is free
//
// where DEVICE is dev:NAME and words after ";": an attribute NAME=TEXT or NAME=NUMBER, cap.NAME=N, taint=KEY,
// takes=SET/COUNTER/N, multi, conditioned, bound, on=REACH; and REACH is all, each, none, node=NAME, KEY=VALUE or bad=TEXT.
//
// claims judges every row as query does, and prints what each would get. Its words:
//
//	claim                                   the next claim
//	request NAME COUNT|all|none [admin] [noclass] [tolerate] [cap:NAME=N] [EXPRESSION]
//	or NAME COUNT|all …                     an alternative of the last request, which then has no question of its own
//	match ATTRIBUTE [REQUEST,…]             distinct ATTRIBUTE [REQUEST,…]
//	allocated TERM | any | unavailable      a claim that has its devices
//	extended NAME=CLASS … | stale           extended resources; "-" for a class is none
//	container [init] NAME=N …
func (g *golden) changeDevices(d *pb.Delta, f []string) bool {
	shared := f[1] == "shared"
	names := func() (string, string, string) {
		parts := strings.SplitN(f[2], "/", 3)
		return parts[0], parts[1], parts[2]
	}
	switch f[0] {
	case "slice", "unslice":
		s := &pb.DeviceSlice{}
		s.Driver, s.Pool, s.Name = names()
		if f[0] == "slice" {
			parseSlice(s, f[3:])
		}
		switch {
		case f[0] == "unslice" && shared:
			d.Change = &pb.Delta_RemoveSharedSlice{RemoveSharedSlice: s}
		case f[0] == "unslice":
			d.Change = &pb.Delta_RemoveSlice{RemoveSlice: s}
		case shared:
			d.Change = &pb.Delta_SetSharedSlice{SetSharedSlice: s}
		default:
			d.Change = &pb.Delta_SetSlice{SetSlice: s}
		}
	case "use":
		u := &pb.DeviceUse{}
		u.Driver, u.Pool, u.Device = names()
		parseUse(u, f[3:])
		uses := &pb.DeviceUses{Uses: []*pb.DeviceUse{u}}
		if d.Change = (&pb.Delta_UseDevices{UseDevices: uses}); shared {
			d.Change = &pb.Delta_UseSharedDevices{UseSharedDevices: uses}
		}
	default:
		return false
	}
	if shared {
		d.Row = 0
	}
	return true
}

func quantityOf(text string) *pb.DeviceQuantity {
	a := devices.Units(number(text), devices.BinarySI)
	return amountProto(a)
}

func parseSlice(s *pb.DeviceSlice, words []string) {
	s.SliceCount = 1
	for _, w := range words {
		key, value, _ := strings.Cut(w, "=")
		kind, rest, _ := strings.Cut(w, ":")
		switch {
		case key == "gen":
			s.Generation = number(value)
		case key == "of":
			s.SliceCount = number(value)
		case kind == "reach":
			s.Reach = parseReach(rest)
		case kind == "dev":
			s.Devices = append(s.Devices, parseDevice(rest))
		case kind == "set":
			name, counters, _ := strings.Cut(rest, ";")
			s.CounterSets = append(s.CounterSets, &pb.CounterSet{Name: name, Counters: parseAmounts(counters)})
		default:
			panic("unknown word " + w)
		}
	}
}

func parseAmounts(text string) (out []*pb.DeviceAmount) {
	for w := range strings.SplitSeq(text, ";") {
		if name, n, ok := strings.Cut(w, "="); ok {
			out = append(out, &pb.DeviceAmount{Name: name, Quantity: quantityOf(n)})
		}
	}
	return out
}

func parseReach(text string) *pb.DeviceReach {
	key, value, _ := strings.Cut(text, "=")
	switch key {
	case "all":
		return &pb.DeviceReach{Of: &pb.DeviceReach_AllNodes{AllNodes: true}}
	case "each":
		return &pb.DeviceReach{Of: &pb.DeviceReach_PerDevice{PerDevice: true}}
	case "none":
		return &pb.DeviceReach{}
	case "node":
		return &pb.DeviceReach{Of: &pb.DeviceReach_NodeName{NodeName: value}}
	case "bad":
		return &pb.DeviceReach{Of: &pb.DeviceReach_Unreadable{Unreadable: value}}
	}
	return &pb.DeviceReach{Of: &pb.DeviceReach_Selector{Selector: parseSelector(key + " In " + value)}}
}

func parseDevice(text string) *pb.Device {
	words := strings.Split(text, ";")
	d := &pb.Device{Name: words[0]}
	for _, w := range words[1:] {
		key, value, _ := strings.Cut(w, "=")
		capacity, isCapacity := strings.CutPrefix(key, "cap.")
		switch {
		case isCapacity:
			d.Capacities = append(d.Capacities, &pb.DeviceCapacity{Name: capacity, Quantity: quantityOf(value)})
		case key == "taint":
			d.Taints = append(d.Taints, &pb.Taint{Key: value, Effect: pb.TaintEffect_TAINT_EFFECT_NO_SCHEDULE})
		case key == "takes":
			x := strings.Split(value, "/")
			d.Consumes = append(d.Consumes, &pb.CounterUse{CounterSet: x[0], Counters: parseAmounts(x[1] + "=" + x[2])})
		case key == "on":
			d.Reach = parseReach(strings.Replace(value, ":", "=", 1))
		case w == "multi":
			d.AllowsMultiple = true
		case w == "conditioned":
			d.Conditioned = true
		case w == "bound":
			d.BindsToNode = true
		case strings.Trim(value, "0123456789") == "":
			d.Attributes = append(d.Attributes, &pb.DeviceAttribute{Name: key, Value: &pb.DeviceAttribute_Int{Int: number(value)}})
		default:
			d.Attributes = append(d.Attributes, &pb.DeviceAttribute{Name: key, Value: &pb.DeviceAttribute_String_{String_: value}})
		}
	}
	return d
}

func parseUse(u *pb.DeviceUse, words []string) {
	for _, w := range words {
		key, value, _ := strings.Cut(w, "=")
		held, isHeld := strings.CutPrefix(w, "held:")
		switch {
		case isHeld:
			u.Consumed = &pb.DeviceAmounts{Amounts: parseAmounts(held)}
		case w == "whole":
			u.Dedicated = true
		case key == "shares":
			u.Shares = uint32(number(value))
		default:
			panic("unknown word " + w)
		}
	}
}

// parseClaims reads the words of claims; the others are a query's.
func parseClaims(input string) *pb.Query {
	x := &pb.ResourceClaimsQuery{Features: &pb.DeviceFeatures{
		PrioritizedList: true, PartitionableDevices: true, DeviceTaints: true, BindingConditions: true, ConsumableCapacity: true,
	}}
	var rest []string
	for line := range strings.Lines(input) {
		if f := strings.Fields(line); !parseDeviceClaim(x, f) {
			rest = append(rest, strings.TrimSpace(line)+"\n")
		}
	}
	q := parseQuery(strings.Join(rest, ""))
	if !slices.ContainsFunc(rest, func(s string) bool { return strings.HasPrefix(s, "filters") }) {
		q.Filters = []pb.Plugin{pb.Plugin_PLUGIN_DYNAMIC_RESOURCES}
	}
	q.ResourceClaims = x
	return q
}

func parseDeviceClaim(x *pb.ResourceClaimsQuery, f []string) bool {
	last := func() *pb.DeviceClaim { return x.Claims[len(x.Claims)-1] }
	switch f[0] {
	case "claim":
		x.Claims = append(x.Claims, &pb.DeviceClaim{})
	case "request":
		r := &pb.DeviceRequest{Name: f[1], Exactly: parseQuestion("", f[2:])}
		r.AdminAccess = slices.Contains(f, "admin")
		last().Requests = append(last().Requests, r)
	case "or":
		r := last().Requests[len(last().Requests)-1]
		r.Exactly = nil
		r.FirstAvailable = append(r.FirstAvailable, parseQuestion(f[1], f[2:]))
	case "match", "distinct":
		k := &pb.DeviceConstraint{Of: &pb.DeviceConstraint_MatchAttribute{MatchAttribute: f[1]}}
		if f[0] == "distinct" {
			k.Of = &pb.DeviceConstraint_DistinctAttribute{DistinctAttribute: f[1]}
		}
		if len(f) > 2 {
			k.Requests = strings.Split(f[2], ",")
		}
		last().Constraints = append(last().Constraints, k)
	case "allocated":
		c := &pb.AllocatedClaim{Unavailable: f[1] == "unavailable"}
		if !c.Unavailable {
			c.Selector = parseSelector(strings.Join(f[1:], " "))
		}
		x.Allocated = append(x.Allocated, c)
	case "extended":
		x.Extended = &pb.ExtendedResourcesQuery{Stale: slices.Contains(f, "stale")}
		for _, w := range f[1:] {
			if name, class, ok := strings.Cut(w, "="); ok {
				x.Extended.Resources = append(x.Extended.Resources, &pb.MappedResource{Name: name, Class: strings.Trim(class, "-")})
			}
		}
	case "container":
		c := &pb.ContainerResources{ShortLived: slices.Contains(f, "init")}
		for _, w := range f[1:] {
			if name, n, ok := strings.Cut(w, "="); ok {
				c.Names, c.Amounts = append(c.Names, name), append(c.Amounts, number(n))
			}
		}
		x.Extended.Containers = append(x.Extended.Containers, c)
	default:
		return false
	}
	return true
}

func parseQuestion(name string, words []string) *pb.DeviceQuestion {
	q := &pb.DeviceQuestion{Name: name, Class: "c", Mode: pb.DeviceMode_DEVICE_MODE_EXACT_COUNT}
	switch words[0] {
	case "all":
		q.Mode = pb.DeviceMode_DEVICE_MODE_ALL
	case "none":
		q.Mode, q.UnknownMode = 0, "Some"
	default:
		q.Count = number(words[0])
	}
	var expression []string
	for _, w := range words[1:] {
		capacity, isCapacity := strings.CutPrefix(w, "cap:")
		switch {
		case w == "admin":
		case w == "noclass":
			q.NoClass = true
		case w == "tolerate":
			q.Tolerations = []*pb.Toleration{{Operator: pb.TolerationOperator_TOLERATION_OPERATOR_EXISTS}}
		case isCapacity:
			q.Capacity = &pb.DeviceAmounts{Amounts: parseAmounts(capacity)}
		default:
			expression = append(expression, w)
		}
	}
	if len(expression) > 0 {
		q.Selectors = []*pb.DeviceSelector{{Expression: strings.Join(expression, " ")}}
	}
	return q
}

// testSelectors compile expressions over devices.
var testSelectors = compiled.NewCompiler()

// claims prints a line for each row, and which claims were found unavailable.
func (g *golden) claims(t *testing.T, input string) string {
	q := parseClaims(input)
	c := newClass(t, q)
	r := evaluate(g.e, g.table, c, Options{Candidates: 10, Diagnose: true})
	var s Standing
	c.Settle(r, &s)
	var out strings.Builder
	for row := range g.table.All() {
		fmt.Fprintf(&out, "%s: %s\n", g.table.Name(row), g.claimLine(row, c))
	}
	var unavailable uint64
	for i := range r.Groups {
		unavailable |= c.UnavailableClaims(r, &s, i)
	}
	if unavailable != 0 {
		fmt.Fprintf(&out, "unavailable somewhere: %b\n", unavailable)
	}
	if s.Failing > 0 {
		fmt.Fprintf(&out, "the pod fails by %d nodes\n", s.Failing)
	}
	return out.String()
}

func (g *golden) claimLine(row uint32, c *Class) string {
	var v Verdict
	g.e.Row(g.table, row, nil, c, false, &v)
	if !v.Passed {
		v := view{t: g.table, row: row, e: g.e}
		rule := c.refusing(v, true)
		why := rule.reasons()[rule.refusals(v, nil)[0]]
		return fmt.Sprintf("no, %s: %s", why.Plugin, why.Text)
	}
	a := g.e.Allocate(g.table, row, c)
	if v.Key.LateFilter != 0 {
		return "fails: " + a.Fatal.In(func(i int32) (string, string) { return "ns", fmt.Sprintf("claim-%d", i) })
	}
	words := []string{"yes"}
	for i, claim := range a.Claims {
		for _, x := range claim {
			word := fmt.Sprintf("%d/%s=%s/%s/%s", i, resultName(c, &a, i, &x), x.Driver, x.Pool, x.Device)
			if x.Admin {
				word += " (admin)"
			}
			if x.Share {
				word += " (share"
				for _, k := range x.Consumed {
					word += fmt.Sprintf(" %s=%d", k.Name, k.Value.Ceil())
				}
				word += ")"
			}
			words = append(words, word)
		}
	}
	for _, m := range a.Mappings {
		words = append(words, fmt.Sprintf("%d:%s→%s", m.Container, m.Resource, m.Request))
	}
	if c.KeyLen() > 0 {
		words = append(words, fmt.Sprintf("score %v", v.Key.Raw[:c.KeyLen()]))
	}
	return strings.Join(words, ", ")
}

// resultName is request, or request/alternative.
func resultName(c *Class, a *DeviceAllocation, claim int, x *DeviceResult) string {
	claims := c.claims.query.GetClaims()
	if claim == len(claims) {
		return a.Special[x.Request].Name
	}
	r := claims[claim].GetRequests()[x.Request]
	if list := r.GetFirstAvailable(); len(list) > 0 {
		return r.GetName() + "/" + list[x.Alternative].GetName()
	}
	return r.GetName()
}
