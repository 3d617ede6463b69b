package coordinator

import (
	"context"
	"errors"
	"iter"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/shardsched/shardsched/coordinator/compile"
	"github.com/shardsched/shardsched/coordinator/devices"
	"github.com/shardsched/shardsched/coordinator/extender"
	"github.com/shardsched/shardsched/coordinator/observe"
	"github.com/shardsched/shardsched/coordinator/queue"
	"github.com/shardsched/shardsched/coordinator/rules"
	"github.com/shardsched/shardsched/coordinator/state"
	"github.com/shardsched/shardsched/coordinator/volumes"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// Explain judges a pod against the cluster as it is now, without the pod itself, on
// the coordinator's own tables. Where there are many nodes it takes several turns of the loop: each node is judged
// as it is by then.
func (s *Scheduler) Explain(ctx context.Context, req *pb.ExplainRequest) (*pb.ExplainResponse, error) {
	e, x := observe.NewExplanation(req), s.explainer()
	waits := func() bool { return s.explanationWaits(e) }
	step := func() bool {
		s.aside.BeginSearching()
		defer s.aside.EndSearching(s.cfg.Now())
		return x.Step(e)
	}
	if err := s.reads.Serve(ctx, observe.Read{Step: step, Waits: waits, End: e.End}); err != nil {
		return nil, err
	}
	out, err := e.Answer()
	if out.GetArrival() != nil && out.Arrival.Time == nil && s.cfg.ReadPod != nil {
		s.readArrival(ctx, out, e.Pod())
	}
	if status.Code(err) != codes.NotFound || s.cfg.PodKept == nil || req.GetKind() != "" {
		return out, err
	}
	switch pod, broken := s.cfg.PodKept(ctx, req.GetNamespace(), req.GetName()); {
	case broken != nil:
		return nil, broken
	case pod != nil:
		return observe.LeftAlone(pod, s.cfg.Profiles), nil
	}
	return nil, err
}

// explanationWaits tells that the next step of an explanation would come to nothing yet.
func (s *Scheduler) explanationWaits(e *observe.Explanation) bool {
	return !s.draining && (e.Waits() && s.state.IsOpen() || e.Searches() && s.aside.SearchingRests() > 0)
}

// arrivalPatience bounds how long an explanation waits for the API server to tell how a pod came to its node, and arrivalsAtOnce how many
// explanations ask it at once: the others do without.
const (
	arrivalPatience = 2 * time.Second
	arrivalsAtOnce  = 8
)

// readArrival asks the API server when a pod was put on its node: the leader's copy does not tell. An explanation does without where
// the API server does not answer, or is asked by many.
func (s *Scheduler) readArrival(ctx context.Context, out *pb.ExplainResponse, pod types.NamespacedName) {
	select {
	case s.arrivals <- struct{}{}:
		defer func() { <-s.arrivals }()
	default:
		return
	}
	ctx, cancel := context.WithTimeout(ctx, arrivalPatience)
	defer cancel()
	p, err := s.cfg.ReadPod(ctx, pod.Namespace, pod.Name)
	if err == nil && p.Spec.NodeName == out.Node {
		observe.TellArrival(out.Arrival, p)
	}
}

// ExplainNode tells what a node has left.
func (s *Scheduler) ExplainNode(ctx context.Context, req *pb.ExplainNodeRequest) (*pb.ExplainNodeResponse, error) {
	x := observe.NewNodeExplanation(req.GetName(), s.forWords(), s.state.RowOf)
	if err := s.reads.Serve(ctx, x.Read()); err != nil {
		return nil, err
	}
	return x.Answer()
}

func (s *Scheduler) explainer() *observe.Explainer {
	return &observe.Explainer{
		Loop: forExplanations{s}, Placed: s.state, Pending: s.queue, Outside: s.intake.Outside(), Answers: s.answers,
		Profiles: s.cfg.Profiles, Groups: s.groups, Held: s.reserved, History: s.history, Budgets: s.state.Budgets(), Bugs: s.bugs,
		PodNamed: s.cfg.PodNamed, Now: s.cfg.Now, Since: s.since, Before: s.cfg.Before,
	}
}

// forExplanations is the loop as explanations know it.
type forExplanations struct{ *Scheduler }

var _ observe.Loop = forExplanations{}

// Without is part of observe.Loop. A read does not end a term: where the pod can't be put back, its row is made anew, or the node
// is left out until there is news of the pod.
func (l forExplanations) Without(pod *v1.Pod, node string, judge func()) error {
	put, err := l.state.Without(pod)
	if err == nil {
		judge()
	}
	if put != nil {
		err = errors.Join(err, put())
	}
	if err == nil {
		return nil
	}
	if now, _, _ := l.state.Pod(pod.UID); now == pod {
		l.intake.Mend(node, err)
		return err
	}
	on := *pod // an assumed pod does not name its node
	on.Spec.NodeName = node
	l.intake.KeepRoom(&on, node, err)
	return err
}

// Question is part of observe.Loop.
func (l forExplanations) Question(p *v1.Pod, prof *compile.Profile, node string) (q *observe.Question, waits bool, err error) {
	endTerms := l.state.BeginTerms()
	l.guard.RegisterTerms(p, state.BatchTerms)
	l.registerNominated()
	endTerms()
	class, err := l.guard.ClassOf(p, prof)
	if err != nil {
		return nil, false, err
	}
	q = &observe.Question{
		Pod: p.UID, Bare: p, Profile: prof, Class: class, Cluster: l.forWords(), Node: node, Nomination: p.Status.NominatedNodeName,
		Rows: l.intake.Rows(),
	}
	if claims := l.state.Claims(); claims != nil {
		q.Claims, q.Allocated, q.User = claims.ClaimNames(p), claims.AllocatedNames(p), l.user
		_, _, q.Next = claims.Refusal(p)
	}
	if err := l.state.Settle(); err != nil {
		return q, false, err
	}
	if l.state.Awaits(class) {
		l.state.Open(class)
		l.state.ForgetPostponed()
		return q, true, nil
	}
	if pending := l.queue.Get(p.UID); pending != nil {
		q.Nomination = pending.Nomination()
	}
	if class.Rejected == nil {
		q.Nominees = l.nominees.Of(p, class, l.backfills(&queue.Pod{Obj: p})).ForEngine()
	}
	return q, false, nil
}

// forWords is the cluster as words about pods see it.
func (s *Scheduler) forWords() rules.Cluster { return words{s.state.Storage(), s} }

// words is the cluster as words about pods see it.
type words struct {
	*volumes.Cache
	s *Scheduler
}

func (w words) Node(name string) *v1.Node             { return w.s.state.Node(name) }
func (w words) PodsOn(node string) iter.Seq[*v1.Pod]  { return w.s.state.PodsOn(node) }
func (w words) In(namespace string) iter.Seq[*v1.Pod] { return w.s.state.In(namespace) }

// Refusers is part of rules.Cluster.
func (w words) Refusers(p *v1.Pod, by []string) (names []string) {
	for _, name := range by {
		if name != extender.Rejector {
			names = append(names, "plugin "+name)
			continue
		}
		for _, e := range w.s.extenders.Interested(p) {
			names = append(names, "extender "+e.Label())
		}
	}
	return names
}

// ClaimProblem is part of rules.Cluster.
func (w words) ClaimProblem(p *v1.Pod) (text, cause, next string) {
	if claims := w.s.state.Claims(); claims != nil {
		return claims.Refusal(p)
	}
	return "", "", ""
}

// user words who has a device.
func (l forExplanations) user(driver, pool, device string) string {
	return l.state.Claims().Users(devices.Device{Driver: driver, Pool: pool, Name: device})
}

// Moving is part of observe.Loop.
func (l forExplanations) Moving(pod types.UID) (notes []string) {
	if _, ok := l.binds.pending[pod]; ok {
		notes = append(notes, observe.BeingBound)
	}
	if why := l.preemptions.whyLeaving[pod]; why != "" {
		notes = append(notes, why)
	}
	return notes
}

// NotAsked is part of observe.Loop: out-of-tree plugins and extenders may keep count of what they are asked, so that an
// explanation asks none of them.
func (l forExplanations) NotAsked(p *v1.Pod) (names []string) {
	for _, name := range l.outOfTree.Choosing(p) {
		names = append(names, "plugin "+name)
	}
	for _, e := range l.extenders.Interested(p) {
		names = append(names, "extender "+e.Label())
	}
	return names
}
