package observe

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/shardsched/shardsched/coordinator/cache"
	"github.com/shardsched/shardsched/coordinator/compile"
	"github.com/shardsched/shardsched/coordinator/rules"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

const (
	// summedAtOnce is how many pods of a node one step adds up, of some 10 µs each.
	summedAtOnce = 128
	// A resource is used up where less than usedUp of it is left, and what is left of another is stranded from worthTelling on.
	usedUp, worthTelling = 0.05, 0.1
)

// maxNodePods is how many of a node's pods are told.
const maxNodePods = 200

// NodeExplanation tells what a node has left, and what is on it, in steps.
type NodeExplanation struct {
	name    string
	cluster rules.Cluster
	rowOf   func(node string) (cache.Row, bool)
	node    *v1.Node
	row     cache.Row
	used    v1.ResourceList
	pods    int64
	first   bestOf[podOnNode]
	walk    walk[*v1.Pod]
}

// podOnNode is a pod with what it requests.
type podOnNode struct {
	*v1.Pod
	requests v1.ResourceList
}

// NewNodeExplanation makes one that has taken no step.
func NewNodeExplanation(name string, c rules.Cluster, rowOf func(node string) (cache.Row, bool)) *NodeExplanation {
	return &NodeExplanation{name: name, cluster: c, rowOf: rowOf, used: v1.ResourceList{},
		first: bestOf[podOnNode]{most: maxNodePods, sort: sortPodsOnNode}}
}

// Read is how it is read.
func (x *NodeExplanation) Read() Read { return Read{Step: x.step, End: x.walk.end} }

func (x *NodeExplanation) step() (last bool) {
	if x.node = x.cluster.Node(x.name); x.node == nil {
		return true
	}
	x.row, _ = x.rowOf(x.name)
	return x.walk.some(x.cluster.PodsOn(x.name), summedAtOnce, func(p *v1.Pod) {
		x.pods++
		requests := compile.Requests(p)
		for name, q := range requests {
			sum := x.used[name]
			sum.Add(q)
			x.used[name] = sum
		}
		x.first.add(podOnNode{p, requests})
	})
}

// sortPodsOnNode puts pods of higher priority first, among them those that request more cpu, then memory.
func sortPodsOnNode(list []podOnNode) {
	slices.SortFunc(list, func(a, b podOnNode) int {
		more := func(name v1.ResourceName) int {
			x, y := a.requests[name], b.requests[name]
			return y.Cmp(x)
		}
		return cmp.Or(cmp.Compare(compile.Priority(b.Pod), compile.Priority(a.Pod)), more(v1.ResourceCPU), more(v1.ResourceMemory),
			strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
}

// tell words a pod.
func (p *podOnNode) tell() *pb.NodePod {
	out := &pb.NodePod{Namespace: p.Namespace, Name: p.Name, Priority: compile.Priority(p.Pod), Assumed: p.Spec.NodeName == ""}
	for name, q := range p.requests {
		if n := inUnits(name, q); n != 0 {
			out.Requests = append(out.Requests, &pb.ResourceQuantity{Resource: string(name), Quantity: n})
		}
	}
	slices.SortFunc(out.Requests, func(a, b *pb.ResourceQuantity) int {
		return cmp.Or(cmp.Compare(rankOf(a.Resource), rankOf(b.Resource)), cmp.Compare(a.Resource, b.Resource))
	})
	if owner := metav1.GetControllerOfNoCopy(p.Pod); owner != nil {
		out.Controller = owner.Kind + " " + owner.Name
	}
	return out
}

// Answer is the explanation, after the last step. It needs no loop.
func (x *NodeExplanation) Answer() (*pb.ExplainNodeResponse, error) {
	if x.node == nil {
		return nil, status.Errorf(codes.NotFound, "node %s is not known", x.name)
	}
	x.used[v1.ResourcePods] = *resource.NewQuantity(x.pods, resource.DecimalSI)
	out := &pb.ExplainNodeResponse{Node: x.name, Pods: uint32(x.pods), Shard: x.row.Shard}
	for name, q := range x.node.Status.Allocatable {
		used := x.used[name]
		a := &pb.NodeAmount{Resource: string(name), Allocatable: inUnits(name, q), Requested: inUnits(name, used)}
		out.Amounts = append(out.Amounts, a)
	}
	slices.SortFunc(out.Amounts, func(a, b *pb.NodeAmount) int {
		return cmp.Or(cmp.Compare(rankOf(a.Resource), rankOf(b.Resource)), cmp.Compare(a.Resource, b.Resource))
	})
	if x.node.Spec.Unschedulable {
		out.KeepsOff = append(out.KeepsOff, "cordoned (spec.unschedulable)")
	}
	for i := range x.node.Spec.Taints {
		t := &x.node.Spec.Taints[i]
		out.Taints = append(out.Taints, t.ToString())
		if t.Effect != v1.TaintEffectPreferNoSchedule {
			out.KeepsOff = append(out.KeepsOff, "taint "+t.ToString())
		}
	}
	for key, value := range x.node.Labels {
		out.Labels = append(out.Labels, key+"="+value)
	}
	slices.Sort(out.Labels)
	out.Stranded = stranded(out.Amounts)
	x.first.trim()
	for i := range x.first.list {
		out.OnNode = append(out.OnNode, x.first.list[i].tell())
	}
	out.PodsLeftOut = uint32(x.pods) - uint32(len(out.OnNode))
	return out, nil
}

func inUnits(name v1.ResourceName, q resource.Quantity) int64 {
	if name == v1.ResourceCPU {
		return q.MilliValue()
	}
	return q.Value()
}

// left is the share of a resource that is left.
func left(allocatable, requested int64) float64 {
	if allocatable <= 0 {
		return 0
	}
	return float64(allocatable-requested) / float64(allocatable)
}

// IsUsedUp tells whether too little of a resource is left on a node for a pod. Every pod takes something of cpu, memory and the number
// of pods; of another resource it is never true.
func IsUsedUp(resource string, allocatable, requested int64) bool {
	general := resource == "cpu" || resource == "memory" || resource == "pods"
	return general && left(allocatable, requested) < usedUp
}

// IsStranded tells whether what is left of a resource on a node is worth telling, and can't be used, for another is used up there.
func IsStranded(resource string, allocatable, requested int64) bool {
	return resource != "pods" && left(allocatable, requested) >= worthTelling
}

// usedUpOf is the resource that is used up; "": none is.
func usedUpOf(amounts []*pb.NodeAmount) string {
	for _, a := range amounts {
		if IsUsedUp(a.Resource, a.Allocatable, a.Requested) {
			return a.Resource
		}
	}
	return ""
}

// strands is IsStranded, for gone is used up; "": nothing is.
func strands(a *pb.NodeAmount, gone string) bool {
	return gone != "" && a.Resource != gone && IsStranded(a.Resource, a.Allocatable, a.Requested)
}

// stranded tells what is left and can't be used.
func stranded(amounts []*pb.NodeAmount) (out []string) {
	gone := usedUpOf(amounts)
	for _, a := range amounts {
		if strands(a, gone) {
			out = append(out, fmt.Sprintf("%.0f %% of %s: %s is used up", 100*left(a.Allocatable, a.Requested), a.Resource, gone))
		}
	}
	return out
}
