package scorer

import (
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// volumeRestrictions is what the plugin VolumeRestrictions decides row by row: a disk
// that the pod mounts itself (GCE PD, EBS, iSCSI, RBD) is not for two pods of a node,
// unless both only read. What it decides for all rows at once, claims that are for one
// pod only, is the group part's.
type volumeRestrictions struct {
	oneReason
	disks []uint32 // counters
}

func newVolumeRestrictions(q *pb.Query) *volumeRestrictions {
	const text = "node(s) had no available disk"
	return &volumeRestrictions{newReason(pb.Plugin_PLUGIN_VOLUME_RESTRICTIONS, text, false), q.GetVolumeRestrictions().GetDisks()}
}

func (r *volumeRestrictions) plugin() pb.Plugin { return pb.Plugin_PLUGIN_VOLUME_RESTRICTIONS }

func (r *volumeRestrictions) narrow(_ *Evaluator, t *Table, rows bitmap) {
	for _, id := range r.disks {
		if c := t.counterColumn(id); c != nil {
			c.removeAboveZero(rows)
		}
	}
}

// removeAboveZero takes the rows with a number above 0 from b.
func (a *amounts) removeAboveZero(b bitmap) {
	if a.dense != nil {
		for row := range b.all {
			if a.dense[row] > 0 {
				b.remove(row)
			}
		}
		return
	}
	for i, row := range a.rows {
		if a.vals[i] > 0 && int(row/wordRows) < len(b) {
			b.remove(row)
		}
	}
}

func (r *volumeRestrictions) passes(v view) bool {
	for _, id := range r.disks {
		if v.counter(id) > 0 {
			return false
		}
	}
	return true
}
