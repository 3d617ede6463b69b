package scorer

import (
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// readWriteOncePod is the part of the plugin VolumeRestrictions that looks at the whole
// cluster: a claim that is for one pod only, and that a pod uses, refuses every row.
type readWriteOncePod struct {
	oneReason
	claims []uint32 // measures
	named  []uint32 // counters
	// asks tells that the plugin has something to ask of nodes besides.
	asks bool
}

func newReadWriteOncePod(q *pb.Query) (groupFilter, *groupReads) {
	claims := q.GetVolumeRestrictions().GetClaims()
	if len(claims) == 0 {
		return nil, nil
	}
	const text = "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod"
	n := &groupReads{}
	for _, m := range claims {
		n.measures = append(n.measures, int(m))
	}
	return &readWriteOncePod{
		oneReason: newReason(pb.Plugin_PLUGIN_VOLUME_RESTRICTIONS, text, false),
		claims:    claims, named: q.GetVolumeRestrictions().GetNamed(), asks: len(q.GetVolumeRestrictions().GetDisks()) > 0,
	}, n
}

func (r *readWriteOncePod) begin(s *Standing) {
	s.claimed = false
	for _, m := range r.claims {
		s.claimed = s.claimed || s.result.Measures[m].total() > 0
	}
}

func (r *readWriteOncePod) refusal(s *Standing, _ int) int {
	if s.claimed {
		return 0
	}
	return -1
}

// total is the sum over all cells.
func (m *MeasureResult) total() int64 {
	n := int64(0)
	for i := range m.Cells {
		n += m.Cells[i].Sum
	}
	return n
}
