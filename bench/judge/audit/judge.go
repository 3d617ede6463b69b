package audit

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Judge replays a history and holds its end against what was acknowledged: pods as
// namespace/name. It returns every fault, those of the way before those of the end.
func Judge(h *History, acknowledged []string) ([]Fault, *State) {
	s := NewState()
	for _, c := range h.Changes {
		s.Apply(c)
	}
	faults := slices.Concat(s.faults, s.Unsettled(acknowledged), s.ends(acknowledged))
	return faults, s
}

// ends judges the last state, beside what Unsettled says.
func (s *State) ends(acknowledged []string) []Fault {
	var out []Fault
	for _, name := range slices.Sorted(maps.Keys(s.nodes)) {
		n := s.nodes[name]
		for _, w := range n.over(n.used) {
			out = append(out, Fault{Subject: "node " + name, Problem: "at the end, " + w})
		}
	}
	for _, name := range slices.Sorted(slices.Values(acknowledged)) {
		p := s.pods[name]
		if p != nil && p.node() != "" && p.binds != 1 {
			out = append(out, Fault{Subject: "pod " + name, Problem: fmt.Sprintf("its node was written %d times", p.binds)})
		}
	}
	return out
}

// Account sums up a state in a line.
func (s *State) Account() string {
	reasons := map[string]int{}
	for _, p := range s.pods {
		if p.node() == "" {
			reasons[s.entries[string(p.object.UID)].GetMessage()]++
		}
	}
	pending := 0
	var lines []string
	for _, reason := range slices.SortedFunc(maps.Keys(reasons), func(a, b string) int { return reasons[b] - reasons[a] }) {
		pending += reasons[reason]
		if len(lines) < 5 {
			lines = append(lines, fmt.Sprintf("\n  %d: %s", reasons[reason], reason))
		}
	}
	return fmt.Sprintf("%d nodes, %d pods: %d bound, %d pending, %d queue entries%s",
		len(s.nodes), len(s.pods), s.Bound(), pending, len(s.entries), strings.Join(lines, ""))
}
