package observe

import (
	"fmt"
	"iter"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/shardsched/shardsched/coordinator/answers"
	"github.com/shardsched/shardsched/coordinator/compile"
	"github.com/shardsched/shardsched/coordinator/groups"
	"github.com/shardsched/shardsched/coordinator/quarantine"
	"github.com/shardsched/shardsched/coordinator/queue"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
	"github.com/shardsched/shardsched/scorer"
)

// Loop is what explanations need of the scheduling loop.
type Loop interface {
	// Without has judge run while a pod is off its node. An error is why the pod could not be taken off, or put back.
	Without(p *v1.Pod, node string, judge func()) error
	// Question compiles a pod that is off its node, as it would be compiled for an attempt now. With waits its counters are not
	// filled yet. An error with a question ends the explanation; without a question it is why the pod has no class.
	Question(p *v1.Pod, prof *compile.Profile, node string) (q *Question, waits bool, err error)
	// Moving tells what is about to happen to a pod that is on a node.
	Moving(pod types.UID) (notes []string)
	// NotAsked names who has a say in a pod's node and is not asked for an explanation.
	NotAsked(p *v1.Pod) (names []string)
}

// Placed are the nodes, and the pods on them.
type Placed interface {
	Nodes() int
	Node(name string) *v1.Node
	Pod(uid types.UID) (p *v1.Pod, node string, assumed bool)
	Find(namespace, name string, left, most int) (uid types.UID, more int)
	In(namespace string) iter.Seq[*v1.Pod]
}

// Explainer explains where pods are, and why. It belongs to the loop.
type Explainer struct {
	Loop     Loop
	Placed   Placed
	Pending  *queue.Queue
	Outside  *quarantine.Objects
	Answers  *answers.Engine
	Profiles map[string]*compile.Profile
	Groups   *groups.Groups // nil: there are no pod groups
	Held     func() *HeldRoom
	History  *History
	Budgets  Budgets
	Bugs     *Bugs
	Now      func() time.Time
	// Since is when this leader began to lead, and Before names who led before; empty: nobody, as far as is known.
	Since  time.Time
	Before string
	// PodNamed finds pods that are not this scheduler's; nil: they are not known.
	PodNamed func(namespace, name string) *v1.Pod
}

// Explanation is an explanation on its way.
type Explanation struct {
	req    *pb.ExplainRequest
	out    *pb.ExplainResponse
	err    error
	search search
	waits  bool // for counters that are not filled yet
	// searches tells that devices are still searched for.
	searches bool
	judging  judging // the rows
	// workload is whose pods are asked for; nil: a pod is.
	workload *workload
}

// NewExplanation makes one that has taken no step.
func NewExplanation(req *pb.ExplainRequest) *Explanation {
	e := &Explanation{req: req, judging: judging{req: req}}
	if req.GetKind() != "" {
		e.workload = &workload{kind: req.GetKind(), namespace: req.GetNamespace(), name: req.GetName()}
	}
	return e
}

// End is called when no step follows.
func (e *Explanation) End() {
	if e.workload != nil {
		e.workload.end()
	}
}

// Answer is the explanation, after the last step. It needs no loop.
func (e *Explanation) Answer() (*pb.ExplainResponse, error) {
	if e.out != nil {
		e.judging.tellVerdicts()
		e.workload.tell(e.out)
	}
	return e.out, e.err
}

// Pod names the pod that is explained.
func (e *Explanation) Pod() types.NamespacedName {
	return types.NamespacedName{Namespace: e.req.GetNamespace(), Name: e.req.GetName()}
}

// Waits tells whether the next step waits for counters that are not filled yet.
func (e *Explanation) Waits() bool { return e.waits }

// Searches tells whether the next step goes on searching for devices, which took more steps than one may.
func (e *Explanation) Searches() bool { return e.searches }

// Step takes the next step of an explanation; true: it was the last.
func (x *Explainer) Step(e *Explanation) (last bool) {
	if w := e.workload; w != nil && w.worst == "" {
		if !w.step(x) {
			return false
		}
		if w.worst == "" {
			e.err = status.Errorf(codes.NotFound, "no pod of %s %s/%s is known", w.kind, w.namespace, w.name)
			return true
		}
		e.req = proto.CloneOf(e.req)
		e.req.Kind, e.req.Name = "", w.worst
		e.judging.req = e.req
		return false
	}
	pod, out, last := x.find(&e.search, e.req.Namespace, e.req.Name)
	if !last {
		return false
	}
	if pod == nil {
		e.out, e.err = x.explainStranger(e.req)
		return true
	}
	e.out = out
	x.noteQuarantined(out, pod)
	x.History.Tell(out, pod.UID)
	x.tellArrival(out, pod)
	x.noteRemade(out, pod)
	x.tellBudgets(out, pod)
	if g := x.Groups.Of(pod); g != nil {
		stands := g.Standing()
		out.PodGroup = podGroupStatus(g, stands)
		if m, ok := g.Member(pod.UID); ok {
			out.MemberState = stands.StateOf(m).String()
		}
	}
	if p := x.Pending.Get(pod.UID); p != nil {
		if held := x.Held().note(p); held != "" {
			Note(out, held)
		}
	}
	prof := x.Profiles[pod.Spec.SchedulerName]
	if prof == nil {
		Note(out, notOurs(pod, x.Profiles))
		return true
	}
	out.Nodes = uint32(x.Placed.Nodes())
	// The pod is taken from its node for the while of the judgement, so that the node is
	// judged as it was offered.
	if err := x.Loop.Without(pod, out.Node, func() { last, e.err = x.explainCaught(pod, prof, e) }); err != nil {
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

// explainCaught is explainFor that notes a panic. Where devices are still to be searched for it goes on in the next step.
func (x *Explainer) explainCaught(pod *v1.Pod, prof *compile.Profile, e *Explanation) (last bool, err error) {
	defer func() {
		v := recover()
		if v != nil {
			x.Answers.Recovered()
		}
		if e.searches = v == scorer.ErrUnfinished; v != nil && !e.searches {
			Note(e.out, x.Bugs.Met(WhileReading, 0, pod.UID, v).Error())
			last = true
		}
	}()
	return x.explainFor(pod, prof, e)
}

// explainFor takes a step for a pod that is on no node.
func (x *Explainer) explainFor(pod *v1.Pod, prof *compile.Profile, e *Explanation) (last bool, err error) {
	out := e.out
	bare := *pod
	bare.Spec.NodeName = ""
	q, waits, err := x.Loop.Question(&bare, prof, out.Node)
	switch e.waits = waits; {
	case q == nil:
		Note(out, err.Error())
		out.Nodes = 0 // none is judged
		return true, nil
	case err != nil:
		return true, err
	case waits:
		return false, nil
	case q.Class.Rejected != nil:
		if out.Note != q.Class.Rejected.Message { // a gate may have said so
			Note(out, q.Class.Rejected.Message)
		}
		if q.Next != "" {
			Note(out, q.Next)
		}
		out.Causes = rejectedCauses(q, out.Nodes)
		return true, nil
	}
	if last, err := e.judging.step(x.Answers.Reader(), q); !last || err != nil {
		return last, err
	}
	out.NotAsked = x.Loop.NotAsked(&bare)
	e.judging.finish(out)
	if p := x.Pending.Get(pod.UID); p != nil && p.Gated != "" {
		out.Causes = append(gatedCauses(p, q), out.Causes...)
	}
	return true, nil
}

// find looks a pod up in the queue, then on the nodes; false: there are more to look at.
func (x *Explainer) find(at *search, namespace, name string) (found *v1.Pod, out *pb.ExplainResponse, last bool) {
	if p := x.Pending.Find(namespace, name); p != nil {
		return p.Obj, x.History.Waiting(p, x.Pending.Waits(p)), true
	}
	if !at.step(x.Placed, namespace, name) {
		return nil, nil, false
	}
	if pod, node, _ := x.Placed.Pod(at.uid); pod != nil {
		out := &pb.ExplainResponse{Node: node}
		for _, note := range x.Loop.Moving(pod.UID) {
			Note(out, note)
		}
		if x.Placed.Node(node) == nil {
			Note(out, "node "+node+" does not exist (any more)")
		}
		return pod, out, true
	}
	return nil, nil, true
}

// explainStranger tells why a pod is neither on a node that it takes room on nor in the queue.
func (x *Explainer) explainStranger(req *pb.ExplainRequest) (*pb.ExplainResponse, error) {
	var pod *v1.Pod
	if x.PodNamed != nil {
		pod = x.PodNamed(req.Namespace, req.Name)
	}
	if pod == nil {
		name := types.NamespacedName{Namespace: req.Namespace, Name: req.Name}
		if gone := x.History.tellGone(name, x.Now(), x.Since); gone != nil {
			return gone, nil
		}
		return nil, status.Errorf(codes.NotFound, "pod %s/%s is not known: there is none of that name, or it has ended", req.Namespace, req.Name)
	}
	out := LeftAlone(pod, x.Profiles)
	x.History.Tell(out, pod.UID)
	x.tellArrival(out, pod)
	if notes := x.Outside.Notes(pod); x.Profiles[pod.Spec.SchedulerName] != nil && len(notes) > 0 {
		out.Note = strings.Join(notes, "; ")
	}
	return out, nil
}

// LeftAlone tells why a pod that exists is neither in the queue nor on a node that it takes room on.
func LeftAlone(pod *v1.Pod, profiles map[string]*compile.Profile) *pb.ExplainResponse {
	out := &pb.ExplainResponse{Node: pod.Spec.NodeName}
	switch {
	case pod.Status.Phase == v1.PodSucceeded || pod.Status.Phase == v1.PodFailed:
		Note(out, fmt.Sprintf("it has ended (%s), and takes no room", pod.Status.Phase))
	case profiles[pod.Spec.SchedulerName] == nil:
		Note(out, notOurs(pod, profiles))
	default:
		Note(out, "news of it is on its way to the scheduler: ask again")
	}
	return out
}

// noteQuarantined adds to an explanation which objects it could not look at.
func (x *Explainer) noteQuarantined(out *pb.ExplainResponse, p *v1.Pod) {
	for _, note := range x.Outside.Notes(p) {
		Note(out, note)
	}
}
