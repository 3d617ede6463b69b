package observe

import (
	"cmp"
	"fmt"
	"slices"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

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

// NodeExplanation tells what a node has left, in steps.
type NodeExplanation struct {
	name    string
	cluster rules.Cluster
	node    *v1.Node
	used    v1.ResourceList
	pods    int64
	walk    walk[*v1.Pod]
}

// NewNodeExplanation makes one that has taken no step.
func NewNodeExplanation(name string, c rules.Cluster) *NodeExplanation {
	return &NodeExplanation{name: name, cluster: c, used: v1.ResourceList{}}
}

// Read is how it is read.
func (x *NodeExplanation) Read() Read { return Read{Step: x.step, End: x.walk.end} }

func (x *NodeExplanation) step() (last bool) {
	if x.node = x.cluster.Node(x.name); x.node == nil {
		return true
	}
	return x.walk.some(x.cluster.PodsOn(x.name), summedAtOnce, func(p *v1.Pod) {
		x.pods++
		for name, q := range compile.Requests(p) {
			sum := x.used[name]
			sum.Add(q)
			x.used[name] = sum
		}
	})
}

// Answer is the explanation, after the last step. It needs no loop.
func (x *NodeExplanation) Answer() (*pb.ExplainNodeResponse, error) {
	if x.node == nil {
		return nil, status.Errorf(codes.NotFound, "node %s is not known", x.name)
	}
	x.used[v1.ResourcePods] = *resource.NewQuantity(x.pods, resource.DecimalSI)
	out := &pb.ExplainNodeResponse{Node: x.name, Pods: uint32(x.pods)}
	for name, q := range x.node.Status.Allocatable {
		used := x.used[name]
		a := &pb.NodeAmount{Resource: string(name), Allocatable: inUnits(name, q), Requested: inUnits(name, used)}
		out.Amounts = append(out.Amounts, a)
	}
	first := []string{"cpu", "memory", "ephemeral-storage", "pods"}
	rank := func(a *pb.NodeAmount) int {
		if i := slices.Index(first, a.Resource); i >= 0 {
			return i
		}
		return len(first)
	}
	slices.SortFunc(out.Amounts, func(a, b *pb.NodeAmount) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a.Resource, b.Resource))
	})
	if x.node.Spec.Unschedulable {
		out.KeepsOff = append(out.KeepsOff, "cordoned (spec.unschedulable)")
	}
	for i := range x.node.Spec.Taints {
		if t := &x.node.Spec.Taints[i]; t.Effect != v1.TaintEffectPreferNoSchedule {
			out.KeepsOff = append(out.KeepsOff, "taint "+t.ToString())
		}
	}
	out.Stranded = stranded(out.Amounts)
	return out, nil
}

func inUnits(name v1.ResourceName, q resource.Quantity) int64 {
	if name == v1.ResourceCPU {
		return q.MilliValue()
	}
	return q.Value()
}

// left is the share of a resource that is left.
func left(a *pb.NodeAmount) float64 {
	if a.Allocatable <= 0 {
		return 0
	}
	return float64(a.Allocatable-a.Requested) / float64(a.Allocatable)
}

// stranded tells what is left and can't be used, for every pod takes something of cpu, memory and the number of pods too, and that
// is used up.
func stranded(amounts []*pb.NodeAmount) (out []string) {
	gone := ""
	for _, a := range amounts {
		if general := a.Resource == "cpu" || a.Resource == "memory" || a.Resource == "pods"; general && left(a) < usedUp {
			gone = a.Resource
			break
		}
	}
	if gone == "" {
		return nil
	}
	for _, a := range amounts {
		if a.Resource != "pods" && a.Resource != gone && left(a) >= worthTelling {
			out = append(out, fmt.Sprintf("%.0f %% of %s: %s is used up", 100*left(a), a.Resource, gone))
		}
	}
	return out
}
