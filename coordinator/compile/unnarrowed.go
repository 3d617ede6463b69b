package compile

import (
	"google.golang.org/protobuf/proto"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
	"github.com/shardsched/shardsched/scorer"
)

// Unnarrowed is the class of a query without what a PreFilter narrows the nodes to.
func Unnarrowed(q *pb.Query) (*scorer.Class, error) {
	wide := proto.CloneOf(q)
	wide.Narrowed = nil
	return scorer.NewClass(wide)
}
