package coordinator

import (
	"cmp"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/shardsched/shardsched/coordinator/queue"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// maxVerdictBytes is what the verdicts of an explanation take at the most: a message has 4 MiB.
const maxVerdictBytes = 3 << 20

// verdicts gathers what becomes of the pod on the nodes that were asked for.
type verdicts struct {
	all   bool
	named map[string]bool // the nodes asked for: true where they were seen
	list  []*pb.NodeVerdict
}

func newVerdicts(req *pb.ExplainRequest) *verdicts {
	v := &verdicts{all: req.GetAllNodes(), named: make(map[string]bool, len(req.GetNodeNames()))}
	for _, n := range req.GetNodeNames() {
		v.named[n] = false
	}
	return v
}

// asked tells whether a node's verdict is wanted, and that the node exists.
func (v *verdicts) asked(node string) bool {
	if _, named := v.named[node]; named {
		v.named[node] = true
		return true
	}
	return v.all
}

func (v *verdicts) refuse(r *pb.RefusedNode) {
	if v.asked(r.Node) {
		v.list = append(v.list, &pb.NodeVerdict{Node: r.Node, Refused: r})
	}
}

// tellVerdicts reports them by name, as many as a message holds. The scores of the nodes that
// were named are spelled out; of all nodes they are the sums.
func (x *explainer) tellVerdicts() {
	v := x.verdicts
	for i := range x.feasible {
		node := x.name(x.feasible[i].candidate)
		if !v.asked(node) {
			continue
		}
		scored := &pb.ScoredNode{Node: node, Score: x.feasible[i].candidate.Score, Chosen: node == x.at}
		if _, named := v.named[node]; named {
			scored = x.scored(&x.feasible[i], node)
		}
		v.list = append(v.list, &pb.NodeVerdict{Node: node, Scored: scored})
	}
	for node, seen := range v.named {
		if !seen {
			v.list = append(v.list, &pb.NodeVerdict{Node: node, Note: "there is no such node"})
		}
	}
	slices.SortFunc(v.list, func(a, b *pb.NodeVerdict) int { return cmp.Compare(a.Node, b.Node) })
	bytes := 0
	for i, n := range v.list {
		if bytes += proto.Size(n) + 4; bytes > maxVerdictBytes {
			x.out.VerdictsLeftOut = uint32(len(v.list) - i)
			v.list = v.list[:i]
			break
		}
	}
	x.out.Verdicts = v.list
}

// waits is the message of what a pod waits for; nil: nothing.
func waits(w queue.Waits) *pb.Waits {
	out := &pb.Waits{BackoffUntil: instant(w.BackoffUntil), TriedAnyway: instant(w.TriedAnyway)}
	for _, p := range w.Plugins {
		out.Plugins = append(out.Plugins, &pb.PluginWaits{Plugin: p.Plugin, Events: p.Events})
	}
	if len(out.Plugins) == 0 && out.BackoffUntil == nil && out.TriedAnyway == nil {
		return nil
	}
	return out
}

func instant(t time.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	return timestamppb.New(t)
}
