package scorer

import (
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
	"github.com/shardsched/shardsched/scorer/expression"
)

// celRow is a row as expressions read it.
type celRow struct{ view }

// ExpressionNode is a row that holds a node as expressions read it. It is valid until the table changes.
func (t *Table) ExpressionNode(row uint32) expression.Node { return &celRow{view{t, row, nil, nil}} }

// podsResource is how many pods a node takes, as expressions name it.
const podsResource = "pods"

func (r *celRow) Name() string        { return r.t.names[r.row] }
func (r *celRow) Unschedulable() bool { return r.t.unschedulable.has(r.row) }
func (r *celRow) Pods() int64         { return r.pods() }

func (r *celRow) Label(key string) (value string, has bool) { return r.t.labels.lookup(r.row, key) }

func (r *celRow) Annotation(key string) (value string, has bool) {
	return r.t.annotations.lookup(r.row, key)
}

func (r *celRow) Labels(yield func(key, value string) bool) {
	x := &r.t.labels
	for _, i := range x.keySets.contents[x.rowKeys[r.row]] {
		if c := x.columns[i]; !yield(c.key, c.values[c.rows.at(r.row)]) {
			return
		}
	}
}

func (r *celRow) Taints(yield func(key, value, effect string) bool) {
	for _, x := range r.t.taints.of(r.row) {
		if !yield(x.key, x.value, effectName(x.effect)) {
			return
		}
	}
}

// effectName is Kubernetes' name of a taint's effect.
func effectName(e pb.TaintEffect) string {
	switch e {
	case pb.TaintEffect_TAINT_EFFECT_NO_SCHEDULE:
		return "NoSchedule"
	case pb.TaintEffect_TAINT_EFFECT_PREFER_NO_SCHEDULE:
		return "PreferNoSchedule"
	case pb.TaintEffect_TAINT_EFFECT_NO_EXECUTE:
		return "NoExecute"
	}
	return ""
}

func (r *celRow) Images(yield func(name string) bool) {
	for _, i := range r.t.images.ofRow[r.row] {
		if !yield(r.t.images.images[i].name) {
			return
		}
	}
}

// amounts are what a row has of a resource and what its pods ask of it; false: neither.
func (r *celRow) amounts(name string) (allocatable, requested int64, has bool) {
	if name == podsResource {
		return r.t.allowedPods[r.row], r.pods(), true
	}
	ref := newResourceRef(name)
	allocatable, requested = r.view.amounts(ref)
	return allocatable, requested, ref.fixed >= 0 || allocatable != 0 || requested != 0
}

func (r *celRow) Allocatable(name string) (amount int64, has bool) {
	amount, _, has = r.amounts(name)
	return amount, has
}

func (r *celRow) Requested(name string) (amount int64, has bool) {
	_, amount, has = r.amounts(name)
	return amount, has
}

// Resources yields them by name. The totals may have scalars that the row has no more, and lack some that it has.
func (r *celRow) Resources(yield func(resource string) bool) {
	fixed := [...]string{"cpu", "ephemeral-storage", "memory", podsResource}
	rest, own := fixed[:], r.t.scalarsOf[r.row]
	var totals []scalarAmount
	if r.totals != nil {
		totals = r.totals.scalars
	}
	for len(rest)+len(own)+len(totals) > 0 {
		name := lastName
		if len(rest) > 0 {
			name = rest[0]
		}
		if len(own) > 0 {
			name = min(name, own[0].name)
		}
		if len(totals) > 0 {
			name = min(name, totals[0].name)
		}
		if len(rest) > 0 && rest[0] == name {
			rest = rest[1:]
		}
		if len(own) > 0 && own[0].name == name {
			own = own[1:]
		}
		if len(totals) > 0 && totals[0].name == name {
			totals = totals[1:]
		}
		if _, _, has := r.amounts(name); has && !yield(name) {
			return
		}
	}
}

// lastName is behind all names: no text in UTF-8 has this byte.
const lastName = "\xff"
