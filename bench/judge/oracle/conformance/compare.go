package conformance

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	resourcev1 "k8s.io/api/resource/v1"

	"github.com/shardsched/shardsched/bench/judge/oracle"
)

// comparison is one decision of ours beside upstream's verdict.
type comparison struct {
	round    int
	decision Decision
	verdict  *oracle.Verdict
	// allocated are the claims that upstream gives devices to on the chosen node.
	allocated []*resourcev1.ResourceClaim
	// preemption is what upstream's PostFilter does; with no candidates where it is not run.
	preemption *oracle.Preemption
	// more says that our message may go on where upstream's ends.
	more  bool
	found []*Difference
}

// differs notes a difference where got and want are not the same.
func differs[T comparable](c *comparison, node, what string, got, want T) {
	if got != want {
		c.found = append(c.found, &Difference{
			Round: c.round, Decision: c.decision, Node: node, What: what,
			Got: fmt.Sprint(got), Want: fmt.Sprint(want),
		})
	}
}

// decided compares what the decision log tells.
func (c *comparison) decided() {
	d, v := &c.decision, c.verdict
	differs(c, "", "number of nodes", d.Nodes, v.Nodes)
	differs(c, "", more("feasible nodes", d.Feasible, len(v.Feasible)), d.Feasible, len(v.Feasible))
	if v.Err != nil {
		differs(c, "", "chosen node", d.Node, "")
		c.message()
		c.postFilter()
		return
	}
	chosen := v.Feasible[d.Node]
	if chosen == nil {
		c.found = append(c.found, &Difference{
			Round: c.round, Decision: *d, Node: d.Node, What: "chosen node",
			Got: fmt.Sprintf("%q %s", d.Node, d.Message), Want: "one of " + strings.Join(slices.Sorted(maps.Keys(v.Feasible)), " "),
		})
		return
	}
	differs(c, d.Node, "devices", spellDecided(d.Claims), spellAllocated(c.allocated))
	best, scored := v.Best()
	if !scored {
		return
	}
	differs(c, d.Node, "score", d.Score, chosen.Total)
	if chosen.Total == best {
		return
	}
	for _, node := range slices.Sorted(maps.Keys(v.Feasible)) {
		if v.Feasible[node].Total == best {
			differs(c, d.Node, "best score", scores(d.Node, chosen), scores(node, v.Feasible[node]))
			return
		}
	}
}

// message compares why no node is chosen. Where several nodes have an error that ends the cycle, each of them may.
func (c *comparison) message() {
	want := c.verdict.Text(c.preemption)
	for _, text := range c.verdict.Fatal {
		if text == c.decision.Message {
			want = text
		}
	}
	if c.more && strings.HasPrefix(c.decision.Message, want) {
		return
	}
	differs(c, "", "message", c.decision.Message, want)
}

// spellDecided spells what a decision tells of claims.
func spellDecided(claims []DecidedClaim) string {
	var out []string
	for _, c := range claims {
		out = append(out, fmt.Sprintf("%s %v", c.Claim, c.Devices))
	}
	return strings.Join(out, ", ")
}

// spellAllocated spells claims with what they were allocated as spellDecided does.
func spellAllocated(claims []*resourcev1.ResourceClaim) string {
	var out []string
	for _, c := range claims {
		name, devices := c.Namespace+"/"+c.Name, []string{}
		if c.Name == oracle.SpecialClaim {
			name = ""
		}
		for _, r := range c.Status.Allocation.Devices.Results {
			devices = append(devices, r.Request+"/"+deviceOf(&r))
		}
		out = append(out, fmt.Sprintf("%s %v", name, devices))
	}
	return strings.Join(out, ", ")
}

// more says of a number whether it is too large or too small, so that a scenario that is made
// simpler goes on to show the same.
func more(of string, got, want int) string {
	if got > want {
		return "too many " + of
	}
	return "too few " + of
}

// scores spells a node's score with what it is made of.
func scores(node string, s *oracle.Scored) string {
	var out strings.Builder
	fmt.Fprintf(&out, "%d on %s:", s.Total, node)
	for _, p := range s.Plugins {
		fmt.Fprintf(&out, " %s %d (raw %d)", p.Plugin, p.Weighted, p.Raw)
	}
	return out.String()
}
