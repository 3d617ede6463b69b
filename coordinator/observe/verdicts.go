package observe

import (
	"cmp"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// maxParts is of how many nodes the verdict is spelled out for a part of their names.
const maxParts = 100

// maxVerdictBytes is what the verdicts of an explanation take at the most: a message has 4 MiB.
const maxVerdictBytes = 3 << 20

// verdicts gathers what becomes of the pod on the nodes that were asked for.
type verdicts struct {
	all   bool
	part  string          // of names; "": of none
	parts int             // how many nodes it has named
	named map[string]bool // the nodes asked for: true where they were seen
	list  []*pb.NodeVerdict
}

func newVerdicts(req *pb.ExplainRequest) *verdicts {
	v := &verdicts{all: req.GetAllNodes(), part: req.GetNodeNameContains(), named: make(map[string]bool, len(req.GetNodeNames()))}
	for _, n := range req.GetNodeNames() {
		v.named[n] = false
	}
	return v
}

// asked tells whether a node's verdict is wanted, by its name or with all, and that the node exists.
func (v *verdicts) asked(node string) (named, asked bool) {
	if _, named = v.named[node]; named {
		v.named[node] = true
		return true, true
	}
	if v.part != "" && v.parts < maxParts && strings.Contains(node, v.part) {
		v.parts++
		v.named[node] = true
		return true, true
	}
	return named, named || v.all
}

func (v *verdicts) add(n *pb.NodeVerdict) { v.list = append(v.list, n) }

func (v *verdicts) refuse(r *pb.RefusedNode) {
	if _, asked := v.asked(r.Node); asked {
		v.add(&pb.NodeVerdict{Node: r.Node, Refused: r})
	}
}

// tell reports them by name, as many as a message holds. The scores of the nodes that
// were named are spelled out; of all nodes they are the sums.
func (v *verdicts) tell(out *pb.ExplainResponse) {
	for node, seen := range v.named {
		if !seen {
			v.add(&pb.NodeVerdict{Node: node, Note: "there is no such node"})
		}
	}
	slices.SortFunc(v.list, func(a, b *pb.NodeVerdict) int { return cmp.Compare(a.Node, b.Node) })
	bytes := 0
	for i, n := range v.list {
		if bytes += proto.Size(n) + 4; bytes > maxVerdictBytes {
			out.VerdictsLeftOut = uint32(len(v.list) - i)
			v.list = v.list[:i]
			break
		}
	}
	out.Verdicts = v.list
}
