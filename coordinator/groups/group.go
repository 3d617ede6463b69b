package groups

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// MaxMembers is how many members one transaction takes at the most. It bounds for how long others' pods wait. Of a pod group that has
// more of them to place so many are tried, then others; a gang that needs more at once is held back.
const MaxMembers = 8192

// Group is the state of one pod group.
type Group struct {
	name    types.NamespacedName
	gates   Gates
	spec    *Spec
	err     error
	members map[types.UID]Member
	nodes   map[string]int // of scheduled members: how many each has
	placed  int            // scheduled members
	held    int            // members without a node that scheduling gates hold back
	verdict *Verdict
	givenUp string  // why; "": it is not
	all     *Groups // nil: it is not counted
	counted bool    // share is in the tally
	share   share
	told    Told
	isNews  bool // it is among the news
}

// Member is a pod of a pod group.
type Member struct {
	Pod     *v1.Pod
	Node    string // "": it is not scheduled
	Assumed bool   // it is not bound yet
	// Leaving: it is on its way out, or is told to leave a whole pod group's node.
	Leaving bool
}

// Name is the PodGroup's, whether there is one or not.
func (x *Group) Name() types.NamespacedName { return x.name }

// Spec is what the PodGroup says; nil: there is none.
func (x *Group) Spec() *Spec { return x.spec }

// Err says which annotation of the PodGroup can not be read, and why; nil: all can.
func (x *Group) Err() error { return x.err }

// Member is a member by its UID.
func (x *Group) Member(uid types.UID) (m Member, ok bool) {
	m, ok = x.members[uid]
	return m, ok
}

// Members are all members, by name.
func (x *Group) Members() []Member {
	return slices.SortedFunc(maps.Values(x.members), func(a, b Member) int {
		return cmp.Or(cmp.Compare(a.Pod.Name, b.Pod.Name), cmp.Compare(a.Pod.UID, b.Pod.UID))
	})
}

// EachMember are all members, in no order.
func (x *Group) EachMember() iter.Seq[Member] { return maps.Values(x.members) }

// Existing counts members.
func (x *Group) Existing() int { return len(x.members) }

// Scheduled counts members that are assumed on a node or bound to one.
func (x *Group) Scheduled() int { return x.placed }

// Held counts members that scheduling gates hold back.
func (x *Group) Held() int { return x.held }

// Nodes are the nodes of scheduled members, by name.
func (x *Group) Nodes() []string { return slices.Sorted(maps.Keys(x.nodes)) }

// gang tells whether minCount counts.
func (x *Group) gang() bool { return x.gates.Gang && x.spec != nil && x.spec.Gang }

// Need is how many members have to fit for an attempt to succeed: as many as a gang lacks, and one where it lacks none.
func (x *Group) Need() int {
	if x.gang() {
		return max(1, x.spec.MinCount-x.placed)
	}
	return 1
}

// GiveUp has members held back, until Resume, a new member, or a change of the PodGroup. Gate tells why.
func (x *Group) GiveUp(why string) {
	x.givenUp = why
	x.all.count(x)
}

// Resume ends what GiveUp has begun.
func (x *Group) Resume() {
	x.givenUp = ""
	x.all.count(x)
}

// GivenUp tells whether members are held back since GiveUp.
func (x *Group) GivenUp() bool { return x.givenUp != "" }

// Gate is why members are not to be tried yet, in upstream's words; "": they are.
func (x *Group) Gate() string {
	switch {
	case x.givenUp != "":
		return x.givenUp
	case !x.gates.Gang:
		return ""
	case x.spec == nil:
		return fmt.Sprintf("waiting for pods's pod group %q to appear in scheduling queue", x.name.Name)
	case x.gang() && x.Need() > MaxMembers:
		return fmt.Sprintf("minCount is %d, at most %d pods are scheduled together", x.spec.MinCount, MaxMembers)
	case x.gang() && len(x.members) < x.spec.MinCount:
		return "waiting for minCount pods from a gang to appear in scheduling queue"
	}
	return ""
}

// Verdict is what came of the last attempt, or why there was none; nil: nothing is known yet.
func (x *Group) Verdict() *Verdict { return x.verdict }

// SetVerdict keeps what came of an attempt.
func (x *Group) SetVerdict(v *Verdict) {
	x.verdict = v
	x.all.count(x)
}

func (x *Group) put(uid types.UID, m Member) {
	was := x.members[uid]
	x.take(uid)
	x.members[uid] = m
	switch {
	case m.Node != "":
		x.goesOn(m.Node)
	case len(m.Pod.Spec.SchedulingGates) > 0:
		x.held++
	}
	if x.Whole() && !m.weighsAs(was) {
		x.all.wholes.note(x, true)
	}
}

func (x *Group) remove(uid types.UID) {
	if x.Whole() && x.members[uid].Node != "" {
		x.all.wholes.note(x, true)
	}
	x.take(uid)
}

// take takes out a member, and tells nobody.
func (x *Group) take(uid types.UID) {
	m, known := x.members[uid]
	delete(x.members, uid)
	if m.Node == "" {
		if known && len(m.Pod.Spec.SchedulingGates) > 0 {
			x.held--
		}
		return
	}
	x.goesOff(m.Node)
}

// goesOn takes in that a member has a node.
func (x *Group) goesOn(node string) {
	x.placed++
	x.nodes[node]++
	if w := &x.all.wholes; x.Whole() {
		if x.nodes[node] == 1 {
			w.on[node]++
		}
		if x.placed == 1 {
			w.groups[x] = struct{}{}
			w.priorities[x.spec.Priority]++
		}
	}
}

// goesOff takes back what goesOn took in.
func (x *Group) goesOff(node string) {
	w := &x.all.wholes
	if x.placed--; x.placed == 0 && x.Whole() {
		w.forget(x)
	}
	if x.nodes[node]--; x.nodes[node] > 0 {
		return
	}
	delete(x.nodes, node)
	if x.Whole() {
		w.off(node)
	}
}
