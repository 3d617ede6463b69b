package scorer

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/cespare/xxhash/v2"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// The reference judges one row at a time on the messages themselves, written from the
// formulas and as plainly as possible. It shares nothing with the tables.

// refVerdict is what the reference finds for a row.
type refVerdict struct {
	reasons []Reason // in order; empty: feasible
	key     []int64
	local   int64
	raw     []int64 // by Query.scores
}

func refJudge(x *pb.SnapshotRow, q *pb.Query) refVerdict {
	out := refVerdict{reasons: refReasons(x, q)}
	for _, s := range q.Scores {
		raw := refScore(x, q, s.Plugin)
		out.raw = append(out.raw, raw)
		if s.Plugin == pb.Plugin_PLUGIN_TAINT_TOLERATION || s.Plugin == pb.Plugin_PLUGIN_NODE_AFFINITY {
			out.key = append(out.key, raw)
		} else {
			out.local += s.Weight * raw
		}
	}
	return out
}

func refReasons(x *pb.SnapshotRow, q *pb.Query) []Reason {
	if q.Narrowed != nil && !slices.Contains(q.Narrowed.Names, x.Node.Name) {
		names := strings.Join(q.Narrowed.Plugins, " ")
		return []Reason{{names, "node(s) didn't satisfy plugin(s) [" + names + "]", true}}
	}
	for _, p := range q.Filters {
		if why := refFilter(x, q, p); len(why) > 0 {
			return why
		}
	}
	return nil
}

func refFilter(x *pb.SnapshotRow, q *pb.Query, p pb.Plugin) []Reason {
	n := x.Node
	switch p {
	case pb.Plugin_PLUGIN_NODE_UNSCHEDULABLE:
		cordon := &pb.Taint{Key: "node.kubernetes.io/unschedulable", Effect: pb.TaintEffect_TAINT_EFFECT_NO_SCHEDULE}
		if n.Unschedulable && !refTolerated(q.Tolerations, cordon) {
			return []Reason{{"NodeUnschedulable", "node(s) were unschedulable", true}}
		}
	case pb.Plugin_PLUGIN_NODE_NAME:
		if q.NodeName != "" && q.NodeName != n.Name {
			return []Reason{{"NodeName", "node(s) didn't match the requested node name", true}}
		}
	case pb.Plugin_PLUGIN_TAINT_TOLERATION:
		for _, t := range n.Taints {
			if t.Effect != pb.TaintEffect_TAINT_EFFECT_PREFER_NO_SCHEDULE && !refTolerated(q.Tolerations, t) {
				return []Reason{{"TaintToleration", "node(s) had untolerated taint(s)", true}}
			}
		}
	case pb.Plugin_PLUGIN_NODE_AFFINITY:
		return refAffinity(n, q.NodeAffinity)
	case pb.Plugin_PLUGIN_NODE_PORTS:
		for _, want := range q.HostPorts {
			for _, u := range x.Totals.Ports {
				have := u.Port
				if want.Protocol == have.Protocol && want.Port == have.Port &&
					(want.Ip == "0.0.0.0" || have.Ip == "0.0.0.0" || want.Ip == have.Ip) {
					return []Reason{{"NodePorts", "node(s) didn't have free ports for the requested pod ports", false}}
				}
			}
		}
	case pb.Plugin_PLUGIN_NODE_RESOURCES_FIT:
		return refFit(x, q.Fit)
	}
	return nil
}

func refTolerated(list []*pb.Toleration, t *pb.Taint) bool {
	for _, x := range list {
		effect := x.Effect == pb.TaintEffect_TAINT_EFFECT_UNSPECIFIED || x.Effect == t.Effect
		key := x.Key == "" || x.Key == t.Key
		value := x.Operator == pb.TolerationOperator_TOLERATION_OPERATOR_EXISTS || x.Value == t.Value
		if effect && key && value {
			return true
		}
	}
	return false
}

func refAffinity(n *pb.Node, a *pb.NodeAffinityQuery) []Reason {
	if a.Added != nil && !slices.ContainsFunc(a.Added.Terms, func(t *pb.SelectorTerm) bool { return refTerm(n, t) }) {
		return []Reason{{"NodeAffinity", "node(s) didn't match scheduler-enforced node affinity", true}}
	}
	ok := a.Required == nil || slices.ContainsFunc(a.Required.Terms, func(t *pb.SelectorTerm) bool { return refTerm(n, t) })
	for _, l := range a.NodeSelector {
		value, present := refLabel(n, l.Key)
		ok = ok && present && value == l.Value
	}
	if !ok {
		return []Reason{{"NodeAffinity", "node(s) didn't match Pod's node affinity/selector", true}}
	}
	return nil
}

func refLabel(n *pb.Node, key string) (string, bool) {
	for _, l := range n.Labels {
		if l.Key == key {
			return l.Value, true
		}
	}
	return "", false
}

func refTerm(n *pb.Node, t *pb.SelectorTerm) bool {
	for _, x := range t.Names {
		if (x.Operator == pb.SelectorOperator_SELECTOR_OPERATOR_IN) != (x.Name == n.Name) {
			return false
		}
	}
	for _, x := range t.Labels {
		if !refRequirement(n, x) {
			return false
		}
	}
	return true
}

func refRequirement(n *pb.Node, x *pb.LabelRequirement) bool {
	value, present := refLabel(n, x.Key)
	number, err := strconv.ParseInt(value, 10, 64)
	switch x.Operator {
	case pb.SelectorOperator_SELECTOR_OPERATOR_IN:
		return present && slices.Contains(x.Values, value)
	case pb.SelectorOperator_SELECTOR_OPERATOR_NOT_IN:
		return !present || !slices.Contains(x.Values, value)
	case pb.SelectorOperator_SELECTOR_OPERATOR_EXISTS:
		return present
	case pb.SelectorOperator_SELECTOR_OPERATOR_DOES_NOT_EXIST:
		return !present
	case pb.SelectorOperator_SELECTOR_OPERATOR_GT:
		return present && err == nil && number > x.Bound
	default:
		return present && err == nil && number < x.Bound
	}
}

// refAmount reads a resource by its Kubernetes name.
func refAmount(r *pb.Resources, name string) int64 {
	switch name {
	case "cpu":
		return r.GetMilliCpu()
	case "memory":
		return r.GetMemoryBytes()
	case "ephemeral-storage":
		return r.GetEphemeralStorageBytes()
	}
	for _, s := range r.GetScalars() {
		if s.Name == name {
			return s.Quantity
		}
	}
	return 0
}

func refFit(x *pb.SnapshotRow, f *pb.FitQuery) []Reason {
	var texts []string
	unresolvable := false
	if x.Totals.Pods+1 > x.Node.AllowedPods {
		texts = append(texts, "Too many pods")
	}
	names := []string{"cpu", "memory", "ephemeral-storage"}
	for _, s := range f.Requests.GetScalars() {
		names = append(names, s.Name)
	}
	for _, name := range names {
		want, all := refAmount(f.Requests, name), refAmount(x.Node.Allocatable, name)
		if want > 0 && !f.BestEffort && want > all-refAmount(x.Totals.Requested, name) {
			texts = append(texts, "Insufficient "+name)
			unresolvable = unresolvable || want > all
		}
	}
	var out []Reason
	for _, text := range texts {
		out = append(out, Reason{"NodeResourcesFit", text, unresolvable})
	}
	return out
}

func refScore(x *pb.SnapshotRow, q *pb.Query, p pb.Plugin) int64 {
	switch p {
	case pb.Plugin_PLUGIN_TAINT_TOLERATION:
		n := int64(0)
		for _, t := range x.Node.Taints {
			if t.Effect == pb.TaintEffect_TAINT_EFFECT_PREFER_NO_SCHEDULE && !refTolerated(q.Tolerations, t) {
				n++
			}
		}
		return n
	case pb.Plugin_PLUGIN_NODE_AFFINITY:
		n := int64(0)
		for _, t := range q.NodeAffinity.Preferred {
			if refTerm(x.Node, t.Term) {
				n += int64(t.Weight)
			}
		}
		return n
	case pb.Plugin_PLUGIN_NODE_RESOURCES_FIT:
		return refFitScore(x, q.Fit)
	case pb.Plugin_PLUGIN_NODE_RESOURCES_BALANCED_ALLOCATION:
		return 50 + (50+refBalance(x, q.Balanced, true)-refBalance(x, q.Balanced, false))/2
	default:
		return refImages(x.Node, q.Images)
	}
}

func refFitScore(x *pb.SnapshotRow, f *pb.FitQuery) int64 {
	var sum, weights int64
	ratio := f.ScoringType == pb.ScoringType_SCORING_TYPE_REQUESTED_TO_CAPACITY_RATIO
	for _, s := range f.Scored {
		all := refAmount(x.Node.Allocatable, s.Name)
		if all == 0 || s.Request == 0 && s.Name != "cpu" && s.Name != "memory" && s.Name != "ephemeral-storage" {
			continue
		}
		used := refAmount(x.Totals.Requested, s.Name)
		switch s.Name {
		case "cpu":
			used = x.Totals.NonZeroMilliCpu
		case "memory":
			used = x.Totals.NonZeroMemoryBytes
		}
		used += s.Request
		var score int64
		switch f.ScoringType {
		case pb.ScoringType_SCORING_TYPE_LEAST_ALLOCATED:
			if used <= all {
				score = (all - used) * 100 / all
			}
		case pb.ScoringType_SCORING_TYPE_MOST_ALLOCATED:
			score = min(used, all) * 100 / all
		default:
			u := int64(100)
			if used <= all {
				u = used * 100 / all
			}
			score = refLine(f.Shape, u)
		}
		if !ratio || score > 0 {
			sum, weights = sum+score*s.Weight, weights+s.Weight
		}
	}
	switch {
	case weights == 0:
		return 0
	case ratio:
		return int64(math.Round(float64(sum) / float64(weights)))
	}
	return sum / weights
}

func refLine(shape []*pb.ShapePoint, u int64) int64 {
	for i, p := range shape {
		if u > p.Utilization {
			continue
		}
		if i == 0 {
			return p.Score
		}
		b := shape[i-1]
		return b.Score + (p.Score-b.Score)*(u-b.Utilization)/(p.Utilization-b.Utilization)
	}
	return shape[len(shape)-1].Score
}

func refBalance(x *pb.SnapshotRow, b *pb.BalancedQuery, withPod bool) int64 {
	var shares []float64
	sum := 0.0
	for _, s := range b.Scored {
		all := refAmount(x.Node.Allocatable, s.Name)
		if all == 0 || s.Request == 0 && s.Name != "cpu" && s.Name != "memory" && s.Name != "ephemeral-storage" {
			continue
		}
		used := refAmount(x.Totals.Requested, s.Name)
		if withPod {
			used += s.Request
		}
		shares = append(shares, min(float64(used)/float64(all), 1))
		sum += shares[len(shares)-1]
	}
	std := 0.0
	if len(shares) == 2 {
		std = math.Abs((shares[0] - shares[1]) / 2)
	} else if len(shares) > 2 {
		squares := 0.0
		for _, f := range shares {
			squares += (f - sum/float64(len(shares))) * (f - sum/float64(len(shares)))
		}
		std = math.Sqrt(squares / float64(len(shares)))
	}
	return int64((1 - std) * 100)
}

func refImages(n *pb.Node, q *pb.ImageQuery) int64 {
	const mib = 1 << 20
	sum := int64(0)
	for _, x := range q.Images {
		if slices.Contains(n.Images, x.Name) {
			sum += x.ScaledBytes
		}
	}
	least, most := int64(23*mib), 1000*mib*q.Containers
	return 100 * (min(max(sum, least), most) - least) / (most - least)
}

// refResult gathers verdicts into a result the plain way: sort everything, cut.
func refResult(rows []*pb.SnapshotRow, q *pb.Query, o Options) *Result {
	out := &Result{ClassID: q.ClassId, Rows: len(rows), Normalised: o.Normalise}
	for range refJudge(rows[0], q).key {
		out.Extrema = append(out.Extrema, 0)
	}
	for _, x := range rows {
		v := refJudge(x, q)
		if len(v.reasons) > 0 {
			for _, why := range v.reasons {
				if o.Diagnose {
					refCount(out, why)
				}
			}
			continue
		}
		out.Feasible++
		out.raise(v.key)
		score := v.local
		if o.Normalise {
			score += refGroupScore(q, v.key, o.Extrema)
			v.key = nil
		}
		var key Key
		copy(key.Raw[:], v.key)
		i := slices.IndexFunc(out.Groups, func(g Group) bool { return g.Key.Equal(&key) })
		if i < 0 {
			i = len(out.Groups)
			out.Groups = append(out.Groups, Group{Key: key})
		}
		g := &out.Groups[i]
		g.Rows++
		g.Candidates = append(g.Candidates, Candidate{
			Row: x.Row, Score: score, LastDecision: x.Totals.LastDecision,
			NameHash: xxhash.Sum64String(x.Node.Name), Name: x.Node.Name,
		})
	}
	slices.SortFunc(out.Groups, func(a, b Group) int { return a.Key.Compare(&b.Key) })
	for i := range out.Groups {
		g := &out.Groups[i]
		slices.SortFunc(g.Candidates, func(a, b Candidate) int {
			if Before(a, b) {
				return -1
			}
			return 1
		})
		g.Candidates = g.Candidates[:min(len(g.Candidates), o.Candidates)]
	}
	if len(out.Groups) > MaxGroups {
		out.Groups, out.Overflow = nil, true
	}
	return out
}

func refCount(out *Result, why Reason) {
	c := ReasonCount{Plugin: why.Plugin, Text: why.Text, Unresolvable: why.Unresolvable}
	for i := range out.Reasons {
		c.Nodes = out.Reasons[i].Nodes
		if out.Reasons[i] == c {
			out.Reasons[i].Nodes++
			return
		}
	}
	c.Nodes = 1
	out.Reasons = append(out.Reasons, c)
	slices.SortFunc(out.Reasons, func(a, b ReasonCount) int {
		return compareReasons(a, Reason{b.Plugin, b.Text, b.Unresolvable})
	})
}

func refGroupScore(q *pb.Query, key, extrema []int64) int64 {
	total, i := int64(0), 0
	for _, s := range q.Scores {
		switch s.Plugin {
		case pb.Plugin_PLUGIN_TAINT_TOLERATION:
			v := int64(100)
			if extrema[i] > 0 {
				v = 100 - 100*key[i]/extrema[i]
			}
			total += s.Weight * v
			i++
		case pb.Plugin_PLUGIN_NODE_AFFINITY:
			v := key[i] // where the maximum is 0 upstream leaves the scores alone
			if extrema[i] > 0 {
				v = 100 * key[i] / extrema[i]
			}
			total += s.Weight * v
			i++
		}
	}
	return total
}
