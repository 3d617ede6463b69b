package scorer

import (
	"math"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// nodeVolumeLimits is the plugin NodeVolumeLimits: a CSI driver attaches no more volumes
// to a node than its CSINode says. A volume that a pod of the node uses already is
// attached already; where all are, the limit does not matter.
type nodeVolumeLimits struct {
	drivers []*pb.DriverVolumes
	// missing is set where a claim of the pod does not exist: every row is refused.
	missing bool
	why     []Reason
}

// The reasons of nodeVolumeLimits.
const (
	tooManyVolumes = iota
	claimMissing
)

func newNodeVolumeLimits(q *pb.Query) *nodeVolumeLimits {
	l := q.GetVolumeLimits()
	r := &nodeVolumeLimits{drivers: l.GetDrivers(), missing: l.GetMissingClaim() != ""}
	plugin := PluginName(r.plugin())
	r.why = []Reason{tooManyVolumes: {plugin, "node(s) exceed max volume count", false}}
	if r.missing {
		r.why = append(r.why, Reason{plugin, l.GetMissingClaim(), true})
	}
	return r
}

func (r *nodeVolumeLimits) plugin() pb.Plugin { return pb.Plugin_PLUGIN_NODE_VOLUME_LIMITS }
func (r *nodeVolumeLimits) reasons() []Reason { return r.why }

// narrow decides on the traits how many volumes may be attached beside the pod's, and
// then looks at the counters of the rows where that is limited.
func (r *nodeVolumeLimits) narrow(e *Evaluator, t *Table, rows bitmap) {
	if r.missing {
		clear(rows)
		return
	}
	traits := t.traits.contents.contents
	for _, d := range r.drivers {
		e.room = scratch(e.room, len(traits))
		limited := false
		for i := range traits {
			e.room[i] = math.MaxInt64
			if n, ok := traits[i].limit(d.GetDriver()); ok {
				e.room[i], limited = n-d.GetVolumes(), true
			}
		}
		if !limited {
			continue
		}
		e.exempt = allAttached(t, d, rows, e.exempt)
		e.attached = attachedElsewhere(t, d, e.attached)
		removeBeyond(rows, t.traits.ofRow, e.room, e.attached)
		rows.union(e.exempt)
	}
}

// allAttached gives the rows on which the pod's volumes of a driver are attached already.
func allAttached(t *Table, d *pb.DriverVolumes, rows, into bitmap) bitmap {
	into = rows.copyOf(into)
	if int64(len(d.GetShared())) < d.GetVolumes() {
		clear(into)
		return into
	}
	for _, id := range d.GetShared() {
		t.counterColumn(id).keepAboveZero(into)
	}
	return into
}

// keepAboveZero keeps the rows of b with a number above 0; a nil column has none.
func (a *amounts) keepAboveZero(b bitmap) {
	if a == nil {
		clear(b)
		return
	}
	a.intersect(b)
	for row := range b.all {
		if a.at(row) <= 0 {
			b.remove(row)
		}
	}
}

// attachedElsewhere gives, for each row, the volumes of a driver without those of the pod.
func attachedElsewhere(t *Table, d *pb.DriverVolumes, into []int64) []int64 {
	into = scratch(into, t.capacity)
	clear(into)
	if c := t.counterColumn(d.GetAttached()); c != nil {
		copy(into, c.dense)
		for i, row := range c.rows {
			into[row] = c.vals[i]
		}
	}
	for _, id := range d.GetShared() {
		c := t.counterColumn(id)
		if c == nil {
			continue
		}
		for i, v := range c.dense {
			into[i] -= int64(asInt(v > 0))
		}
		for i, row := range c.rows {
			into[row] -= int64(asInt(c.vals[i] > 0))
		}
	}
	return into
}

// removeBeyond takes the rows from b that have more than their trait leaves room for.
func removeBeyond(b bitmap, traits []uint32, room, attached []int64) {
	for row := range b.all {
		if attached[row] > room[traits[row]] {
			b.remove(row)
		}
	}
}

func (r *nodeVolumeLimits) passes(v view) bool {
	if r.missing {
		return false
	}
	x := v.t.traits.of(v.row)
	for _, d := range r.drivers {
		limit, ok := x.limit(d.GetDriver())
		if !ok {
			continue
		}
		added := d.GetVolumes()
		for _, id := range d.GetShared() {
			added -= int64(asInt(v.counter(id) > 0))
		}
		if added > 0 && added+v.counter(d.GetAttached()) > limit {
			return false
		}
	}
	return true
}

func (r *nodeVolumeLimits) refusals(_ view, into []int) []int {
	if r.missing {
		return append(into, claimMissing)
	}
	return append(into, tooManyVolumes)
}

// DriverRoom is a driver that can not attach a pod's volumes to a row beside those that are attached there.
type DriverRoom struct {
	Driver string
	// Limit is how many volumes it can attach, Attached how many it has, and Adds how many the pod adds.
	Limit, Attached, Adds int64
}

// FullDrivers are the drivers because of which NodeVolumeLimits refuses a row; none: it does not.
func (e *Evaluator) FullDrivers(t *Table, row uint32, totals *RowTotals, c *Class) (list []DriverRoom) {
	v := view{t, row, totals, e}
	r, refuses := c.refusing(v, true).(*nodeVolumeLimits)
	if !refuses || r.missing {
		return nil
	}
	x := t.traits.of(row)
	for _, d := range r.drivers {
		limit, limited := x.limit(d.GetDriver())
		adds := d.GetVolumes()
		for _, id := range d.GetShared() {
			adds -= int64(asInt(v.counter(id) > 0))
		}
		if attached := v.counter(d.GetAttached()); limited && adds > 0 && adds+attached > limit {
			list = append(list, DriverRoom{d.GetDriver(), limit, attached, adds})
		}
	}
	return list
}
