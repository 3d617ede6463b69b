package compile

import (
	"slices"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// Rows are grouped by the labels that terms and constraints name: with many labels, or many values, each
// row is a group of its own. The sums of other pods' terms are pinned instead (RowValue.pinned), which
// makes one number of any of them; but an answer with pinned sums holds only until a pod is placed that
// carries one of the terms. So labels stay in the key that the pod's own terms name: pods of one
// workload often carry the terms that match them.
const (
	// maxGrouped is how many labels may group the rows of a class: more than a workload has use for.
	maxGrouped = 8
	// maxForeignGroups is how many groups the labels of other pods' terms may make of rows. Some
	// microseconds a decision are worth an answer that holds.
	maxForeignGroups = 1024
)

// pinning tells which terms of a class are pinned.
type pinning struct {
	// own are the pod's own terms, but for required affinity, and others those of other pods whose label
	// is not among named, the pod's.
	own, others bool
	named       []string
}

func newPinning(s *setting, pl *plan) pinning {
	var p pinning
	p.named = slices.DeleteFunc(once(slices.Concat(pl.spread.keys, pl.nearKeys)), s.absent)
	if p.own = len(p.named) > maxGrouped; p.own || s.match == nil {
		p.others = p.own
		return p
	}
	var keys []string
	groups := 1
	for _, t := range s.match.Terms {
		key := topologyKey(t.TopologyKey)
		made := s.state.Topology(key)
		if made == Absent || slices.Contains(p.named, key) || slices.Contains(keys, key) {
			continue
		}
		if keys = append(keys, key); made == Shared { // else rows without the terms are alike
			groups *= s.state.Domains(key)
		}
		if len(p.named)+len(keys) > maxGrouped || groups > maxForeignGroups {
			p.others = true
			break
		}
	}
	return p
}

// foreign tells whether the terms of other pods with a label are pinned.
func (p *pinning) foreign(key string) bool {
	return p.others && (p.own || !slices.Contains(p.named, key))
}

// pinned is the place of the value that all of the counters make, if there are any. One that forbids is 1 where
// any of them counts a pod.
func (g *groups) pinned(w weights, forbids bool) []*pb.Place {
	if len(w) == 0 {
		return nil
	}
	v := &pb.RowValue{Clamp: forbids, Forbids: forbids}
	for key, counts := range w.sorted {
		if !g.setting.absent(key) {
			v.Pinned = append(v.Pinned, &pb.PinnedTerms{TopologyKey: key, Counters: counts})
		}
	}
	if len(v.Pinned) == 0 {
		return nil
	}
	return []*pb.Place{g.inRow(v, nil)}
}
