package answers

import (
	"cmp"
	"slices"
	"strings"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// What is told of the nodes that a reviewer has refused is bounded, for it is kept with the decision.
const (
	toldReasons     = 8
	toldExamples    = 3
	toldReasonBytes = 512
	// countedReasons is how many reasons are counted before the toldReasons of most nodes are taken: a reviewer may word a
	// reason anew for each node.
	countedReasons = 64
)

// Refusals counts the nodes that a reviewer has refused, by reason, to be told to people. The zero value counts none.
type Refusals struct {
	list []*pb.Refusal
	last *pb.Refusal // of the node before: many in a row are refused for the same
	more int         // nodes refused for further reasons
}

// Add counts a node that is refused for reasons; none: none was given.
func (x *Refusals) Add(node string, reasons ...string) {
	r := x.of(reasons)
	if r == nil {
		x.more++
		return
	}
	if r.Nodes++; len(r.Examples) < toldExamples {
		r.Examples = append(r.Examples, strings.ToValidUTF8(node, "?"))
	}
}

// AddNodes counts nodes whose names are not told.
func (x *Refusals) AddNodes(nodes int, reason string) {
	if r := x.of([]string{reason}); r != nil {
		r.Nodes += uint32(nodes)
	} else {
		x.more += nodes
	}
}

// of is where nodes refused for some reasons are counted; nil: nowhere.
func (x *Refusals) of(reasons []string) *pb.Refusal {
	var text string
	if len(reasons) == 1 {
		text = reasons[0]
	} else {
		text = strings.Join(reasons, ", ")
	}
	if len(text) > toldReasonBytes {
		text = text[:toldReasonBytes] + "…"
	}
	if x.last != nil && x.last.Reason == text {
		return x.last
	}
	text = strings.ToValidUTF8(text, "?")
	at := slices.IndexFunc(x.list, func(r *pb.Refusal) bool { return r.Reason == text })
	if at < 0 {
		if len(x.list) == countedReasons {
			return nil
		}
		at = len(x.list)
		x.list = append(x.list, &pb.Refusal{Reason: text})
	}
	x.last = x.list[at]
	return x.last
}

// Tell writes the refusals into a review.
func (x *Refusals) Tell(out *pb.Review) {
	slices.SortStableFunc(x.list, func(a, b *pb.Refusal) int { return cmp.Compare(b.Nodes, a.Nodes) })
	for _, r := range x.list[min(len(x.list), toldReasons):] {
		x.more += int(r.Nodes)
	}
	out.Refusals = slices.Clip(x.list[:min(len(x.list), toldReasons)])
	out.LeftOut = uint32(x.more)
}
