package answers

import (
	"fmt"
	"maps"
	"math/bits"
	"slices"
	"strconv"
	"strings"

	"github.com/shardsched/shardsched/coordinator/cache"
	"github.com/shardsched/shardsched/scorer"
)

// Reason is why a row is refused.
type Reason struct {
	Plugin, Text string
	Unresolvable bool // it stays whichever pods leave
}

// Reasons counts rows by the reason why they are refused.
type Reasons map[Reason]int

// Add counts the reasons of one row, n times; below 0 it takes them.
func (x Reasons) Add(list []scorer.Reason, n int) {
	for _, r := range list {
		why := Reason{r.Plugin, r.Text, r.Unresolvable}
		if x[why] += n; x[why] == 0 {
			delete(x, why)
		}
	}
}

// ByText counts the rows by what they are refused with.
func (x Reasons) ByText() map[string]int {
	out := map[string]int{}
	for r, n := range x {
		if n > 0 {
			out[r.Text] += n
		}
	}
	return out
}

// countReasons adds the reasons of one row, or subtracts them.
func (a *Answer) countReasons(list []scorer.Reason, by int) {
	a.reasons.Add(list, by)
	if slices.ContainsFunc(list, func(r scorer.Reason) bool { return r.Unresolvable }) {
		a.unresolvable += by
	}
}

// Resolvable is how many of so many nodes might take a pod of the class if other pods left. The answer has to be diagnosed.
func (a *Answer) Resolvable(nodes int) int {
	a.settle()
	n := nodes - a.unresolvable
	for i := range a.standing.Groups {
		if rows := a.result.Groups[i].Rows; rows > 0 {
			_, why := a.class.GroupReasons(a.result, &a.standing, i)
			if a.standing.Groups[i].Feasible || slices.ContainsFunc(why, func(r scorer.Reason) bool { return r.Unresolvable }) {
				n -= rows
			}
		}
	}
	return n
}

// WhyRefused is why the built-in plugins refuse a row; nil: they do not. The answer has to be diagnosed.
func (a *Answer) WhyRefused(row cache.Row) []scorer.Reason {
	r := &a.repaired[a.at(row)]
	switch {
	case r.vetoed:
		return r.vetoReasons
	case r.group < 0:
		return r.reasons
	}
	a.settle()
	if a.standing.Groups[r.group].Feasible {
		return nil
	}
	_, why := a.class.GroupReasons(a.result, &a.standing, r.group)
	return why
}

// UnavailableClaims are the pod's allocated claims, by index, that some node does not have which no filter before
// DynamicResources refuses.
func (a *Answer) UnavailableClaims() (claims []int) {
	a.settle()
	set := uint64(0)
	for i := range a.result.Groups {
		if a.result.Groups[i].Rows > 0 {
			set |= a.class.UnavailableClaims(a.result, &a.standing, i)
		}
	}
	for _, at := range a.vetoes {
		if r := &a.repaired[at]; r.vetoed {
			set |= r.vetoClaims
		}
	}
	for ; set != 0; set &= set - 1 {
		claims = append(claims, bits.TrailingZeros64(set))
	}
	return claims
}

// Message words the refusal of so many nodes as upstream's FitError does, and names the plugins that refused. The reasons of
// more, which may be nil, are counted too.
func (a *Answer) Message(nodes int, more Reasons) (string, []string) {
	all := a.Tally()
	for r, n := range more {
		all[r] += n
	}
	return all.Message(nodes)
}

// Tally counts the rows by the reasons why they are refused. The answer is diagnosed.
func (a *Answer) Tally() Reasons {
	a.settle()
	all := Reasons{}
	maps.Copy(all, a.reasons)
	for i := range a.standing.Groups {
		if a.standing.Groups[i].Feasible || a.result.Groups[i].Rows <= 0 {
			continue
		}
		_, reasons := a.class.GroupReasons(a.result, &a.standing, i)
		all.Add(reasons, a.result.Groups[i].Rows)
	}
	return all
}

// Message words the reasons as upstream's FitError does, and names the plugins.
func (x Reasons) Message(nodes int) (string, []string) {
	counts, plugins := map[string]int{}, map[string]struct{}{}
	for r, n := range x {
		if n <= 0 {
			continue
		}
		counts[r.Text] += n
		for _, name := range strings.Fields(r.Plugin) { // PreFilters that narrow the nodes together share a reason
			plugins[name] = struct{}{}
		}
	}
	return FitError(nodes, counts), slices.Sorted(maps.Keys(plugins))
}

const (
	// maxReasonBytes bounds a reason in a message: extenders and out-of-tree plugins word theirs as they like.
	maxReasonBytes = 1 << 10
	// maxFitErrorBytes bounds the reasons of a message, which is kept with each decision: the others are counted.
	maxFitErrorBytes = 16 << 10
)

// FitError is upstream's message where none of so many nodes takes a pod. counts are the nodes by reason. They are sorted as
// strings: "10 x" comes before "2 y".
//
// Differs from upstream: reasons, and all of them together, are bounded.
func FitError(nodes int, counts map[string]int) string {
	var parts []string
	for text, n := range counts {
		if n > 0 {
			parts = append(parts, strconv.Itoa(n)+" "+text)
		}
	}
	message := "0/" + strconv.Itoa(nodes) + " nodes are available:"
	if len(parts) == 0 {
		return message
	}
	slices.Sort(parts)
	size := 0
	for i, part := range parts {
		if len(part) > maxReasonBytes {
			parts[i] = strings.ToValidUTF8(part[:maxReasonBytes], "") + "…"
		}
		if size += len(parts[i]); size > maxFitErrorBytes {
			parts = append(parts[:i], fmt.Sprintf("… and %d reasons more", len(parts)-i))
			break
		}
	}
	return message + " " + strings.Join(parts, ", ") + "."
}
