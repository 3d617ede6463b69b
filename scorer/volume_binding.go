package scorer

import (
	"slices"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// volumeBinding is the plugin VolumeBinding: the node must reach the pod's bound volumes,
// and for each claim that waits for its first pod there must be a volume that the node
// reaches, or one can be provisioned there.
//
// A row serves the claims in order, each with the first of its volumes that is left: the
// smallest, for the compiler puts them so. A claim that goes without is provisioned, and
// the first that cannot be tells why the row is refused.
type volumeBinding struct {
	bound      []*selector
	migratable []migratableVolume
	missing    bool
	claims     []unboundClaim
	// keys are the labels that the claims' indexes read, one index after the other.
	keys []string
	why  []Reason
}

// migratableVolume is a bound volume of an in-tree plugin.
type migratableVolume struct {
	plugin      string
	inTree, csi *selector // nil: any node
}

// unboundClaim is a claim that is bound where its first pod goes.
type unboundClaim struct {
	query *pb.UnboundClaim
	// volumes finds the places in query.volumes that a row reaches.
	volumes *selectorIndex
	// topologies and capacities find one that holds the row; nil: none is asked for.
	topologies, capacities *selectorIndex
}

// The reasons of volumeBinding, in the order in which a row gives them. A row gives one
// of the first and the last, and one of the others.
const (
	volumeOutOfReach = iota
	noVolumeToBind
	noSpace
	volumeMissing
)

func newVolumeBinding(q *pb.Query) *volumeBinding {
	b := q.GetVolumeBinding()
	r := &volumeBinding{missing: b.GetMissingVolume()}
	for _, s := range b.GetBound() {
		r.bound = append(r.bound, newSelector(s))
	}
	for _, m := range b.GetMigratable() {
		r.migratable = append(r.migratable, migratableVolume{m.GetPlugin(), newSelector(m.GetInTree()), newSelector(m.GetCsi())})
	}
	for _, c := range b.GetClaims() {
		r.claims = append(r.claims, r.newClaim(c, b.GetVolumes()))
	}
	plugin := PluginName(r.plugin())
	r.why = []Reason{
		volumeOutOfReach: {plugin, "node(s) didn't match PersistentVolume's node affinity", true},
		noVolumeToBind:   {plugin, "node(s) didn't find available persistent volumes to bind", true},
		noSpace:          {plugin, "node(s) did not have enough free storage", true},
		volumeMissing:    {plugin, "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)", true},
	}
	return r
}

func (r *volumeBinding) newClaim(c *pb.UnboundClaim, volumes []*pb.CandidateVolume) unboundClaim {
	out := unboundClaim{query: c}
	out.volumes = newSelectorIndex(len(c.GetVolumes()), len(r.keys))
	for i, v := range c.GetVolumes() {
		if x := volumes[v]; x.GetKey() != "" {
			out.volumes.addValue(uint32(i), x.GetKey(), x.GetValue())
		} else {
			out.volumes.add(uint32(i), x.GetNodeAffinity())
		}
	}
	r.reads(out.volumes)
	if s := c.GetTopologies(); s != nil {
		out.topologies = r.index([]*pb.NodeSelector{s})
	}
	if c.GetCheckCapacity() {
		out.capacities = r.index(c.GetCapacities())
	}
	return out
}

func (r *volumeBinding) index(list []*pb.NodeSelector) *selectorIndex {
	x := newSelectorIndex(len(list), len(r.keys))
	for i, s := range list {
		x.add(uint32(i), s)
	}
	r.reads(x)
	return x
}

func (r *volumeBinding) reads(x *selectorIndex) {
	for i := range x.keys {
		r.keys = append(r.keys, x.keys[i].key)
	}
}

func (r *volumeBinding) plugin() pb.Plugin { return pb.Plugin_PLUGIN_VOLUME_BINDING }
func (r *volumeBinding) reasons() []Reason { return r.why }

func (r *volumeBinding) narrow(e *Evaluator, t *Table, rows bitmap) {
	for _, s := range r.bound {
		s.narrow(e, t, rows)
	}
	for i := range r.migratable {
		r.migratable[i].narrow(e, t, rows)
	}
	if r.missing {
		clear(rows)
	}
	for i := range r.claims {
		if name := r.claims[i].query.GetSelectedNode(); name != "" {
			rows.onlyNamed(t, name)
		}
	}
	if len(r.claims) == 0 {
		return
	}
	e.labelColumns = r.columns(t, e.labelColumns)
	for row := range rows.all {
		if r.unserved(view{t: t, row: row}, e.labelColumns) >= 0 {
			rows.remove(row)
		}
	}
	clear(e.labelColumns) // keeps no table alive
}

// columns finds the label columns of r.keys.
func (r *volumeBinding) columns(t *Table, into []*labelColumn) []*labelColumn {
	into = into[:0]
	for _, key := range r.keys {
		into = append(into, t.labels.column(key))
	}
	return into
}

// narrow keeps the rows that reach the volume in the way that their node serves it.
func (m *migratableVolume) narrow(e *Evaluator, t *Table, rows bitmap) {
	traits := t.traits.contents.contents
	e.exempt = rows.copyOf(e.exempt)
	keep := e.allKeep(len(traits), 0)
	for i := range traits {
		keep[i] = uint8(asInt(m.migrated(&traits[i])))
	}
	narrowDense(t.traits.ofRow, keep, e.exempt)
	rows.without(e.exempt)
	m.csi.narrow(e, t, e.exempt)
	m.inTree.narrow(e, t, rows)
	rows.union(e.exempt)
}

func (m *migratableVolume) migrated(x *trait) bool {
	_, ok := slices.BinarySearch(x.migrated, m.plugin)
	return ok
}

func (m *migratableVolume) matches(v view) bool {
	if m.migrated(v.t.traits.of(v.row)) {
		return m.csi.matches(v)
	}
	return m.inTree.matches(v)
}

// unreached tells why a row cannot have the bound volumes; -1: it can.
func (r *volumeBinding) unreached(v view) int {
	for _, s := range r.bound {
		if !s.matches(v) {
			return volumeOutOfReach
		}
	}
	for i := range r.migratable {
		if !r.migratable[i].matches(v) {
			return volumeOutOfReach
		}
	}
	if r.missing {
		return volumeMissing
	}
	return -1
}

// unserved tells why a row cannot have the unbound claims; -1: it can.
func (r *volumeBinding) unserved(v view, columns []*labelColumn) int {
	for i := range r.claims {
		if name := r.claims[i].query.GetSelectedNode(); name != "" && name != v.t.names[v.row] {
			return noVolumeToBind
		}
	}
	var few [16]uint32
	taken := few[:0]
	for i := range r.claims {
		c := &r.claims[i]
		if c.query.GetSelectedNode() == "" {
			if volume, ok := c.choose(v, columns, taken); ok {
				at, _ := slices.BinarySearch(taken, volume)
				taken = slices.Insert(taken, at, volume)
				continue
			}
		}
		if why := c.unprovided(v, columns); why >= 0 {
			return why
		}
	}
	return -1
}

// choose finds the claim's volume on a row. taken is sorted.
func (c *unboundClaim) choose(v view, columns []*labelColumn, taken []uint32) (uint32, bool) {
	volumes, prebound := c.query.GetVolumes(), c.query.GetPrebound()
	for i := range prebound {
		if !isTaken(taken, volumes[i]) {
			return volumes[i], c.volumes.matches(v, columns, i)
		}
	}
	skip := func(i uint32) bool { return isTaken(taken, volumes[i]) }
	if len(taken) == 0 {
		skip = nil
	}
	i, ok := c.volumes.first(v, columns, prebound, skip)
	if !ok {
		return 0, false
	}
	return volumes[i], true
}

func isTaken(sorted []uint32, x uint32) bool {
	_, found := slices.BinarySearch(sorted, x)
	return found
}

// unprovided tells why nothing can be provisioned for the claim on a row; -1: it can.
func (c *unboundClaim) unprovided(v view, columns []*labelColumn) int {
	if !c.query.GetProvision() {
		return noVolumeToBind
	}
	if c.topologies != nil && !c.topologies.any(v, columns) {
		return noVolumeToBind
	}
	if c.capacities != nil && !c.capacities.any(v, columns) {
		return noSpace
	}
	return -1
}

func (r *volumeBinding) passes(v view) bool {
	var few [8]*labelColumn
	return r.unreached(v) < 0 && (len(r.claims) == 0 || r.unserved(v, r.columns(v.t, few[:0])) < 0)
}

func (r *volumeBinding) refusals(v view, into []int) []int {
	var few [8]*labelColumn
	for _, why := range [...]int{r.unreached(v), r.unserved(v, r.columns(v.t, few[:0]))} {
		if why >= 0 {
			into = append(into, why)
		}
	}
	slices.Sort(into)
	return into
}
