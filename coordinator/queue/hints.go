package queue

import (
	"cmp"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// IsOwn: the event is the pod's own.
func IsOwn(p *Pod, e *Event) bool { return e.pod != nil && e.pod.UID == p.Obj.UID }

// ToleratesAll tells whether TaintToleration would let a node pass.
func ToleratesAll(p *v1.Pod, n *v1.Node) bool {
	for i := range n.Spec.Taints {
		t := &n.Spec.Taints[i]
		if (t.Effect == v1.TaintEffectNoSchedule || t.Effect == v1.TaintEffectNoExecute) && !Tolerates(p, t) {
			return false
		}
	}
	return true
}

// Tolerates tells whether a pod tolerates a taint.
func Tolerates(p *v1.Pod, t *v1.Taint) bool {
	for i := range p.Spec.Tolerations {
		if p.Spec.Tolerations[i].ToleratesTaint(klog.Logger{}, t, false) {
			return true
		}
	}
	return false
}

// matcher is NodeAffinity's hint.
type matcher struct {
	profiles Profiles
}

// matches: the node matches the pod's node selector and required affinity, and is new or did
// not before; and it matches what the profile adds, of which it is not asked whether it did
// before. A selector that can not be read is left to the filter to report.
func (m matcher) matches(p *Pod, e *Event) bool {
	if m.profiles != nil {
		if added := m.profiles.AddedAffinity(p.Obj); added != nil && !added.Match(e.node) {
			return false
		}
	}
	now, err := p.required().Match(e.node)
	if err != nil || !now || e.oldNode == nil {
		return err != nil || now
	}
	was, err := p.required().Match(e.oldNode)
	return err != nil || !was
}

// hadNode tells whether the pod that is gone held room: it was on a node, or nominated to
// one.
func hadNode(p *v1.Pod) bool { return p.Spec.NodeName != "" || p.Status.NominatedNodeName != "" }

// freesPort: the pod that is gone held a host port that this one wants. Both have them as compile.Usage sorts them, and
// either may have every port there is: those of the shorter list are searched in the longer.
func freesPort(p *Pod, e *Event) bool {
	const all = "0.0.0.0"
	few, many := p.uses().GetHostPorts(), e.oldPodUsage().GetHostPorts()
	if len(few) > len(many) {
		few, many = many, few
	}
	for _, h := range few {
		first, _ := findPort(many, h, "")
		if many = many[first:]; len(many) == 0 || many[0].Port != h.Port || many[0].Protocol != h.Protocol {
			continue
		}
		if _, same := findPort(many, h, h.Ip); same || h.Ip == all {
			return true
		}
		if _, every := findPort(many, h, all); every {
			return true
		}
	}
	return false
}

// findPort is the place of a port of an address in a sorted list.
func findPort(list []*pb.HostPort, h *pb.HostPort, ip string) (at int, found bool) {
	return slices.BinarySearchFunc(list, ip, func(x *pb.HostPort, ip string) int {
		return cmp.Or(cmp.Compare(x.Protocol, h.Protocol), cmp.Compare(x.Port, h.Port), strings.Compare(x.Ip, ip))
	})
}

// FreesRoom: the pod that is gone held room on a node.
func FreesRoom(e *Event) bool { return hadNode(e.oldPod) }

// shrinks: the pod itself asks for less, or one on a node gives back of what this one
// asks for.
func shrinks(p *Pod, e *Event) bool {
	if IsOwn(p, e) {
		return true
	}
	if e.pod.Spec.NodeName == "" {
		return false
	}
	want, old, now := p.uses().GetRequests(), e.oldPodUsage().GetRequests(), e.podUsage().GetRequests()
	return anyRequested(want, func(get amount) bool { return get(now) < get(old) })
}

// fit is NodeResourcesFit's hint for nodes.
type fit struct {
	claims Claims // nil: not known
}

// hasRoom: the pod would fit on the node if that were empty, and the node is new or has more
// of what the pod asks for than before. What devices serve there fits, and may be more at any time.
func (f fit) hasRoom(p *Pod, e *Event) bool {
	now := e.nodeRow()
	want, served := f.withoutServed(p.uses().GetRequests(), now.GetAllocatable())
	if now.GetAllowedPods() < 1 || anyRequested(want, func(get amount) bool { return get(want) > get(now.GetAllocatable()) }) {
		return false
	}
	if e.oldNode == nil || served {
		return true
	}
	old := e.oldNodeRow()
	return now.GetAllowedPods() > old.GetAllowedPods() ||
		anyRequested(want, func(get amount) bool { return get(now.GetAllocatable()) > get(old.GetAllocatable()) })
}

// withoutServed leaves out what a node has nothing of, and devices may serve.
func (f fit) withoutServed(want, there *pb.Resources) (left *pb.Resources, served bool) {
	isServed := func(s *pb.ScalarResource) bool {
		return s.Quantity > 0 && scalar(there, s.Name) == 0 && f.claims.Serves(s.Name)
	}
	if f.claims == nil || !slices.ContainsFunc(want.GetScalars(), isServed) {
		return want, false
	}
	return &pb.Resources{
		MilliCpu: want.MilliCpu, MemoryBytes: want.MemoryBytes, EphemeralStorageBytes: want.EphemeralStorageBytes,
		Scalars: slices.DeleteFunc(slices.Clone(want.Scalars), isServed),
	}, true
}

// amount reads one resource.
type amount func(*pb.Resources) int64

// anyRequested tells whether something holds for a resource of which want has any.
func anyRequested(want *pb.Resources, holds func(amount) bool) bool {
	for _, get := range [...]amount{(*pb.Resources).GetMilliCpu, (*pb.Resources).GetMemoryBytes, (*pb.Resources).GetEphemeralStorageBytes} {
		if get(want) > 0 && holds(get) {
			return true
		}
	}
	for _, s := range want.GetScalars() {
		if s.Quantity > 0 && holds(func(r *pb.Resources) int64 { return scalar(r, s.Name) }) {
			return true
		}
	}
	return false
}
