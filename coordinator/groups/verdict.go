package groups

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	v1 "k8s.io/api/core/v1"
	"k8s.io/api/scheduling/v1alpha2"
	"k8s.io/apimachinery/pkg/types"
)

// State is where a PodGroup is on its way.
type State uint8

// The states of a PodGroup.
const (
	// Waiting: its members are queued, and were not tried yet.
	Waiting State = iota
	// Gated: PreEnqueue holds its members back, as where fewer exist than are needed.
	Gated
	// Unschedulable: fewer members fit than are needed.
	Unschedulable
	// Preempting: enough members fit once the pods that were chosen have left.
	Preempting
	// Failed: the last attempt ended with an error.
	Failed
	// GivenUp: it waited for longer than it asked for.
	GivenUp
	// Scheduled: as many members as are needed have nodes.
	Scheduled

	// States is how many states there are.
	States = int(Scheduled) + 1
)

// String is a word for people and for metrics' labels.
func (s State) String() string {
	return [States]string{"waiting", "gated", "unschedulable", "preempting", "failed", "given_up", "scheduled"}[s]
}

// Reason is the reason of the condition PodGroupScheduled: upstream's, where an attempt has ended.
//
// Differs from upstream: there is no condition before the first attempt.
func (s State) Reason() string {
	const unschedulable = v1alpha2.PodGroupReasonUnschedulable
	return [States]string{
		"Pending", v1.PodReasonSchedulingGated, unschedulable, unschedulable, v1alpha2.PodGroupReasonSchedulerError, "GivenUp", "Scheduled",
	}[s]
}

// base is what upstream says of a PodGroup in this state, or what we say where upstream says nothing.
func (s State) base() string {
	return [States]string{
		"pod group is not tried yet", "pod group is gated", "pod group is unschedulable",
		"pod group is unschedulable, pod group is waiting for preemption to complete",
		"pod group can't be scheduled", "pod group is given up", "pod group is scheduled",
	}[s]
}

// MemberState is what became of a member in the last attempt.
type MemberState uint8

// The states of a member.
const (
	// NotTried: the attempt ended before it was its turn, or there was none.
	NotTried MemberState = iota
	// DoesNotFit: no node takes it, beside the mates before it.
	DoesNotFit
	// HeldBack: it fits, and too few of its mates do.
	HeldBack
	// Fits: it has a node.
	Fits

	// MemberStates is how many states of members there are.
	MemberStates = int(Fits) + 1
)

// String is a word for people.
func (m MemberState) String() string {
	return [MemberStates]string{"not tried", "does not fit", "held back by mates", "fits"}[m]
}

const (
	// maxLine is how long a line is at the most, in bytes: an event's note has room for 1,024.
	maxLine = 1000
	// maxBase, maxWaits, maxDomain and maxReason are how much of each text a line has. A value of a label has 63 bytes, its key 317.
	maxBase, maxWaits, maxDomain, maxReason = 400, 150, 120, 120
	// maxReasons is how many reasons a line tells.
	maxReasons = 5
)

// Verdict is what is known of a PodGroup: numbers, of which Line makes one line of text. It is not written to once it is given to a Group.
type Verdict struct {
	State State
	// How many members exist, and have nodes; how many fit, those with nodes included; and how many are needed (minCount; 0: basic).
	Exist, Need, Scheduled, Fit int
	// Held is how many of those that exist are held back by scheduling gates of their own.
	Held int
	// The domain that takes the most members, as "key=value", and how many; "": domains play no part.
	Domain     string
	DomainFits int
	// How many nodes were looked at, and how many of them each reason excludes.
	Nodes   int
	Reasons map[string]int
	// What has to happen, such as "preemption of 3 pods"; "": what the numbers say.
	Waits string
	// Upstream's sentence; "": that of the state. Where the pod group is scheduled, it is of the members that came later and wait; "": none
	// does.
	Base string
	// Since when this is so: of the first of verdicts that say the same.
	Since time.Time
	// What became of the members.
	Members map[types.UID]MemberState
}

// Follow sets since when v is so: since before was, if they say the same. It tells whether v says something else, and is to be told. The
// numbers of pods that exist and of nodes by reason are told with a change, and are none: they move with every pod and node.
func (v *Verdict) Follow(before *Verdict, now time.Time) (changed bool) {
	v.Since = now
	if v.saysMore(before) {
		return true
	}
	v.Since = before.Since
	return false
}

// saysMore tells whether v says something that before, which may be nil, does not.
func (v *Verdict) saysMore(before *Verdict) bool {
	return before == nil || v.State != before.State || v.Need != before.Need || v.Scheduled != before.Scheduled || v.Fit != before.Fit ||
		v.Domain != before.Domain || v.DomainFits != before.DomainFits || v.Waits != before.Waits || v.Base != before.Base ||
		v.Held != before.Held && v.State != Gated
}

// Line is the verdict in one line of at most 1,000 bytes. It begins with upstream's sentence:
//
//	pod group is unschedulable: 8 of 16 needed fit (14 exist); best domain rack=r7 fits 8; 512 nodes: 300 Insufficient nvidia.com/gpu,
//	212 node(s) didn't match Pod's node affinity/selector; waits for room for 8 more in rack=r7; since 2026-11-28T13:05:09Z
//
// Differs from upstream: there it is the sentence alone.
func (v *Verdict) Line() string {
	parts := []string{oneLine(cmp.Or(v.Base, v.State.base()), maxBase) + ": " + v.numbers()}
	if v.State == Scheduled {
		parts = []string{v.State.base() + ": " + v.numbers()}
		if v.Base != "" {
			parts = append(parts, "others wait: "+oneLine(v.Base, maxBase))
		}
	}
	if v.Domain != "" && !v.done() {
		parts = append(parts, fmt.Sprintf("best domain %s fits %d", oneLine(v.Domain, maxDomain), v.DomainFits))
	}
	var tail []string
	if w := v.waits(); w != "" {
		tail = append(tail, "waits for "+oneLine(w, maxWaits))
	}
	if !v.Since.IsZero() {
		tail = append(tail, "since "+v.Since.UTC().Format(time.RFC3339))
	}
	head, end := strings.Join(parts, "; "), strings.Join(tail, "; ")
	if reasons := v.reasons(); reasons != "" {
		head += "; " + oneLine(reasons, maxLine-len(head)-len(end)-len("; ; "))
	}
	if end == "" {
		return head
	}
	return head + "; " + end
}

// done tells whether nobody waits: the pod group is scheduled, and no member has found no node since.
func (v *Verdict) done() bool { return v.State == Scheduled && v.Base == "" }

// numbers tells how many members exist, are needed and fit.
func (v *Verdict) numbers() string {
	switch {
	case v.State == Gated || v.State == Waiting:
		if v.Need == 0 {
			return fmt.Sprintf("%d exist", v.Exist)
		}
		return fmt.Sprintf("%d of %d needed exist", v.Exist, v.Need)
	case v.State == Scheduled:
		return v.of(v.Scheduled, "have nodes") + fmt.Sprintf(" (%d exist)", v.Exist)
	case v.Scheduled > 0:
		return v.of(v.Fit, "fit") + fmt.Sprintf(" (%d exist, %d have nodes)", v.Exist, v.Scheduled)
	}
	return v.of(v.Fit, "fit") + fmt.Sprintf(" (%d exist)", v.Exist)
}

// of is "8 of 16 needed fit".
func (v *Verdict) of(n int, verb string) string {
	if v.Need == 0 {
		return fmt.Sprintf("%d %s", n, verb)
	}
	return fmt.Sprintf("%d of %d needed %s", n, v.Need, verb)
}

// waits tells what has to happen; "": nothing is known, or nothing has to.
func (v *Verdict) waits() string {
	switch {
	case v.done():
		return ""
	case v.Waits != "":
		return v.Waits
	case v.State == Gated && v.Exist < v.Need:
		return count(v.Need-v.Exist, "more pod")
	case (v.State == Waiting || v.State == Unschedulable) && v.Held > 0 && v.Exist-v.Held < max(v.Need, 1):
		return "the scheduling gates of " + count(v.Held, "pod")
	case v.State == Waiting:
		return "its turn"
	case v.State == Unschedulable && v.Domain != "" && v.DomainFits < v.Need:
		return fmt.Sprintf("room for %d more in %s", v.Need-v.DomainFits, v.Domain)
	case v.State == Unschedulable && v.Fit < max(v.Need, 1):
		return fmt.Sprintf("room for %d more", max(v.Need, 1)-v.Fit)
	}
	return ""
}

// reasons tells what excludes nodes, that of most nodes first.
func (v *Verdict) reasons() string {
	if len(v.Reasons) == 0 || v.done() {
		return ""
	}
	order := slices.SortedFunc(maps.Keys(v.Reasons), func(a, b string) int {
		return cmp.Or(cmp.Compare(v.Reasons[b], v.Reasons[a]), cmp.Compare(a, b))
	})
	var told []string
	for _, r := range order[:min(len(order), maxReasons)] {
		told = append(told, fmt.Sprintf("%d %s", v.Reasons[r], oneLine(r, maxReason)))
	}
	if left := len(order) - len(told); left > 0 {
		told = append(told, count(left, "more reason"))
	}
	return count(v.Nodes, "node") + ": " + strings.Join(told, ", ")
}

// StateOf is where a member stands.
func (v *Verdict) StateOf(m Member) MemberState {
	if m.Node != "" {
		return Fits
	}
	return v.Members[m.Pod.UID]
}

// Beside is what a member's condition and events say behind upstream's message: which of the three it is that waits with its pod group.
// It has no numbers, so that members are not written anew with each attempt.
//
// Differs from upstream: a member is not told so there.
func (m MemberState) Beside(message, group string) string {
	if m == Fits {
		return message
	}
	if strings.HasSuffix(message, ".") {
		return message + " Member of pod group " + group + ": " + m.String() + "."
	}
	return message + "; member of pod group " + group + ": " + m.String()
}

// count is "1 node", "2 nodes".
func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// oneLine is s without what would end a line, cut to n bytes.
func oneLine(s string, n int) string {
	s = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == '\u2028' || r == '\u2029' {
			return ' '
		}
		return r
	}, s[:min(len(s), 4*maxLine)])
	if len(s) <= n {
		return s
	}
	const more = "…"
	end := max(n-len(more), 0)
	for end > 0 && !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end] + more
}

// Standing is what is to be said of the pod group now: the verdict of the last attempt with the numbers of now; or why there is no attempt.
func (x *Group) Standing() *Verdict {
	state, last := x.state(), x.verdict
	if last != nil && last.State == state && state != Gated && state != Waiting {
		now := *last
		now.Exist, now.Held, now.Scheduled, now.Fit = x.Existing(), x.held, x.placed, max(last.Fit, x.placed)
		if state == Scheduled && now.Exist == now.Scheduled {
			now.Base = "" // those that waited are gone
		}
		return &now
	}
	v := &Verdict{State: state, Exist: x.Existing(), Held: x.held, Scheduled: x.placed, Fit: x.placed, Need: x.minCount()}
	switch {
	case last != nil && last.State == state:
		v.Since = last.Since
	case x.spec != nil:
		v.Since = x.spec.Object.CreationTimestamp.Time
	}
	switch {
	case state == Failed && x.err != nil:
		v.Base = x.err.Error()
	case state == GivenUp:
		v.Base = x.givenUp
	case state == Gated:
		switch v.Base = x.Gate(); {
		case x.spec == nil:
			v.Waits = "PodGroup " + x.name.String()
		case x.gang() && x.Need() > MaxMembers:
			v.Waits = "a PodGroup with a smaller minCount"
		}
	}
	return v
}

// state is where the pod group is now.
func (x *Group) state() State {
	switch {
	case x.placed > 0 && x.placed >= x.minCount():
		return Scheduled
	case x.err != nil:
		return Failed
	case x.givenUp != "":
		return GivenUp
	case x.Gate() != "":
		return Gated
	case x.verdict != nil && x.verdict.State != Gated && x.verdict.State != Scheduled && x.verdict.State != GivenUp:
		return x.verdict.State
	}
	return Waiting
}

// minCount is how many members of a gang are needed; 0: it is none.
func (x *Group) minCount() int {
	if x.gang() {
		return x.spec.MinCount
	}
	return 0
}
