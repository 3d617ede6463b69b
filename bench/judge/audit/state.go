package audit

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// Where things are below a cluster's prefix.
const (
	nodesAt   = "objects/nodes/"
	podsAt    = "objects/pods/"
	objectsAt = "objects/"
	queueAt   = "queue/"
	historyAt = "history/"
	leadersAt = "leader/"
)

// Fault is one thing that must not be.
type Fault struct {
	// Revision is where it came to be; 0: it is about the end.
	Revision int64
	// Subject is what it is about: "pod default/web", "node n1".
	Subject string
	Problem string
}

func (f Fault) String() string {
	if f.Revision == 0 {
		return fmt.Sprintf("%s: %s", f.Subject, f.Problem)
	}
	return fmt.Sprintf("revision %d: %s: %s", f.Revision, f.Subject, f.Problem)
}

// State is a cluster at a revision, and what was wrong on the way there.
type State struct {
	nodes   map[string]*node
	pods    map[string]*pod // by namespace/name
	entries map[string]*pb.QueueEntry
	faults  []Fault
}

// pod is a pod with what it takes and where it is.
type pod struct {
	object *v1.Pod
	demand amounts
	ports  []port
	binds  int // how many times nodeName was written
}

func (p *pod) node() string { return p.object.Spec.NodeName }

// takes tells whether the pod takes room of its node.
func (p *pod) takes() bool {
	phase := p.object.Status.Phase
	return p.node() != "" && phase != v1.PodSucceeded && phase != v1.PodFailed
}

// NewState is an empty cluster.
func NewState() *State {
	return &State{nodes: map[string]*node{}, pods: map[string]*pod{}, entries: map[string]*pb.QueueEntry{}}
}

func (s *State) fault(revision int64, subject, format string, a ...any) {
	s.faults = append(s.faults, Fault{Revision: revision, Subject: subject, Problem: fmt.Sprintf(format, a...)})
}

// Apply makes one change.
func (s *State) Apply(c Change) {
	switch {
	case strings.HasPrefix(c.Key, podsAt):
		s.applyPod(c, strings.TrimPrefix(c.Key, podsAt))
	case strings.HasPrefix(c.Key, nodesAt):
		s.applyNode(c, strings.TrimPrefix(c.Key, nodesAt))
	case strings.HasPrefix(c.Key, queueAt):
		s.applyEntry(c, strings.TrimPrefix(c.Key, queueAt))
	}
}

func (s *State) applyEntry(c Change, uid string) {
	delete(s.entries, uid)
	if c.Value == nil {
		return
	}
	e := &pb.QueueEntry{}
	if err := proto.Unmarshal(c.Value, e); err != nil {
		s.fault(c.Revision, "queue entry "+uid, "can't be read: %v", err)
		return
	}
	s.entries[uid] = e
}

func (s *State) applyNode(c Change, name string) {
	n := s.nodeNamed(name)
	n.object, n.allocatable = nil, nil
	if c.Value == nil {
		return
	}
	obj, err := decode[*v1.Node](c.Value)
	if err != nil {
		s.fault(c.Revision, "node "+name, "can't be read: %v", err)
		return
	}
	n.object, n.allocatable = obj, amountsOf(obj.Status.Allocatable)
}

// nodeNamed finds a node, or makes a place for one that is only named by pods.
func (s *State) nodeNamed(name string) *node {
	n := s.nodes[name]
	if n == nil {
		n = newNode()
		s.nodes[name] = n
	}
	return n
}

func (s *State) applyPod(c Change, name string) {
	before := s.pods[name]
	subject := "pod " + name
	var after *pod
	if c.Value != nil {
		obj, err := decode[*v1.Pod](c.Value)
		if err != nil {
			s.fault(c.Revision, subject, "can't be read: %v", err)
			return
		}
		after = &pod{object: obj, demand: demand(obj), ports: ports(obj)}
	}
	if before != nil && before.takes() {
		s.nodeNamed(before.node()).remove(name, before)
	}
	if after == nil {
		delete(s.pods, name)
		return
	}
	if before != nil && before.object.UID == after.object.UID {
		after.binds = before.binds
		s.follows(c.Revision, subject, before, after)
	}
	s.pods[name] = after
	if after.takes() {
		s.place(c.Revision, name, before, after)
	}
}

// follows judges a write of a pod that was there.
func (s *State) follows(revision int64, subject string, before, after *pod) {
	switch from, to := before.node(), after.node(); {
	case from == "":
	case to == "":
		s.fault(revision, subject, "was on %s and is taken off it", from)
	case from != to:
		s.fault(revision, subject, "bound twice: was on %s, now on %s", from, to)
	default:
		s.fault(revision, subject, "written again after it was bound to %s", from)
	}
}

// place puts a pod on its node, and judges that where it was not there before.
func (s *State) place(revision int64, name string, before, after *pod) {
	n := s.nodeNamed(after.node())
	wrong := n.put(name, after)
	if before != nil && before.object.UID == after.object.UID && before.node() == after.node() {
		return
	}
	after.binds++
	if why := n.admits(after.object); why != "" {
		s.fault(revision, "pod "+name, "bound to %s, but %s", after.node(), why)
	}
	for _, w := range wrong {
		s.fault(revision, "node "+after.node(), "%s, since %s is on it", w, name)
	}
}

func decode[T runtime.Object](raw []byte) (obj T, err error) {
	if !strings.HasPrefix(string(raw), "k8s\x00") {
		return obj, fmt.Errorf("%d bytes are not Kubernetes protobuf", len(raw))
	}
	any, _, err := scheme.Codecs.UniversalDeserializer().Decode(raw, nil, nil)
	if err != nil {
		return obj, err
	}
	obj, ok := any.(T)
	if !ok {
		return obj, fmt.Errorf("there is a %T in its place", any)
	}
	return obj, nil
}

// Bound counts the pods that are on a node.
func (s *State) Bound() int {
	bound := 0
	for _, p := range s.pods {
		if p.node() != "" {
			bound++
		}
	}
	return bound
}

// Unsettled lists what keeps the acknowledged pods from their end: each is bound, or
// waits for a stated reason while no node would take it.
func (s *State) Unsettled(acknowledged []string) []Fault {
	var out []Fault
	for _, name := range slices.Sorted(slices.Values(acknowledged)) {
		p := s.pods[name]
		if p == nil {
			out = append(out, Fault{Subject: "pod " + name, Problem: "was acknowledged and is not there"})
			continue
		}
		if p.node() != "" {
			continue
		}
		if why := s.waiting(p); why != "" {
			out = append(out, Fault{Subject: "pod " + name, Problem: why})
		}
	}
	return out
}

// waiting tells what is wrong with a pod that is not bound; empty: nothing.
func (s *State) waiting(p *pod) string {
	e := s.entries[string(p.object.UID)]
	if e.GetMessage() == "" {
		return "is not bound, and its queue entry states no reason"
	}
	if len(p.object.Spec.SchedulingGates) > 0 {
		return ""
	}
	for _, name := range slices.Sorted(maps.Keys(s.nodes)) {
		if n := s.nodes[name]; n.object != nil && n.admits(p.object) == "" && n.room(p) {
			return fmt.Sprintf("is not bound (%s), but would fit %s", e.GetMessage(), name)
		}
	}
	return ""
}
