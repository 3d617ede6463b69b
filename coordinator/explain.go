package coordinator

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/shardsched/shardsched/coordinator/compile"
	"github.com/shardsched/shardsched/coordinator/observe"
	"github.com/shardsched/shardsched/coordinator/state"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// soughtAtOnce is at how many placed pods one step of an explanation looks for its own: each takes tens of nanoseconds.
const soughtAtOnce = 8192

// Explain judges a pod against the cluster as it is now, without the pod itself, on
// the coordinator's own tables. Where there are many nodes it takes several turns of the loop: each node is judged
// as it is by then.
func (s *Scheduler) Explain(ctx context.Context, req *pb.ExplainRequest) (*pb.ExplainResponse, error) {
	e := newExplanation(req)
	waits := func() bool { return e.waits && s.state.IsOpen() && !s.draining }
	if err := s.reads.Serve(ctx, observe.Read{Step: func() bool { return s.explain(e) }, Waits: waits}); err != nil {
		return nil, err
	}
	return e.answer()
}

// explanation is a call of Explain on its way.
type explanation struct {
	req     *pb.ExplainRequest
	out     *pb.ExplainResponse
	err     error
	search  search
	judging *observe.Judging
	waits   bool // for counters that are not filled yet
}

func newExplanation(req *pb.ExplainRequest) *explanation {
	return &explanation{req: req, judging: observe.NewJudging(req)}
}

// answer is the explanation, after the last step. It needs no loop.
func (e *explanation) answer() (*pb.ExplainResponse, error) {
	if e.out != nil {
		e.judging.Verdicts()
	}
	return e.out, e.err
}

// explain takes the next step of an explanation; true: it was the last.
func (s *Scheduler) explain(e *explanation) (last bool) {
	pod, out, last := s.find(&e.search, e.req.Namespace, e.req.Name)
	if !last {
		return false
	}
	if pod == nil {
		e.out, e.err = s.explainStranger(e.req)
		return true
	}
	e.out = out
	out.Nodes = uint32(s.state.Nodes())
	s.noteQuarantined(out, pod)
	s.history.Tell(out, pod.UID)
	prof := s.cfg.Profiles[pod.Spec.SchedulerName]
	if prof == nil {
		observe.Note(out, s.notOurs(pod))
		return true
	}
	// The pod is taken from its node for the while of the judgement, so that the node is
	// judged as it was offered.
	put, err := s.state.Without(pod)
	if err == nil {
		last, e.err = s.explainCaught(pod, prof, e)
	}
	if put != nil {
		err = errors.Join(err, put())
	}
	if err != nil {
		s.keepRoomOf(pod, out.Node, err)
		last, e.err = true, err
	}
	if e.err != nil {
		if _, told := status.FromError(e.err); !told {
			e.err = status.Errorf(codes.Internal, "explain pod %s/%s: %v", e.req.Namespace, e.req.Name, e.err)
		}
		e.out = nil
	}
	return last
}

// keepRoomOf has nobody placed on the room of a pod that an explanation could not take from its node, or put back there.
// A read does not end a term: the row is made anew, or the node is left out until there is news of the pod.
func (s *Scheduler) keepRoomOf(pod *v1.Pod, node string, why error) {
	if now, _, _ := s.state.Pod(pod.UID); now == pod {
		s.mend(node, why)
		return
	}
	on := *pod // one that is only promised to the node does not name it
	on.Spec.NodeName = node
	s.keepRoom(&on, node, why)
}

// explainCaught is explainFor that notes a panic.
func (s *Scheduler) explainCaught(pod *v1.Pod, prof *compile.Profile, e *explanation) (last bool, err error) {
	defer func() {
		if v := recover(); v != nil {
			s.answers.Recovered()
			observe.Note(e.out, s.bugs.Met(observe.WhileReading, 0, pod.UID, v).Error())
			last = true
		}
	}()
	return s.explainFor(pod, prof, e)
}

// explainFor takes a step for a pod that is on no node.
func (s *Scheduler) explainFor(pod *v1.Pod, prof *compile.Profile, e *explanation) (last bool, err error) {
	out := e.out
	bare := *pod
	bare.Spec.NodeName = ""
	endObserving := s.state.BeginObserving()
	s.observe(&bare, state.BatchTerms)
	s.observeNominated()
	endObserving()
	class, err := s.classOf(&bare, prof)
	if err != nil {
		observe.Note(out, err.Error())
		return true, nil
	}
	if err := s.state.Settle(); err != nil {
		return true, err
	}
	if e.waits = s.state.Awaits(class); e.waits {
		s.state.Open(class)
		s.state.ForgetPostponed()
		return false, nil
	}
	if class.Rejected != nil {
		observe.Note(out, class.Rejected.Message)
		return true, nil
	}
	q := observe.Question{
		Pod: pod.UID, Class: class, Node: out.Node, Nomination: s.nominationOf(pod),
		Nominees: s.nominees.Of(&bare, class).ForEngine(), Rows: s.rows,
	}
	if last, err := e.judging.Step(s.answers.Reader(), &q); !last || err != nil {
		return last, err
	}
	if others := s.notAsked(&bare); len(others) > 0 {
		observe.Note(out, "nodes and scores are those of the built-in plugins; "+
			strings.Join(others, ", ")+" have a say too and are not asked for an explanation: the decisions tell what they said")
	}
	e.judging.Report(out)
	return true, nil
}

// nominationOf is the node that a pod is nominated to, or "".
func (s *Scheduler) nominationOf(pod *v1.Pod) string {
	if pending := s.queue.Get(pod.UID); pending != nil {
		return pending.Nomination()
	}
	return pod.Status.NominatedNodeName
}

// notAsked names the out-of-tree plugins and extenders that have a say in a pod's node. They may keep count of what
// they are asked, so that an explanation asks none of them.
func (s *Scheduler) notAsked(p *v1.Pod) []string {
	var names []string
	for _, name := range s.outOfTree.Choosing(p) {
		names = append(names, "plugin "+name)
	}
	for _, e := range s.extenders.Interested(p) {
		names = append(names, "extender "+e.Label())
	}
	return names
}

// search is how far a pod on a node was looked for.
type search struct {
	uid types.UID // empty: not found yet
	// left is how many pods of the namespace are not looked at yet; 0: all, or none.
	left   int
	rounds int
}

// step looks at some pods of a namespace; true: there are no more to look at, or the pod is found. One that is placed anew
// meanwhile may be passed over, so that a search of several steps is made twice.
func (x *search) step(c *state.State, namespace, name string) (last bool) {
	if x.uid != "" {
		if pod, _, _ := c.Pod(x.uid); pod != nil {
			return true
		}
		*x = search{}
	}
	begins := x.left == 0
	if begins {
		x.left = math.MaxInt
		x.rounds++
	}
	x.uid, x.left = c.Find(namespace, name, x.left, soughtAtOnce)
	return x.uid != "" || x.left == 0 && (begins || x.rounds == 2)
}

// find looks a pod up in the queue, then on the nodes; false: there are more to look at.
func (s *Scheduler) find(x *search, namespace, name string) (found *v1.Pod, out *pb.ExplainResponse, last bool) {
	if p := s.queue.Find(namespace, name); p != nil {
		return p.Obj, s.history.Waiting(p, s.queue.Waits(p)), true
	}
	if !x.step(s.state, namespace, name) {
		return nil, nil, false
	}
	if pod, node, _ := s.state.Pod(x.uid); pod != nil {
		out := &pb.ExplainResponse{Node: node}
		if _, ok := s.binding[pod.UID]; ok {
			observe.Note(out, observe.BeingBound)
		}
		if why := s.whyLeaving[pod.UID]; why != "" {
			observe.Note(out, why)
		}
		if s.state.Node(node) == nil {
			observe.Note(out, "node "+node+" does not exist (any more)")
		}
		return pod, out, true
	}
	return nil, nil, true
}

// explainStranger tells why a pod is neither on a node that it takes room on nor in the queue.
func (s *Scheduler) explainStranger(req *pb.ExplainRequest) (*pb.ExplainResponse, error) {
	var pod *v1.Pod
	if s.cfg.PodNamed != nil {
		pod = s.cfg.PodNamed(req.Namespace, req.Name)
	}
	if pod == nil {
		return nil, status.Errorf(codes.NotFound, "pod %s/%s is not known: there is none of that name, or it has ended", req.Namespace, req.Name)
	}
	out := &pb.ExplainResponse{Node: pod.Spec.NodeName, Nodes: uint32(s.state.Nodes())}
	s.history.Tell(out, pod.UID)
	if s.cfg.Profiles[pod.Spec.SchedulerName] == nil {
		observe.Note(out, s.notOurs(pod))
	} else if s.noteQuarantined(out, pod); out.Note == "" {
		observe.Note(out, "news of it is on its way to the scheduler: ask again")
	}
	return out, nil
}

// notOurs says whose a pod is.
func (s *Scheduler) notOurs(pod *v1.Pod) string {
	ours := strings.Join(slices.Sorted(maps.Keys(s.cfg.Profiles)), ", ")
	return fmt.Sprintf("its schedulerName is %s, and this scheduler's are %s: only that one can tell why it is where it is",
		pod.Spec.SchedulerName, ours)
}
