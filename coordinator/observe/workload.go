package observe

import (
	"cmp"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/shardsched/shardsched/coordinator/queue"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// workload looks for the pod of a workload that is worst off: of those that wait the oldest that was tried, of placed pods the one with
// the lowest score that is remembered.
type workload struct {
	kind, namespace, name string

	// worst is the name of the pod, once all are looked at; "": there is none.
	worst         string
	pods, waiting uint32
	best          candidate // so far
	pending       walk[*queue.Pod]
	placed        walk[*v1.Pod]
	counted       bool // all pending pods are looked at
	// members are the pods, as many as are told.
	members []*pb.WorkloadPod
}

// maxMembers is how many pods of a workload are told.
const maxMembers = 2000

// candidate is a pod as workload compares it: the first is the worst.
type candidate struct {
	name    string // "": none
	placed  bool
	untried bool
	since   time.Time
	score   int64
}

func (c candidate) before(o candidate) bool {
	if c.name == "" || o.name == "" {
		return o.name == ""
	}
	return cmp.Or(compareBools(c.placed, o.placed), compareBools(c.untried, o.untried), c.since.Compare(o.since),
		cmp.Compare(c.score, o.score), strings.Compare(c.name, o.name)) < 0
}

func compareBools(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

// step looks at some pods; true: these were the last.
func (w *workload) step(x *Explainer) (last bool) {
	if !w.counted {
		w.counted = w.pending.some(x.Pending.All(), podsAtOnce, func(p *queue.Pod) {
			if w.has(p.Obj) {
				w.waiting++
				w.member(&pb.WorkloadPod{Name: p.Obj.Name, Queue: p.Place().String(), Created: instant(p.Obj.CreationTimestamp.Time)})
				w.take(candidate{name: p.Obj.Name, untried: p.Message == "", since: p.Obj.CreationTimestamp.Time})
			}
		})
		return false
	}
	last = w.placed.some(x.Placed.In(w.namespace), podsAtOnce, func(p *v1.Pod) {
		if w.has(p) {
			_, node, _ := x.Placed.Pod(p.UID)
			m := &pb.WorkloadPod{Name: p.Name, Node: node, Created: instant(p.CreationTimestamp.Time)}
			if n := x.Placed.Node(node); n != nil {
				m.Zone = n.Labels[v1.LabelTopologyZone]
			}
			w.member(m)
			w.take(candidate{name: p.Name, placed: true, score: x.History.Last(p.UID).GetScore()})
		}
	})
	if last {
		w.worst = w.best.name
	}
	return last
}

func (w *workload) member(m *pb.WorkloadPod) {
	if len(w.members) < maxMembers {
		w.members = append(w.members, m)
	}
}

func (w *workload) take(c candidate) {
	if w.pods++; c.before(w.best) {
		w.best = c
	}
}

// has tells whether a pod is of the workload.
func (w *workload) has(p *v1.Pod) bool {
	if p.Namespace != w.namespace {
		return false
	}
	if kind, name := WorkloadOf(p); kind == w.kind && name == w.name {
		return true
	}
	owner := metav1.GetControllerOfNoCopy(p)
	return owner != nil && owner.Kind == w.kind && owner.Name == w.name
}

func (w *workload) end() {
	w.pending.end()
	w.placed.end()
}

// tell writes whose pod is explained. A pod that was asked for itself has no workload here.
func (w *workload) tell(out *pb.ExplainResponse) {
	if w != nil {
		out.Workload, out.Pod = w.kind+" "+w.namespace+"/"+w.name, w.namespace+"/"+w.worst
		out.WorkloadPods, out.WorkloadPending = w.pods, w.waiting
		slices.SortFunc(w.members, func(a, b *pb.WorkloadPod) int {
			return cmp.Or(strings.Compare(a.Node, b.Node), strings.Compare(a.Name, b.Name))
		})
		out.WorkloadMembers, out.WorkloadMembersLeftOut = w.members, w.pods-uint32(len(w.members))
	}
}
