package coordinator

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/api/scheduling/v1alpha2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/shardsched/shardsched/coordinator/answers"
	"github.com/shardsched/shardsched/coordinator/aside"
	"github.com/shardsched/shardsched/coordinator/cache"
	"github.com/shardsched/shardsched/coordinator/choice"
	"github.com/shardsched/shardsched/coordinator/groups"
	"github.com/shardsched/shardsched/coordinator/preempt"
	"github.com/shardsched/shardsched/coordinator/queue"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// member is a pod of a pod group in a try.
type member struct {
	*attempt
	decision *pb.Decision
	// end is how its attempt ends short of a node; nil: it has one, or it was not its turn.
	end *choice.Ending
	// help is what PostFilter plugins would have done for it.
	help choice.Help
	// node is the node whose row the try has given it; empty: none. preempts: it would be nominated there, and pods have to leave first.
	node     string
	preempts bool
	// holding is what it holds while held. before is the number of the decision that had chosen the row last.
	holding
	held   bool
	before uint64
	// parked: extenders have to be asked first.
	parked bool
}

// fits tells whether the try has found a row that takes the member as it is.
func (m *member) fits() bool { return m.node != "" && !m.preempts }

// gangOutcome is what a try has come to. What members hold stays held until undo, or commitGang.
type gangOutcome struct {
	s       *Scheduler
	group   *groups.Group
	members []member
	// within are the domains of the members, the last of all that are left; none: any node will do.
	within []answers.Domain
	// held are the members that hold a row, in the order in which they got it.
	held []int
	// fit counts the members that fit, and preempting those that hold a row which pods have to leave.
	fit, preempting int
	// need is how many members have to fit, beside so many that are scheduled.
	need, scheduled int
	// nodes is how many nodes the first member without a node has looked at, and reasons are how many of them each reason excludes.
	nodes   int
	reasons map[string]int
	code    gangCode
	// holds: the room that it has found stays held for it.
	holds bool
	// awaits: pods are still leaving for a member.
	awaits bool
	// room is who leaves for all members together; nil: nobody does. refused is why nobody does, if that was looked for.
	room    *preempt.GangPlan
	refused string
	// status is the PodGroup's sentence where it is not placed; empty: the usual one.
	status string
	// best is the domain that takes the most members, and bestFits how many, with those that are scheduled; zero: domains play no part.
	best     answers.Domain
	bestFits int
	// waits is what has to happen, where numbers don't tell; empty: they do.
	waits string
	// sliced: whole slices of members have to fit, so that room for one more may be room for several.
	sliced bool
	// err ends the attempts of all; failing is the member that it is of, -1: it is nobody's.
	err     error
	failing int
	// broken ends the loop. invalid: rows were made anew meanwhile, the next batch decides. aside: what has to be waited for first.
	broken  error
	invalid bool
	aside   func(attempts []attempt)
	// renewed: members have to be compiled anew at their turn, for those before them carry terms that their classes don't know.
	renewed bool
}

// gangCode is what becomes of a pod group.
type gangCode uint8

const (
	gangShort      gangCode = iota // too few members fit
	gangFits                       // enough do
	gangPreempting                 // enough do once pods have left
	gangFailed                     // an error
)

// help says whether PostFilter plugins are asked what may help members without a node.
type help uint8

const (
	unasked    help = iota
	asked           // as the gates say
	askedAlone      // each member for itself, in spite of workload-aware preemption
)

// newOutcome is an outcome before anything is tried.
func (s *Scheduler) newOutcome(g *groups.Group, attempts []attempt) *gangOutcome {
	o := &gangOutcome{s: s, group: g, members: make([]member, len(attempts)), need: needOf(g, attempts), scheduled: g.Scheduled(), failing: -1}
	for i := range attempts {
		o.members[i] = o.member(&attempts[i], i)
	}
	return o
}

// needOf is how many members have to fit: one where the profile does not have GangScheduling count.
func needOf(g *groups.Group, attempts []attempt) int {
	if p := attempts[0].Profile; p != nil && !p.PodGroups().Counts {
		return 1
	}
	return g.Need()
}

// member is the i-th member of an outcome before it is tried.
func (o *gangOutcome) member(a *attempt, i int) member {
	d := o.s.decisionOf(a)
	d.Seq += uint64(i)
	d.PodGroup = o.group.Name().String()
	return member{attempt: a, decision: d}
}

// tryGang holds rows for the members of a pod group, one after the other. Members that find none are passed over; an error ends the try.
// Each is tried within its domain: the last is that of all that are left; none: any node will do.
func (s *Scheduler) tryGang(ctx context.Context, g *groups.Group, attempts []attempt, ask help, within ...answers.Domain) *gangOutcome {
	o := s.newOutcome(g, attempts)
	o.within = within
	for i := range o.members {
		s.queue.Reserved(o.members[i].Pod) // mates whose turn comes later are not in the way of those before them, as upstream
	}
	s.aside.AllowDecision()
	defer s.aside.NoteSteps()
	if o.askExtenders(ctx) {
		return o
	}
	for i := range o.members {
		if !o.try(ctx, i, ask) {
			break
		}
	}
	o.judge()
	return o
}

// try finds a row for a member. It is false where that ends the try.
func (o *gangOutcome) try(ctx context.Context, i int, ask help) bool {
	s, m := o.s, &o.members[i]
	if !o.ready(m) {
		return false
	}
	if m.Plugins = s.outOfTree.Review(m.Pod, m.Class); m.Plugins != nil {
		defer m.Plugins.End()
	}
	c, err := o.choose(ctx, i, ask)
	switch {
	case err != nil:
		o.fails(m, err)
		return false
	case m.end == nil:
		o.hold(ctx, m, c.Row, c.Score)
	case m.preempts:
		o.holdNominated(ctx, m)
	}
	if o.renewed = o.renewed || m.last; m.held {
		o.held = append(o.held, i)
	}
	if m.end != nil && m.end.Failed != nil {
		o.err, o.failing = m.end.Failed, i
	}
	return o.err == nil
}

// fails ends a try for an error of the loop, or because not all devices are found.
func (o *gangOutcome) fails(m *member, err error) {
	if aside.IsUnfinished(err) {
		o.awaitSearches(m)
	} else {
		o.broken = err
	}
}

// ready prepares the class of a member as of now. It is false where that ends the try.
func (o *gangOutcome) ready(m *member) bool {
	s := o.s
	renew := s.renew
	if o.renewed {
		renew = s.compileAnew
	}
	if o.broken = renew(m.attempt); o.broken != nil {
		return false
	}
	if m.failed == nil && m.Class.Rejected == nil {
		m.failed = s.guard.WhyNot(m.Class)
	}
	switch {
	case s.batch.size.invalid:
		o.invalid = true
	case m.failed != nil:
	case s.state.Awaits(m.Class):
		o.aside = func(attempts []attempt) {
			s.wait(attempts)
			s.state.ForgetPostponed()
		}
	case s.aside.HasUnfinished(m.Class):
		o.awaitSearches(m)
	}
	return !o.invalid && o.aside == nil
}

func (o *gangOutcome) awaitSearches(m *member) {
	o.aside = func(attempts []attempt) { o.s.awaitSearchesFor(attempts, m.Class) }
}

// choose chooses a row for a member, or leaves in it how its attempt ends, with what may help it. An error ends the loop, unless it
// says that not all devices are found. A panic ends the member's attempt.
func (o *gangOutcome) choose(ctx context.Context, i int, ask help) (c answers.Choice, err error) {
	s, m := o.s, &o.members[i]
	o.restrict(i)
	if m.end = s.endsEarly(m.attempt, m.decision); m.end != nil && (m.failed != nil || m.decision.Nodes == 0) {
		return c, nil
	}
	defer func() {
		if m.Class == nil {
			return
		}
		if v := recover(); v != nil {
			if failed := s.guard.Confine(m.Class, v); aside.IsUnfinished(failed) {
				err = failed
			} else {
				m.end = &choice.Ending{Failed: failed}
			}
		}
	}()
	if m.end == nil {
		var reviewed bool
		c, reviewed, m.end, err = s.chooser.Choose(ctx, &m.Try)
		m.decision.Feasible = uint32(c.Feasible)
		if err == nil && m.end == nil && !reviewed {
			m.top = s.history.SpellOut(s.answers.Reader(), m.Class, &c, s.batch.begun, s.cfg.Now)
		}
		if err == nil && m.end == nil {
			s.aside.Afford(m.Class, c.Row)
		}
	}
	if err == nil && m.end != nil && m.end.Failed == nil && !m.end.Parked && ask != unasked {
		m.Ineligible, m.As = o.ineligible(ask)
		m.help, err = s.chooser.PostFilter(ctx, &m.Try, m.end.Answer)
		m.preempts = err == nil && m.help.Nominating != nil && m.help.Nominating.Node != ""
	}
	if err == nil && m.end != nil && m.end.Answer != nil && o.reasons == nil {
		o.nodes, o.reasons = int(m.decision.Nodes), m.end.Answer.Tally().ByText()
	}
	m.parked = err == nil && m.end != nil && (m.end.Parked || m.help.Parked)
	return c, err
}

// restrict gives a member its domain.
func (o *gangOutcome) restrict(i int) {
	m := &o.members[i]
	if m.Within = (answers.Domain{}); len(o.within) == 0 {
		return
	}
	m.Within = o.within[min(i, len(o.within)-1)]
	m.decision.Domain = m.Within.String()
	if i > 0 && o.members[i-1].Within == m.Within {
		m.decision.Nodes = o.members[i-1].decision.Nodes
	} else {
		m.decision.Nodes = uint32(o.s.answers.NodesWithin(m.Within))
	}
}

// hold holds a row for a member.
func (o *gangOutcome) hold(ctx context.Context, m *member, row cache.Row, score int64) {
	s := o.s
	defer s.aside.Unbounded()()
	m.Plugins.Close()
	m.before = s.state.LastDecision(row)
	m.decision.Node, m.decision.Score = s.nameOf(row), score
	s.hold(ctx, m.attempt, m.decision, row, &m.holding)
	m.held, m.node = true, m.decision.Node
	status := m.status
	if !m.refused() {
		status = o.permit()
	}
	switch {
	case status.IsSuccess(), status.IsWait():
		return
	case status.IsRejected():
		m.end = &choice.Ending{Message: oneNode(status), By: []string{status.Plugin()}}
	default:
		m.end = &choice.Ending{Failed: status.AsError()}
	}
	o.letGo(ctx, m)
	m.node, m.preempts, m.help = "", false, choice.Help{}
	m.decision.Score, m.decision.Feasible = 0, 0
}

// permit is what upstream's GangScheduling says at Permit of a pod group without a PodGroup; the rest of it is judge's.
func (o *gangOutcome) permit() *fwk.Status {
	if !o.s.cfg.Groups.Gang || o.group.Spec() != nil || !o.members[0].Profile.PodGroups().Counts {
		return nil
	}
	return fwk.AsStatus(fmt.Errorf("running Permit plugin %q: failed to get podGroup %s: %w", queue.GangScheduling, o.group.Name(),
		missing(o.group)))
}

// missing says that there is no PodGroup.
func missing(g *groups.Group) error {
	return apierrors.NewNotFound(v1alpha2.Resource("podgroup"), g.Name().Name)
}

// ineligible is why DefaultPreemption finds no victims for single members; empty: it may, and with another priority if as is set.
func (o *gangOutcome) ineligible(ask help) (why string, as *int32) {
	gates, spec := o.s.cfg.Groups, o.group.Spec()
	switch {
	case ask == askedAlone && spec != nil:
		return "", &spec.Priority
	case gates.Topology && spec == nil:
		return preempt.NoPodGroup, nil
	case gates.Topology && spec.Constrained && !(gates.Preemption && o.s.cfg.TopologyPreemption):
		return preempt.ByPlacement, nil
	case gates.Preemption:
		return preempt.ByGang, nil
	}
	return "", nil
}

// holdNominated holds the row for a member that it would be nominated to. The pods that have to leave are still there, so the row is
// more than full for those behind it, as upstream.
func (o *gangOutcome) holdNominated(ctx context.Context, m *member) {
	row, ok := o.s.state.RowOf(m.help.Nominating.Node)
	if !ok {
		m.preempts = false
		return
	}
	o.hold(ctx, m, row, 0)
}

// undo lets go of all that members hold, the last first.
func (o *gangOutcome) undo(ctx context.Context) {
	for _, i := range slices.Backward(o.held) {
		m := &o.members[i]
		o.letGo(ctx, m)
		m.decision.Held = m.node
	}
	o.held = nil
	for i := range o.members {
		o.s.queue.Unreserved(o.members[i].Pod)
		o.members[i].undone = true
	}
}

// short tells whether the try has come to its end, and too few members fit.
func (o *gangOutcome) short() bool {
	return o.code == gangShort && o.err == nil && o.broken == nil && !o.invalid && o.aside == nil && !o.parks()
}

// letGo lets go of what a member holds, as if it never had.
func (o *gangOutcome) letGo(ctx context.Context, m *member) {
	s, p := o.s, m.Pod.Obj
	if m.Plugins != nil {
		m.Plugins.Cycle.Unreserve(ctx, m.decision.Node)
	}
	if !s.intake.Undo(p, m.decision.Node, m.before) {
		s.batch.size.invalidate() // a row was made anew, of which the answers of this batch know nothing
	}
	if err := s.state.UndoDevices(m.got.Claims); err != nil {
		s.intake.Mend(m.decision.Node, err)
		s.batch.size.invalidate()
	}
	s.state.Storage().Unreserve(m.got.Volumes)
	m.decision.Node, m.held = "", false
}

// judge tells what the members that hold rows come to.
//
// Differs from upstream: a third-party Permit plugin that asks to wait is no reason against the pod group.
func (o *gangOutcome) judge() {
	for _, i := range o.held {
		if o.members[i].preempts {
			o.preempting++
		} else {
			o.fit++
		}
	}
	switch {
	case o.err != nil:
		o.code = gangFailed
	case o.fit+o.preempting < o.need:
		o.code = gangShort
	case o.preempting > 0:
		o.code = gangPreempting
	default:
		o.code = gangFits
	}
}
