package scorer

import (
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// volumeZone is the plugin VolumeZone: where a node has a zone or region at all, it must
// be one that each of the pod's bound volumes is labelled with.
type volumeZone struct {
	oneReason
	required []zoneRequirement
}

// zoneRequirement is one label of a volume.
type zoneRequirement struct {
	requirement
	// fallback is looked at where a node lacks the label; an empty key: nothing is.
	fallback requirement
}

// zoneLabels are the labels that make a node one with a zone or region.
func zoneLabels() [4]string {
	return [...]string{
		"failure-domain.beta.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/region",
		"topology.kubernetes.io/zone", "topology.kubernetes.io/region",
	}
}

func newVolumeZone(q *pb.Query) *volumeZone {
	const text = "node(s) had no available volume zone"
	r := &volumeZone{oneReason: newReason(pb.Plugin_PLUGIN_VOLUME_ZONE, text, true)}
	for _, z := range q.GetVolumeZones() {
		in := requirement{key: z.GetKey(), operator: pb.SelectorOperator_SELECTOR_OPERATOR_IN, values: z.GetValues()}
		other := in
		other.key = z.GetFallbackKey()
		r.required = append(r.required, zoneRequirement{in, other})
	}
	return r
}

func (r *volumeZone) plugin() pb.Plugin { return pb.Plugin_PLUGIN_VOLUME_ZONE }

func (r *volumeZone) narrow(e *Evaluator, t *Table, rows bitmap) {
	if len(r.required) == 0 {
		return
	}
	// Only rows with a zone are narrowed; the others come back afterwards.
	e.exempt = rows.copyOf(e.exempt)
	for _, key := range zoneLabels() {
		absent := requirement{key: key, operator: pb.SelectorOperator_SELECTOR_OPERATOR_DOES_NOT_EXIST}
		absent.narrow(e, t, e.exempt)
	}
	for i := range r.required {
		r.required[i].narrow(e, t, rows)
	}
	rows.union(e.exempt)
}

func (z *zoneRequirement) narrow(e *Evaluator, t *Table, rows bitmap) {
	if z.fallback.key == "" {
		z.requirement.narrow(e, t, rows)
		return
	}
	e.term = rows.copyOf(e.term)
	absent := requirement{key: z.key, operator: pb.SelectorOperator_SELECTOR_OPERATOR_DOES_NOT_EXIST}
	absent.narrow(e, t, e.term)
	z.fallback.narrow(e, t, e.term)
	z.requirement.narrow(e, t, rows)
	rows.union(e.term)
}

func (r *volumeZone) passes(v view) bool {
	zoned := false
	for _, key := range zoneLabels() {
		_, has := v.t.labels.lookup(v.row, key)
		zoned = zoned || has
	}
	if !zoned {
		return true
	}
	for i := range r.required {
		z := &r.required[i]
		value, has := v.t.labels.lookup(v.row, z.key)
		if !has && z.fallback.key != "" {
			value, has = v.t.labels.lookup(v.row, z.fallback.key)
		}
		if !has || !z.lists(value) {
			return false
		}
	}
	return true
}
