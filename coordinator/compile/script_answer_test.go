package compile

import (
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	configv1 "k8s.io/kube-scheduler/config/v1"
	"sigs.k8s.io/yaml"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
	"github.com/shardsched/shardsched/scorer"
)

func (s *script) setProfile(input string) (string, error) {
	var args struct {
		Only         []string                                     `json:"only"`
		NodeAffinity configv1.NodeAffinityArgs                    `json:"nodeAffinity"`
		Fit          configv1.NodeResourcesFitArgs                `json:"fit"`
		Balanced     configv1.NodeResourcesBalancedAllocationArgs `json:"balanced"`
		Spread       configv1.PodTopologySpreadArgs               `json:"spread"`
		PodAffinity  configv1.InterPodAffinityArgs                `json:"interPodAffinity"`
	}
	if err := yaml.UnmarshalStrict([]byte(input), &args); err != nil {
		return "", err
	}
	c := DefaultConfig("script")
	c.NodeAffinity, c.Fit, c.Balanced, c.Spread, c.InterPodAffinity = args.NodeAffinity, args.Fit, args.Balanced, args.Spread, args.PodAffinity
	if len(args.Only) > 0 {
		others := func(p pb.Plugin) bool { return !slices.Contains(args.Only, scorer.PluginName(p)) }
		c.Filters = slices.DeleteFunc(c.Filters, others)
		c.Scores = slices.DeleteFunc(c.Scores, func(w PluginWeight) bool { return others(w.Plugin) })
	}
	p, err := newProfile(c)
	if err == nil {
		s.profile = p
	}
	return "", err
}

// evaluate answers the command pod.
func (s *script) evaluate(p *v1.Pod, query bool) (string, error) {
	s.counters.Carry(p)
	class, err := s.c.Class(p, s.profile, s)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	if class.ScoreError != nil {
		fmt.Fprintf(&b, "score error: %v\n", class.ScoreError)
	}
	if r := class.Rejected; r != nil {
		fmt.Fprintf(&b, "rejected by %s: %s%s\n", strings.Join(r.Plugins, " "), r.Message, unresolvable(r.Unresolvable))
		return b.String(), nil
	}
	if err := class.Query.Validate(); err != nil {
		return "", err
	}
	if err := s.settle(); err != nil {
		return "", err
	}
	if query {
		b.WriteString(groupsOf(class.Query))
	}
	a := s.ask(class, s.eval)
	for i := range a.nodes {
		b.WriteString(s.node(a, &a.nodes[i]))
	}
	return b.String(), s.check(a, s.eval)
}

// node writes what becomes of one node.
func (s *script) node(a *answer, n *nodeAnswer) string {
	total, ok := a.feasible(n)
	if ok {
		return s.scores(a, n, total)
	}
	var reasons []scorer.Reason
	if n.group < 0 {
		_, reasons = s.eval.Reasons(s.table, n.row, nil, a.class.Scorer)
	} else {
		_, reasons = a.class.Scorer.GroupReasons(&a.result, &a.standing, n.group)
	}
	out := n.name + ":"
	for i, r := range reasons {
		if i > 0 {
			out += ","
		}
		out += fmt.Sprintf(" %s: %s%s", r.Plugin, r.Text, unresolvable(r.Unresolvable))
	}
	return out + "\n"
}

func unresolvable(u bool) string {
	if u {
		return " (unresolvable)"
	}
	return ""
}

// scores tells what each plugin gives a node, in the profile's order. The sum is worked
// out here once more, from the normalised scores and their weights.
func (s *script) scores(a *answer, n *nodeAnswer, total int64) string {
	sum := int64(0)
	words := map[pb.Plugin]string{}
	group := a.class.Scorer.GroupScores(&a.result, &a.standing, n.group)
	shared := func(p pb.Plugin) bool {
		return slices.ContainsFunc(group, func(g scorer.GroupScore) bool { return g.Plugin == p })
	}
	for _, p := range s.eval.Scores(s.table, n.row, nil, a.class.Scorer) {
		if !shared(p.Plugin) {
			sum += p.Raw * p.Weight
			words[p.Plugin] = fmt.Sprintf(" %s=%d", p.Name(), p.Raw)
		}
	}
	for _, p := range group {
		sum += p.Normalised * p.Weight
		words[p.Plugin] = fmt.Sprintf(" %s=%d→%d", scorer.PluginName(p.Plugin), p.Raw, p.Normalised)
	}
	out := fmt.Sprintf("%s: %d", n.name, total)
	for _, w := range a.class.Query.Scores {
		out += words[w.Plugin]
	}
	if sum != total {
		out += fmt.Sprintf(" (but they sum up to %d)", sum)
	}
	return out + "\n"
}

// groupsOf writes what a query's groups are made of.
func groupsOf(q *pb.Query) string {
	var b strings.Builder
	if len(q.DomainKeys) > 0 {
		fmt.Fprintf(&b, "domains %v\n", q.DomainKeys)
	}
	for i, v := range q.RowValues {
		fmt.Fprintf(&b, "row value %d: %s %s%s", i, v.TopologyKey, sumOf(v.Counters), among(v.Inclusion))
		for word, set := range map[string]bool{" clamped": v.Clamp && !v.Forbids, " forbids": v.Forbids} {
			if set {
				b.WriteString(word)
			}
		}
		b.WriteString("\n")
	}
	for i, m := range q.Measures {
		by := strings.ToLower(strings.TrimPrefix(m.By.String(), "BREAKDOWN_"))
		fmt.Fprintf(&b, "measure %d: by %s", i, by)
		if m.TopologyKey != "" {
			fmt.Fprintf(&b, " %s", m.TopologyKey)
		}
		fmt.Fprintf(&b, " %s%s\n", sumOf(m.Counters), among(m.Inclusion))
	}
	return b.String()
}

func sumOf(list []*pb.CounterTerm) string {
	if len(list) == 0 {
		return "0"
	}
	words := make([]string, len(list))
	for i, t := range list {
		words[i] = fmt.Sprintf("#%d", t.Counter)
		if t.Weight != 1 {
			words[i] = fmt.Sprintf("%d*#%d", t.Weight, t.Counter)
		}
	}
	return strings.Join(words, "+")
}

func among(x *pb.Inclusion) string {
	out := ""
	if len(x.GetTopologyKeys()) > 0 {
		out += fmt.Sprintf(" with %v", x.TopologyKeys)
	}
	if x.GetHonourAffinity() {
		out += " matching"
	}
	if x.GetHonourTaints() {
		out += " tolerated"
	}
	return out
}
