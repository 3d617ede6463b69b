package scorer

import (
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// groupFilter is the part of a plugin's Filter that is decided for all rows of a group
// at once. It is immutable; what it finds out about the cluster it leaves in the
// Standing.
type groupFilter interface {
	// reasons lists what it can say of a group that it refuses.
	reasons() []Reason
	// begin looks at the cluster.
	begin(s *Standing)
	// refusal is why a group is refused, an index into reasons; -1: it is not.
	refusal(s *Standing, group int) int
	// refusesRow is refusal for one row whose pods are others than the cluster was measured
	// with.
	refusesRow(x *rowCluster) int
}

// groupScore is a plugin's Score, normalised, of whole groups. It is immutable.
type groupScore interface {
	// score writes the raw and the normalised score of each group that counts.
	score(s *Standing, raw, normalised []int64)
}

// newGroupFilter makes the group part of a filter plugin; nil where it has none.
func newGroupFilter(p pb.Plugin, q *pb.Query) (groupFilter, *groupReads) {
	switch p {
	case pb.Plugin_PLUGIN_VOLUME_RESTRICTIONS:
		return newReadWriteOncePod(q)
	case pb.Plugin_PLUGIN_POD_TOPOLOGY_SPREAD:
		return newSpreadFilter(q)
	case pb.Plugin_PLUGIN_INTER_POD_AFFINITY:
		return newInterPodAffinityFilter(q)
	}
	return nil, nil
}

// newGroupScore makes the group part of a score plugin; nil where it has none.
func newGroupScore(p pb.Plugin, q *pb.Query) (groupScore, *groupReads) {
	switch p {
	case pb.Plugin_PLUGIN_POD_TOPOLOGY_SPREAD:
		return newSpreadScore(q)
	case pb.Plugin_PLUGIN_INTER_POD_AFFINITY:
		return newInterPodAffinityScore(q)
	}
	return nil, nil
}
