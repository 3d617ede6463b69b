package observe

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/shardsched/shardsched/coordinator/cache"
	"github.com/shardsched/shardsched/coordinator/census"
	"github.com/shardsched/shardsched/coordinator/compile"
	"github.com/shardsched/shardsched/coordinator/queue"
	"github.com/shardsched/shardsched/coordinator/rules"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
	"github.com/shardsched/shardsched/scorer"
)

// noGroup is the group of a row that a filter of its own refuses.
const noGroup = -1

// maxCauses is how many causes an explanation has, of how many reasons of a plugin each is made, and how many a plugin words of them.
const maxCauses = 64

// causeKey tells causes of refused rows apart. text is empty where a plugin's reasons are told together.
type causeKey struct {
	plugin, text string
	unresolvable bool
}

// causeCount is the rows that are refused for a cause, and the reasons that were given for it.
type causeCount struct {
	nodes   uint32
	reasons []string
}

// countCause counts a row by the cause for which it is refused.
func (x *explainer) countCause(reasons []scorer.Reason) {
	if len(reasons) == 0 {
		return
	}
	first := reasons[0]
	key := causeKey{first.Plugin, first.Text, first.Unresolvable}
	if w := x.words.Of(first.Plugin); w != nil && w.Together {
		key.text = ""
	}
	c := x.causes[key]
	if c == nil {
		c = &causeCount{}
		x.causes[key] = c
	}
	c.nodes++
	for _, r := range reasons {
		if len(c.reasons) == maxCauses {
			break
		}
		if !slices.Contains(c.reasons, r.Text) {
			c.reasons = append(c.reasons, r.Text)
		}
	}
}

// take counts a node in the census.
func (x *explainer) take(row cache.Row) {
	if x.onto != nil {
		return
	}
	if n := x.q.Cluster.Node(x.Name(row)); n != nil {
		x.census.Add(n)
	}
}

// tellCauses words the causes, that of most nodes first.
func (x *explainer) tellCauses() {
	keys := slices.SortedFunc(maps.Keys(x.causes), func(a, b causeKey) int {
		return cmp.Or(cmp.Compare(x.causes[b].nodes, x.causes[a].nodes), cmp.Compare(a.plugin, b.plugin), cmp.Compare(a.text, b.text))
	})
	for _, k := range keys[:min(len(keys), maxCauses)] {
		c := x.causes[k]
		slices.Sort(c.reasons)
		asked := rules.Asked{
			Pod: x.q.Bare, Profile: x.q.Profile, Reasons: c.reasons, Refused: int(c.nodes), Judged: true, Unresolvable: k.unresolvable,
			Nodes: x.census, Cluster: x.q.Cluster,
		}
		for _, cause := range wanted(k.plugin, x.words.Of(k.plugin), &asked) {
			cause.Nodes, cause.Preemption = c.nodes, preemption(x.out.GetDecision(), k.unresolvable, x.q.Profile)
			x.out.Causes = addCause(x.out.Causes, cause)
		}
	}
}

// addCause adds a cause to others; of those that are worded alike the nodes add up.
func addCause(list []*pb.Cause, c *pb.Cause) []*pb.Cause {
	for _, x := range list {
		if x.Plugin == c.Plugin && x.Cause == c.Cause && x.Detail == c.Detail && x.Help == c.Help && x.Preemption == c.Preemption {
			x.Nodes += c.Nodes
			return list
		}
	}
	return append(list, c)
}

// wanted words the reasons of a plugin, in maxCauses at the most. Those of one without words stand for themselves.
func wanted(plugin string, w *rules.Words, asked *rules.Asked) (out []*pb.Cause) {
	if w != nil {
		wants := w.Wants(asked)
		for _, x := range wants[:min(len(wants), maxCauses)] {
			out = append(out, &pb.Cause{Plugin: plugin, Cause: x.Cause, Detail: x.Detail, Help: x.Help})
		}
	}
	if len(out) == 0 {
		out = append(out, &pb.Cause{Plugin: plugin, Cause: strings.Join(asked.Reasons, ", ")})
	}
	return out
}

// Parts of upstream's messages about preemption.
const (
	saysIneligible = "preemption: not eligible due to "
	saysNoVictims  = "No preemption victims found"
)

// preemption words whether pods that leave help, as far as the last decision tells.
func preemption(last *pb.Decision, unresolvable bool, prof *compile.Profile) string {
	message := last.GetMessage()
	switch {
	case unresolvable:
		return "can't help"
	case last.GetNode() != "":
		return "not needed"
	case !slices.Contains(prof.PostFilters(), rules.DefaultPreemption):
		return "is off"
	case last == nil:
		return "not tried yet"
	case last.GetNominated() != "":
		return "helps on " + last.GetNominated()
	case strings.Contains(message, saysIneligible):
		_, why, _ := strings.Cut(message, saysIneligible)
		return "not eligible: " + strings.TrimSuffix(why, ".")
	case strings.Contains(message, saysNoVictims):
		return "found no victims"
	}
	return "could help"
}

// rejectedCauses words why a PreFilter refuses a pod on all nodes.
func rejectedCauses(q *Question, nodes uint32) (out []*pb.Cause) {
	asked := rules.Asked{Pod: q.Bare, Profile: q.Profile, Reasons: []string{q.Class.Rejected.Message}, Unresolvable: true,
		Nodes: census.New(), Cluster: q.Cluster}
	w, plugin := rules.NewDictionary().Speaker(q.Class.Rejected.Message, q.Class.Rejected.Plugins)
	if w == nil {
		return nil
	}
	out = wanted(plugin, w, &asked)
	for _, c := range out {
		c.Nodes, c.Preemption = nodes, "can't help"
	}
	return out
}

// gatedCauses words what holds a pod back from being tried.
func gatedCauses(p *queue.Pod, q *Question) []*pb.Cause {
	asked := rules.Asked{Pod: q.Bare, Profile: q.Profile, Reasons: []string{p.Message}, Nodes: census.New(), Cluster: q.Cluster}
	return wanted(p.Gated, rules.NewDictionary().Of(p.Gated), &asked)
}

// word writes what a refused node lacks. named: pods in the way are named.
func (x *explainer) word(at *refusalAt, named bool) {
	w := x.words.Of(at.node.Plugin)
	node := x.q.Cluster.Node(at.node.Node)
	if w == nil || node == nil {
		return
	}
	r := &rules.Refused{
		Pod: x.q.Bare, Node: node, Profile: x.q.Profile, Class: x.class, Reasons: at.node.Reasons, Row: refusedRow{x, at},
		Named: named, Cluster: x.q.Cluster,
	}
	if x.answer != nil && at.group >= 0 {
		if u, ok := x.class.Scorer.Unmet(&x.all, x.answer.Standing(), at.group); ok {
			r.Unmet = &u
		}
	}
	at.node.Shortfalls = w.Lacks(r)
}

// refusedRow is a row as words see it.
type refusedRow struct {
	x  *explainer
	at *refusalAt
}

var _ rules.Row = refusedRow{}

func (r refusedRow) Shortfalls() []scorer.Shortfall {
	return r.x.Shortfalls(r.at.row, r.x.class.Scorer)
}

func (r refusedRow) FullDrivers() []scorer.DriverRoom {
	return r.x.FullDrivers(r.at.row, r.x.class.Scorer)
}

func (r refusedRow) Expressions() []scorer.ExpressionOutcome {
	return r.x.Expressions(r.at.row, r.x.class.Scorer)
}

// Devices are worded when the row is refused.
func (r refusedRow) Devices() []string { return r.at.node.Shortfalls }
