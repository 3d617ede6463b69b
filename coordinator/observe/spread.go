package observe

import (
	"cmp"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
	"github.com/shardsched/shardsched/scorer"
)

// maxSpreadDomains is how many domains of a constraint are told by name.
const maxSpreadDomains = 100

// tellSpread writes the pod's topology spread constraints, with what they count now.
func (x *explainer) tellSpread() {
	q, measures := x.class.Query, x.answer.Result().Measures
	for _, c := range q.GetSpread().GetHard() {
		out := &pb.SpreadConstraint{
			MaxSkew: uint32(c.GetMaxSkew()), WhenUnsatisfiable: string(v1.DoNotSchedule), MinDomains: uint32(c.GetMinDomains()),
			SelfMatch: c.GetSelfMatch(),
		}
		out.TopologyKey, _ = topologyKey(q, c.GetPlace())
		tellDomains(out, &measures[c.GetPlace().GetMeasure()])
		x.out.Spread = append(x.out.Spread, out)
	}
	for _, c := range q.GetSpread().GetSoft() {
		out := &pb.SpreadConstraint{MaxSkew: uint32(c.GetMaxSkew()), WhenUnsatisfiable: string(v1.ScheduleAnyway)}
		var byNode bool
		if out.TopologyKey, byNode = topologyKey(q, c.GetPlace()); !byNode {
			tellDomains(out, &measures[c.GetPlace().GetMeasure()])
		}
		x.out.Spread = append(x.out.Spread, out)
	}
}

// topologyKey is the label of a place; byNode: no two nodes share its values.
func topologyKey(q *pb.Query, p *pb.Place) (key string, byNode bool) {
	if in, is := p.GetIn().(*pb.Place_RowValue); is {
		return q.GetRowValues()[in.RowValue].GetTopologyKey(), true
	}
	return q.GetDomainKeys()[p.GetDomain()], false
}

// tellDomains writes the domains that a measure counts. By value, each row is a domain of its own, whose name is not known.
func tellDomains(out *pb.SpreadConstraint, m *scorer.MeasureResult) {
	var list []*pb.SpreadDomain
	for i := range m.Cells {
		c := &m.Cells[i]
		switch {
		case c.Rows <= 0:
		case m.By == pb.Breakdown_BREAKDOWN_VALUE:
			list = append(list, &pb.SpreadDomain{Pods: c.Value, Nodes: uint32(c.Rows), Domains: uint32(c.Rows)})
		default:
			list = append(list, &pb.SpreadDomain{Name: c.Domain, Pods: c.Sum, Nodes: uint32(c.Rows), Domains: 1})
		}
	}
	slices.SortFunc(list, func(a, b *pb.SpreadDomain) int {
		return cmp.Or(cmp.Compare(a.Pods, b.Pods), strings.Compare(a.Name, b.Name))
	})
	for _, d := range list {
		out.DomainsTotal += d.Domains
	}
	if len(list) > 0 {
		out.Least = list[0].Pods
	}
	for i, d := range list {
		last := len(out.Domains) - 1
		switch {
		case i < maxSpreadDomains:
			out.Domains = append(out.Domains, d)
		case i > maxSpreadDomains && out.Domains[last].Pods == d.Pods:
			out.Domains[last].Domains++
			out.Domains[last].Nodes += d.Nodes
		case len(out.Domains) < 2*maxSpreadDomains:
			d.Name = ""
			out.Domains = append(out.Domains, d)
		}
	}
}
