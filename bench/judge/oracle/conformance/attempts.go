package conformance

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/shardsched/shardsched/bench/judge/oracle"
)

// held is what upstream tells a member that fits while its mates are too few.
const held = "pod group is unschedulable, waiting for minCount pods from a gang to be scheduled, one or more plugins asked to wait and " +
	"no plugin rejected pod"

// preempting is what upstream tells a member that fits while pods have to leave for a mate.
const preempting = "pod group is unschedulable, pod group is waiting for preemption to complete"

// otherFailed begins what upstream tells the mates of a member that ended in an error.
const otherFailed = "failed to schedule other pod from a pod group: "

// attemptOf are the first decisions that are of one attempt at a pod group: no pod is in it twice.
func attemptOf(decisions []Decision) []Decision {
	first, seen := decisions[0].PodGroup, map[string]bool{}
	for i, d := range decisions {
		if d.PodGroup != first || seen[d.UID] {
			return decisions[:i]
		}
		seen[d.UID] = true
	}
	return decisions
}

// attempt is one attempt of ours at a pod group, replayed.
type attempt struct {
	*replay
	round     int
	decisions []Decision
	members   []*v1.Pod
	// within is the placement that our picks are in.
	within *oracle.Placement
	trials []*oracle.Trial
	// errs says that a member has ended in an error, and failed that such an end, or one of all before any was tried, was compared.
	errs, failed bool
	// quorum says that upstream's Permit has let a member go on.
	quorum bool
	// needsRoom says that pods have to leave for a member, and victims are those that were told of.
	needsRoom bool
	victims   []string
	// helped is what PostFilter plugins have done for members, in order.
	helped []*oracle.Preemption
	// room says that pods leave for the pod group as a whole, and alone that victims were looked for member by member for that.
	room, alone bool
}

// holdGroup holds an attempt at a pod group against upstream: its members' order, each pick given the picks before it, the verdict
// that upstream's rule makes of them, and the domain. Then it follows where pods were placed.
func (r *replay) holdGroup(ctx context.Context, round int, decisions []Decision) error {
	a := &attempt{replay: r, round: round, decisions: decisions}
	for _, d := range decisions {
		pod := r.upstream.Pending(types.UID(d.UID))
		if pod == nil {
			return fmt.Errorf("pod %s is not pending", d.Pod)
		}
		a.members = append(a.members, pod)
	}
	r.result.Gangs++
	a.look()
	a.order(ctx)
	resume := r.upstream.Suspend(a.members)
	err := a.hold(ctx)
	resume()
	if err != nil || len(r.result.Differences) > 0 {
		return err
	}
	return a.help()
}

// hold holds the attempt, and follows where members are placed.
func (a *attempt) hold(ctx context.Context) error {
	if a.invalid() {
		a.failed = true
		return nil
	}
	if len(a.result.Differences) > 0 {
		return nil
	}
	placements, err := a.upstream.Placements(ctx, a.members)
	if err != nil {
		a.failed = true
		a.unplaced(ctx, err)
		return nil
	}
	if a.within = a.placement(placements); a.within == nil {
		return nil
	}
	if a.errs, err = a.anyErrs(ctx); err != nil {
		return err
	}
	if err := a.domain(ctx, placements); err != nil || len(a.result.Differences) > 0 {
		return err
	}
	if a.alone {
		a.result.GroupUncompared++
		return nil
	}
	if err := errors.Join(a.replayPicks(ctx), a.undo(ctx)); err != nil || len(a.result.Differences) > 0 {
		return err
	}
	return a.compareRoom(ctx)
}

// help follows what PostFilter plugins have done for members, as we do it: once it is known what becomes of all. After an error nobody is
// helped, and nobody is nominated any more.
func (a *attempt) help() error {
	for i := 0; i < len(a.helped) && !a.failed; i++ {
		for _, e := range a.api.freed(a.helped[i]) {
			if err := a.apply(e); err != nil {
				return err
			}
		}
		if d := a.decisions[i]; len(d.Victims) > 0 {
			a.result.Preemptions++
			a.result.Candidates += len(a.helped[i].Candidates)
			if err := a.preempts(a.upstream.Pending(types.UID(d.UID)), d); err != nil {
				return err
			}
		}
	}
	if err := a.makeRoom(); err != nil {
		return err
	}
	a.reserve()
	for i, d := range a.decisions {
		pod := a.upstream.Pending(types.UID(d.UID))
		switch {
		case pod == nil: // it is placed
		case d.Nominated == "" && (d.Held != "" || a.failed || a.room || i < len(a.helped) && a.helped[i].Clears):
			a.withdraw(pod)
		case d.Nominated != "":
			a.upstream.Nominate(pod.UID, d.Nominated)
			a.api.nominate(pod, d.Nominated)
		}
	}
	return nil
}

// anyErrs tells whether a member has ended in an error: its mates are told so. Where it has none, it is judged.
func (a *attempt) anyErrs(ctx context.Context) (bool, error) {
	if len(a.members) > 1 {
		return slices.ContainsFunc(a.decisions, func(d Decision) bool { return strings.HasPrefix(d.Message, otherFailed) }), nil
	}
	v, err := a.upstream.JudgeWithin(ctx, a.members[0], a.within)
	return err == nil && v.Err != nil && !v.Rejected(), err
}

// succeeded tells whether members were placed.
func (a *attempt) succeeded() bool {
	return slices.ContainsFunc(a.decisions, func(d Decision) bool { return d.Node != "" })
}

// differs notes a difference of the attempt.
func (a *attempt) differs(d Decision, what, got, want string) {
	c := comparison{round: a.round, decision: d}
	differs(&c, "", what, got, want)
	a.result.Differences = append(a.result.Differences, c.found...)
}

// order compares who is tried, and in which order: all members that may be, by priority and then by when they came.
func (a *attempt) order(ctx context.Context) {
	in := map[types.UID]bool{}
	for i, pod := range a.members {
		in[pod.UID] = true
		if i > 0 && priority(a.members[i-1]) < priority(pod) {
			a.differs(a.decisions[i], "order of members", name(a.members[i-1])+" first", name(pod)+" first")
		}
	}
	for pod := range a.upstream.AllPending() {
		mate := pod.Spec.SchedulingGroup != nil && pod.Namespace == a.members[0].Namespace && a.members[0].Spec.SchedulingGroup != nil &&
			*pod.Spec.SchedulingGroup.PodGroupName == *a.members[0].Spec.SchedulingGroup.PodGroupName
		if mate && !in[pod.UID] && a.tried(ctx, pod) {
			a.differs(a.decisions[0], "members that are tried", "without "+name(pod), "with it")
		}
	}
}

// tried tells whether a pod that waits may be tried.
func (r *replay) tried(ctx context.Context, pod *v1.Pod) bool {
	return pod.DeletionTimestamp == nil && r.upstream.Responsible(pod) && r.upstream.Gated(ctx, pod) == ""
}

func priority(p *v1.Pod) int32 {
	if p.Spec.Priority == nil {
		return 0
	}
	return *p.Spec.Priority
}

// all notes a difference where a member's decision says anything else.
func (a *attempt) all(what, want string) {
	for _, d := range a.decisions {
		if !strings.HasPrefix(d.Message, want) || d.Node != "" {
			a.differs(d, what, d.Message, want)
			return
		}
	}
}

// invalid tells whether upstream fails the members before it tries one, and compares what it says.
func (a *attempt) invalid() bool {
	for _, pod := range a.members[1:] {
		if first := a.members[0].Spec.SchedulerName; pod.Spec.SchedulerName != first {
			a.all("message", fmt.Sprintf("all pods in a single pod group should have the same .spec.schedulerName set, got: %q and %q",
				first, pod.Spec.SchedulerName))
			return true
		}
	}
	return false
}

// orders is how often upstream is asked for an error that goes by the order of a map.
const orders = 200

// severalDomains begins upstream's error for a pod group whose scheduled members are in several domains.
const severalDomains = "cannot determine domain for already scheduled pods: more than 1 domain found for pod group: "

// unplaced compares the error of a pod group for which upstream makes no placements. Of which scheduled members it tells goes by the order
// of a map: ours has to name two of the domains that they are in, or to be one that upstream comes to.
func (a *attempt) unplaced(ctx context.Context, err error) {
	text, want := a.decisions[0].Message, map[string]bool{}
	if pair, is := strings.CutPrefix(text, severalDomains); is {
		one, other, _ := strings.Cut(pair, ", ")
		in := a.upstream.Domains(a.members[0])
		want[text] = one != other && slices.Contains(in, one) && slices.Contains(in, other)
	}
	for i := 0; i < orders && !want[text]; i++ {
		want[err.Error()] = true
		if _, err = a.upstream.Placements(ctx, a.members); err == nil {
			a.differs(a.decisions[0], "message", text, "none: upstream makes placements")
			return
		}
	}
	for _, d := range a.decisions {
		if !want[text] || d.Message != text || d.Node != "" {
			a.differs(d, "message", d.Node+d.Message, strings.Join(slices.Sorted(maps.Keys(want)), " or "))
			return
		}
	}
}

// placement is the one that our picks are in; nil: upstream has no such, which is noted.
func (a *attempt) placement(all []*oracle.Placement) *oracle.Placement {
	g := a.upstream.PodGroup(a.members[0])
	if len(all) == 1 && all[0].Name == "" {
		return all[0]
	}
	key := g.Spec.SchedulingConstraints.Topology[0].Key
	var names []string
	for _, p := range all {
		if a.decisions[0].Domain == key+"="+p.Name {
			return p
		}
		names = append(names, key+"="+p.Name)
	}
	a.differs(a.decisions[0], "domain", a.decisions[0].Domain, strings.Join(names, " or "))
	return nil
}

// replayPicks judges each member given the picks before it, and compares. Those of an attempt that succeeded stay.
func (a *attempt) replayPicks(ctx context.Context) error {
	for i, d := range a.decisions {
		v, err := a.upstream.JudgeWithin(ctx, a.members[i], a.within)
		if err != nil {
			return err
		}
		p, err := a.upstream.Preempt(ctx, v)
		if err != nil {
			return err
		}
		if a.succeeded() {
			err = a.place(ctx, d, v, p)
		} else {
			err = a.keep(ctx, d, v, p)
		}
		if err != nil || len(a.result.Differences) > 0 {
			return err
		}
		a.helped = append(a.helped, p)
		if v.Err != nil && !v.Rejected() {
			a.failed = true
			a.erred(i)
			return nil
		}
	}
	return a.verdict()
}

// compare compares a member's decision with upstream's verdict on it.
func (a *attempt) compare(ctx context.Context, d Decision, v *oracle.Verdict, p *oracle.Preemption) error {
	c := comparison{round: a.round, decision: d, verdict: v, preemption: p, more: true}
	if v.Err == nil && v.Feasible[d.Node] != nil && a.succeeded() { // devices are told only of those who get them
		allocated, err := a.upstream.Allocations(ctx, v, d.Node)
		if err != nil {
			return err
		}
		c.allocated = allocated
	}
	c.decided()
	pod := a.members[slices.IndexFunc(a.decisions, func(x Decision) bool { return x.UID == d.UID })]
	if d.Domain == "" && len(a.trials) == 0 && pod.Status.NominatedNodeName == "" && !a.upstream.KeepsRoom(pod.UID) {
		n, err := a.own.compare(ctx, pod, &c)
		if err != nil {
			return err
		}
		a.result.NodeVerdicts += n
	}
	a.result.Decisions++
	a.result.Claims += len(c.allocated)
	if v.Err != nil {
		a.result.Refusals++
	}
	a.result.Differences = append(a.result.Differences, c.found...)
	return nil
}

// place follows a member of an attempt that succeeded.
func (a *attempt) place(ctx context.Context, d Decision, v *oracle.Verdict, p *oracle.Preemption) error {
	if err := a.compare(ctx, d, v, p); err != nil || len(a.result.Differences) > 0 || d.Node == "" {
		return err
	}
	if err := a.follow(ctx, v, a.upstream.Pending(types.UID(d.UID)), a.round, d); err != nil {
		return err
	}
	permitted, err := a.upstream.Permits(ctx, v, d.Node)
	a.quorum = a.quorum || permitted
	return err
}

// keep puts a member of an attempt that failed on the node that it would have got, until undo.
func (a *attempt) keep(ctx context.Context, d Decision, v *oracle.Verdict, p *oracle.Preemption) error {
	switch {
	case d.Held == "" && a.errs && v.Rejected():
		return nil // what it is told is of its mate's error
	case d.Held == "":
		if a.room { // it was nominated for the pod group's sake
			d.Nominated = ""
		}
		return a.compare(ctx, d, v, p)
	}
	pick := d
	if v.Unfit() {
		a.victimsOf(&pick, v, p)
	} else {
		pick.Node, pick.Message, pick.Nominated = d.Held, "", ""
	}
	if err := a.compare(ctx, pick, v, p); err != nil || len(a.result.Differences) > 0 {
		return err
	}
	t, err := a.upstream.Try(ctx, v, d.Held)
	if err != nil {
		return err
	}
	a.trials = append(a.trials, t)
	permitted, err := a.upstream.Permits(ctx, v, d.Held)
	a.quorum = a.quorum || permitted
	a.result.Held++
	return err
}

// victimsOf completes what is told of a member that is tried where pods have to leave for it. Where its pod group fits then, those that
// leave for a mate before it are told of there; else nobody leaves, and it is told what members are that fit.
func (a *attempt) victimsOf(pick *Decision, v *oracle.Verdict, p *oracle.Preemption) {
	a.needsRoom = true
	c := p.Candidates[pick.Held]
	if pick.Nominated != "" && c != nil {
		rest := slices.DeleteFunc(slices.Clone(c.Victims), func(name string) bool { return slices.Contains(a.victims, name) })
		a.victims = append(a.victims, rest...)
		if slices.Equal(rest, pick.Victims) {
			pick.Victims = c.Victims
		}
		return
	}
	pick.Nominated, pick.Message = pick.Held, v.Text(p)
	if c != nil {
		pick.Victims = c.Victims
	}
}

// undo takes the members from their nodes, the last first.
func (a *attempt) undo(ctx context.Context) (err error) {
	for _, t := range slices.Backward(a.trials) {
		err = errors.Join(err, t.Undo(ctx))
	}
	a.trials = nil
	return err
}

// erred compares what mates of a member that ended in an error are told: nobody is placed, and none after it is tried. Of several nodes'
// errors upstream tells any; that ours is one of them was compared.
func (a *attempt) erred(at int) {
	want := otherFailed + a.decisions[at].Message
	for i, d := range a.decisions {
		if i != at && (d.Message != want || d.Node != "") {
			a.differs(d, "message beside a mate's error", d.Node+d.Message, want)
		}
	}
}

// verdict compares whether the pod group goes on: so it does where upstream's Permit lets any member, and no pod has to leave first.
// Then it compares what members are told that fit.
func (a *attempt) verdict() error {
	if a.succeeded() {
		if a.result.Started++; !a.quorum || a.needsRoom {
			a.differs(a.decisions[0], "verdict", "members are placed", "nobody is")
		}
		return nil
	}
	want, nominated := held, a.quorum && a.needsRoom
	if a.room {
		want = roomGiven
	} else if nominated {
		want = preempting
		a.result.Waiting++
	} else if a.quorum {
		a.differs(a.decisions[0], "verdict", "nobody is placed", "a quorum fits")
	}
	for i, d := range a.decisions {
		unfit := a.helped[i].Message != "" || len(a.helped[i].Candidates) > 0
		if d.Held == "" || nominated && unfit { // it is told why it does not fit, which was compared
			continue
		}
		if !strings.HasPrefix(d.Message, want) || nominated && d.Nominated != d.Held {
			a.differs(d, "message of a member that is held back", d.Message+" -> "+d.Nominated, want)
		}
	}
	return nil
}
