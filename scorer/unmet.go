package scorer

import pb "github.com/shardsched/shardsched/proto/shardsched/v1"

// Unmet is the term of a plugin by which a group is refused, and the numbers that decide it.
type Unmet struct {
	// Reason is the one that the plugin gives.
	Reason Reason
	// Term is the number of the term: among a pod's hard constraints, its required terms, its anti-affinity by topology key, or the
	// terms of other pods by topology key.
	Term int
	// Domain is the index in Query.domain_keys, and RowValue that in Query.row_values: one of them is -1. Value is the group's domain;
	// of a row value it is not known.
	Domain, RowValue int
	Value            string
	// Missing tells that the group's rows lack the label.
	Missing bool
	// Count is the number in the group's domain; Least the smallest of all domains, Total the sum over all rows, where they are known.
	Count, Least, Total int64
	// Of a hard constraint: how many domains there are, and the names of those that hold the least, where there are at most namedDomains.
	Domains int64
	LeastIn []string
}

// groupTerms is a groupFilter that tells its terms apart.
type groupTerms interface {
	// unmet is the term behind a refusal.
	unmet(s *Standing, group, reason int) Unmet
}

// Unmet tells by which term a filter of the group part refuses a group; false: none does, or its plugin has one term. s is of r,
// settled.
func (c *Class) Unmet(r *Result, s *Standing, group int) (u Unmet, ok bool) {
	f, why := c.refusingGroup(s, group)
	if f == nil || f.group == nil || why < 0 {
		return Unmet{}, false
	}
	terms, ok := f.group.(groupTerms)
	if !ok {
		return Unmet{}, false
	}
	u = terms.unmet(s, group, why)
	u.Reason = f.group.reasons()[why]
	if u.Domain >= 0 && !u.Missing {
		u.Value = r.Groups[group].Key.Domains[u.Domain]
	}
	return u, true
}

// unmetAt is a term at a place.
func (s *Standing) unmetAt(term int, p *place, group int) Unmet {
	n, has := s.count(p, group)
	return Unmet{Term: term, Domain: p.domain, RowValue: p.value, Missing: !has, Count: n}
}

func (r *spreadFilter) unmet(s *Standing, group, _ int) Unmet {
	for i := range r.hard {
		c := &r.hard[i]
		u := s.unmetAt(i, &c.place, group)
		if u.Least = s.least[i]; u.Missing || u.Count+c.self-u.Least > c.maxSkew {
			m := s.result.Measures[c.measure]
			_, u.Domains = m.least()
			u.LeastIn = m.leastIn()
			return u
		}
	}
	return Unmet{Domain: -1, RowValue: -1}
}

// namedDomains bounds what naming domains costs for each row that is told of: hosts may be 100,000.
const namedDomains = 64

// leastIn names the domains with the smallest sum; nothing where rows are told apart by value, or there are too many.
func (m *MeasureResult) leastIn() (names []string) {
	if m.By != pb.Breakdown_BREAKDOWN_DOMAIN || len(m.Cells) > namedDomains {
		return nil
	}
	least, _ := m.least()
	for i := range m.Cells {
		if c := &m.Cells[i]; c.Rows > 0 && c.Sum == least {
			names = append(names, c.Domain)
		}
	}
	return names
}

func (r *interPodAffinityFilter) unmet(s *Standing, group, reason int) Unmet {
	list := [...][]place{affinityUnmet: r.required, antiAffinityUnmet: r.anti, existingAntiAffinityUnmet: r.existing}[reason]
	for i := range list {
		u := s.unmetAt(i, &list[i], group)
		if reason != affinityUnmet {
			if !u.Missing && u.Count > 0 {
				return u
			}
			continue
		}
		if u.Missing || u.Count <= 0 {
			u.Total = s.result.Measures[list[i].measure].total()
			return u
		}
	}
	return Unmet{Domain: -1, RowValue: -1}
}
