package scorer

import (
	"cmp"
	"strings"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// Reason is why a row is refused, as upstream's status says it.
type Reason struct {
	// Plugin is its name; of PreFilters that narrowed, all names joined by spaces.
	Plugin string
	Text   string
	// Unresolvable tells that no preemption can help.
	Unresolvable bool
}

// ReasonCount is how many nodes were refused for one reason. A node that
// NodeResourcesFit refuses for several resources counts once for each.
type ReasonCount struct {
	Plugin, Text string
	Nodes        int
	Unresolvable bool
}

// oneReason is the part of a rule that has one thing to say.
type oneReason struct{ why [1]Reason }

func newReason(p pb.Plugin, text string, unresolvable bool) oneReason {
	return oneReason{[1]Reason{{PluginName(p), text, unresolvable}}}
}

func (o *oneReason) reasons() []Reason                 { return o.why[:] }
func (o *oneReason) refusals(_ view, into []int) []int { return append(into, 0) }

// compareReasons orders counts by plugin, text, and the resolvable first.
func compareReasons(c ReasonCount, r Reason) int {
	return cmp.Or(
		strings.Compare(c.Plugin, r.Plugin),
		strings.Compare(c.Text, r.Text),
		asInt(c.Unresolvable)-asInt(r.Unresolvable))
}
