package observe

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/shardsched/shardsched/coordinator/cache"
	"github.com/shardsched/shardsched/coordinator/rules"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
	"github.com/shardsched/shardsched/scorer"
	"github.com/shardsched/shardsched/scorer/devices"
	"github.com/shardsched/shardsched/scorer/devices/selector"
)

const (
	// maxShortages is how many counts an explanation has of what keeps devices from claims: taints may be any node's own.
	maxShortages = 64
	// maxKeptShortages is how many are kept until they are sorted.
	maxKeptShortages = 4096
	// maxExpression is how many bytes of an expression are shown.
	maxExpression = 200
)

// shortages gathers why rows have no devices for one pod.
type shortages struct {
	*scorer.Shortages
	counts map[shortageKey]*pb.ShortageCount
}

type shortageKey struct {
	claim, request, alternative int32
	cause                       devices.Cause
}

func newShortages() shortages {
	return shortages{Shortages: scorer.NewShortages(), counts: map[shortageKey]*pb.ShortageCount{}}
}

// lackDevices takes in why a row that DynamicResources refuses has no devices; nil: it refuses the row for something else. It
// returns how much is missing, as a share of what the request asks for.
func (x *explainer) lackDevices(row cache.Row, refused *pb.RefusedNode) (d *scorer.DeviceShortage, missing float64) {
	if refused.Plugin != rules.DynamicResources {
		return nil, 0
	}
	d = x.Shortage(row, x.class.Scorer, x.shortages.Shortages)
	if d == nil {
		refused.Shortfalls = append(refused.Shortfalls, x.unavailable(row)...)
		return nil, 0
	}
	w := wording{DeviceShortage: d, claims: x.q.Claims}
	if len(d.Lacks) == 0 {
		refused.Shortfalls = append(refused.Shortfalls, w.note())
		return d, 1
	}
	missing = 1
	for i := range d.Lacks {
		l := &d.Lacks[i]
		refused.Shortfalls = append(refused.Shortfalls, fmt.Sprintf("claim %s, request %s: %d of %d devices",
			w.claim(d.Claim), w.request(l.Alternative), l.Found, l.Wanted))
		missing = min(missing, float64(l.Wanted-l.Found)/float64(max(l.Wanted, 1)))
		x.shortages.count(&w, l)
	}
	return d, missing
}

// unavailable words which claims have devices that are not for a row.
func (x *explainer) unavailable(row cache.Row) (list []string) {
	of := x.class.Query.GetResourceClaims().GetAllocated()
	for _, i := range x.UnavailableClaims(row, x.class.Scorer) {
		switch {
		case i >= len(x.q.Allocated): // claims have come or gone
		case of[i].GetUnavailable():
			list = append(list, fmt.Sprintf("claim %s: its devices did not become ready", x.q.Allocated[i]))
		default:
			list = append(list, fmt.Sprintf("claim %s: its devices are for other nodes", x.q.Allocated[i]))
		}
	}
	return list
}

// count adds a row up, once for each cause.
func (s *shortages) count(w *wording, l *devices.Lack) {
	causes := l.Causes
	switch {
	case l.Limit:
		causes = append(slices.Clone(causes), devices.CauseCount{Cause: devices.Cause{Kind: causeLimit}})
	case len(causes) == 0:
		causes = []devices.CauseCount{{Cause: devices.Cause{Kind: causeNone}}}
	}
	for _, c := range causes {
		key := shortageKey{w.Claim, w.Request, l.Alternative, c.Cause}
		n := s.counts[key]
		if n == nil {
			if len(s.counts) >= maxKeptShortages {
				continue
			}
			n = &pb.ShortageCount{Claim: w.claim(w.Claim), Request: w.request(l.Alternative), Cause: w.cause(l, &c.Cause)}
			s.counts[key] = n
		}
		n.Nodes++
		n.Devices += uint64(c.Devices)
	}
}

// Causes that no device has.
const (
	// causeNone: the node reaches no other devices.
	causeNone = devices.CauseInvalid + 1 + iota
	// causeLimit: the claim asks for more devices than a claim gets.
	causeLimit
)

// tell writes the counts: by claim and request, and for each of them the cause of most nodes first.
func (s *shortages) tell(out *pb.ExplainResponse) {
	keys := slices.SortedFunc(maps.Keys(s.counts), func(a, b shortageKey) int {
		return cmp.Or(cmp.Compare(a.claim, b.claim), cmp.Compare(a.request, b.request), cmp.Compare(a.alternative, b.alternative),
			cmp.Compare(s.counts[b].Nodes, s.counts[a].Nodes), cmp.Compare(a.cause.Kind, b.cause.Kind),
			strings.Compare(s.counts[a].Cause, s.counts[b].Cause))
	})
	for _, k := range keys[:min(len(keys), maxShortages)] {
		out.Shortages = append(out.Shortages, s.counts[k])
	}
}

// wording words a shortage.
type wording struct {
	*scorer.DeviceShortage
	// claims are the claims of its demand.
	claims []types.NamespacedName
	// user tells which claims and pods have a device; nil: nobody is asked.
	user func(driver, pool, device string) string
}

func (w *wording) claim(i int32) string {
	if int(i) >= len(w.claims) {
		return "#" + strconv.Itoa(int(i)) // claims have come or gone
	}
	return w.claims[i].String()
}

func (w *wording) request(alternative int32) string {
	return w.Demand.Name(w.Claim, w.Request, alternative)
}

func (w *wording) alternative(l *devices.Lack) *devices.Alternative {
	return &w.Demand.Claims()[w.Claim].Requests[w.Request].Alternatives[l.Alternative]
}

// note is why the search was not made to the end; "": it was.
func (w *wording) note() string {
	switch {
	case w.NoPools != "":
		return w.NoPools
	case w.CutOff:
		return "the search was given up: what is told here was found until then"
	case w.Verdict == devices.Fatal:
		return w.Text.In(func(i int32) (string, string) {
			if int(i) >= len(w.claims) {
				return "", w.claim(i)
			}
			return w.claims[i].Namespace, w.claims[i].Name
		}, w.Pool)
	}
	return ""
}

// message is all that is told of a node.
func (w *wording) message() *pb.DeviceShortage {
	out := &pb.DeviceShortage{Note: w.note()}
	for i := range w.Lacks {
		l := &w.Lacks[i]
		out.Claim = w.claim(w.Claim)
		r := &pb.RequestShortage{Request: w.request(l.Alternative), Class: w.alternative(l).Class, Wanted: l.Wanted, Found: l.Found,
			Devices: uint32(l.Devices), InClass: uint32(l.InClass)}
		for k := range l.Nearest {
			r.Nearest = append(r.Nearest, w.missed(l, &l.Nearest[k]))
		}
		out.Requests = append(out.Requests, r)
	}
	return out
}

// cause words a cause without what only one device has.
func (w *wording) cause(l *devices.Lack, c *devices.Cause) string {
	switch c.Kind {
	case causeNone:
		return "the node has no devices"
	case causeLimit:
		return fmt.Sprintf("a claim gets %d devices at the most", devices.MaxResults)
	case devices.CauseMatch:
		return fmt.Sprintf("constraint #%d: another %s than the devices before", c.Index, c.Name)
	case devices.CauseDistinct:
		return fmt.Sprintf("constraint #%d: the same %s as a device before", c.Index, c.Name)
	case devices.CauseNoAttribute:
		return fmt.Sprintf("constraint #%d: no attribute %s", c.Index, c.Name)
	case devices.CauseCounter:
		return fmt.Sprintf("too little left of counter %s/%s", c.Set, c.Name)
	case devices.CauseTaint:
		return "taint " + taintText(&c.Taint) + " is not tolerated"
	case devices.CauseCapacity:
		return "too little left of capacity " + c.Name
	case devices.CausePortion:
		return "no such portion of capacity " + c.Name
	case devices.CauseNoCapacity:
		return "no capacity " + c.Name
	case devices.CauseTaken:
		return "taken for another request of the pod"
	case devices.CauseInUse:
		return "in use"
	case devices.CauseGate:
		return "needs a feature gate that is off"
	case devices.CauseSelector:
		return w.selectorName(l, c) + " is false: " + clipped(w.selector(l, c).String())
	case devices.CauseIncomplete:
		return "the pool is being updated: not all of its slices are there"
	case devices.CauseInvalid:
		return "the pool is invalid: " + c.Why
	}
	return "free, but not beside what else is asked for"
}

func taintText(t *devices.Taint) string {
	if t.Value == "" {
		return t.Key + ":" + t.Effect
	}
	return t.Key + "=" + t.Value + ":" + t.Effect
}

func (w *wording) selector(l *devices.Lack, c *devices.Cause) devices.Selector {
	if c.Class {
		return w.alternative(l).ClassSelectors[c.Index]
	}
	return w.alternative(l).Selectors[c.Index]
}

func (w *wording) selectorName(l *devices.Lack, c *devices.Cause) string {
	if c.Class {
		return fmt.Sprintf("selector #%d of class %s", c.Index, w.alternative(l).Class)
	}
	return fmt.Sprintf("selector #%d", c.Index)
}

// missed words a device that was not had, or a pool.
func (w *wording) missed(l *devices.Lack, m *devices.Missed) *pb.MissedDevice {
	out := &pb.MissedDevice{Cause: w.cause(l, &m.Cause)}
	out.Driver, out.Pool = w.Pool(m.Pool)
	if m.Device < 0 {
		return out
	}
	device, content := w.Device(m.Device)
	out.Device = device
	switch c := &m.Cause; c.Kind {
	case devices.CauseMatch:
		out.Cause = fmt.Sprintf("constraint #%d: %s is %s, of the devices before %s", c.Index, c.Name, valueText(m.Has), valueText(m.Others))
	case devices.CauseDistinct:
		out.Cause = fmt.Sprintf("constraint #%d: %s is %s, as of a device before", c.Index, c.Name, valueText(m.Has))
	case devices.CauseCounter, devices.CauseCapacity:
		what := "capacity " + c.Name
		if c.Kind == devices.CauseCounter {
			what = "counter " + c.Set + "/" + c.Name
		}
		q := selector.Quantity(m.Short)
		out.Cause = what + ": short by " + q.String()
	case devices.CauseTaken:
		out.Cause = fmt.Sprintf("taken for request %s of claim %s", w.Demand.Claims()[m.ByClaim].Requests[m.ByRequest].Name, w.claim(m.ByClaim))
	case devices.CauseSelector:
		why := w.selector(l, c).Refusal(content)
		out.Cause = w.selectorName(l, c) + " is false: " + clipped(why.Expression) + readText(why, content)
	}
	if w.user == nil {
		return out
	}
	switch user := w.user(out.Driver, out.Pool, device); {
	case user == "":
	case m.Cause.Kind == devices.CauseInUse:
		out.Cause = user
	case m.Cause.Kind == devices.CauseCapacity:
		out.Cause += ", " + user
	}
	return out
}

// readText tells what an expression reads of a device.
func readText(why devices.Refusal, c *devices.Content) string {
	var list []string
	if strings.Contains(why.Expression, "device.driver") {
		list = append(list, "driver is "+strconv.Quote(c.Driver))
	}
	for _, name := range why.Reads {
		if v, ok := c.Attribute(name); ok {
			list = append(list, name+" is "+valueText(v))
		} else {
			list = append(list, "there is no "+name)
		}
	}
	if strings.Contains(why.Expression, "device.capacity") {
		for i := range c.Capacities {
			_, id, _ := strings.Cut("/"+c.Capacities[i].Name, "/")
			if q := selector.Quantity(c.Capacities[i].Value); strings.Contains(why.Expression, id) {
				list = append(list, "capacity "+c.Capacities[i].Name+" is "+q.String())
			}
		}
	}
	if len(list) == 0 {
		return ""
	}
	return " (" + strings.Join(list, ", ") + ")"
}

func valueText(v devices.Value) string {
	switch v.Kind {
	case devices.ValueInt:
		return strconv.FormatInt(v.Int, 10)
	case devices.ValueBool:
		return strconv.FormatBool(v.Int != 0)
	case devices.ValueString:
		return strconv.Quote(v.Text)
	case devices.ValueVersion:
		return v.Text
	}
	return "of a type that is not known"
}

func clipped(text string) string {
	if len(text) > maxExpression {
		return strings.ToValidUTF8(text[:maxExpression], "") + "…"
	}
	return text
}
