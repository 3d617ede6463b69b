package scorer

import (
	"math/bits"
	"slices"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// taintToleration is the plugin TaintToleration. It refuses a node with a NoSchedule
// or NoExecute taint that the pod does not tolerate, and scores it by the number of
// PreferNoSchedule taints that the pod does not tolerate: fewer are better.
type taintToleration struct {
	oneReason
	tolerations []*pb.Toleration
	// preferring are those with effect PreferNoSchedule or none.
	preferring []*pb.Toleration
}

func (r *taintToleration) make(q *pb.Query) *taintToleration {
	*r = taintToleration{
		oneReason:   newReason(pb.Plugin_PLUGIN_TAINT_TOLERATION, "node(s) had untolerated taint(s)", true),
		tolerations: q.GetTolerations(),
	}
	for _, t := range q.GetTolerations() {
		if e := t.GetEffect(); e == pb.TaintEffect_TAINT_EFFECT_UNSPECIFIED || e == pb.TaintEffect_TAINT_EFFECT_PREFER_NO_SCHEDULE {
			r.preferring = append(r.preferring, t)
		}
	}
	return r
}

func (r *taintToleration) plugin() pb.Plugin { return pb.Plugin_PLUGIN_TAINT_TOLERATION }

// admits tells whether the pod tolerates what a list of taints forbids.
func (r *taintToleration) admits(list []taint) bool {
	for i := range list {
		if !list[i].advises() && !tolerates(r.tolerations, &list[i]) {
			return false
		}
	}
	return true
}

// dislikes counts what a list of taints advises against.
func (r *taintToleration) dislikes(list []taint) int64 {
	n := int64(0)
	for i := range list {
		if list[i].advises() && !tolerates(r.preferring, &list[i]) {
			n++
		}
	}
	return n
}

func (r *taintToleration) narrow(e *Evaluator, t *Table, rows bitmap) {
	lists := t.taints.lists.contents
	keep := e.allKeep(len(lists), 1)
	refuses := false
	for i, list := range lists {
		if !r.admits(list) {
			keep[i], refuses = 0, true
		}
	}
	if !refuses {
		return
	}
	for w, word := range rows {
		for word &= t.taints.forbidding[w]; word != 0; word &= word - 1 {
			i := bits.TrailingZeros64(word)
			rows[w] &^= uint64(1-keep[t.taints.ofRow[w*wordRows+i]]) << i
		}
	}
}

func (r *taintToleration) passes(v view) bool { return r.admits(v.t.taints.of(v.row)) }

func (r *taintToleration) column(e *Evaluator, t *Table, rows bitmap, into []int64) (some bitmap) {
	lists := t.taints.lists.contents
	e.listScores = scratch(e.listScores, len(lists))
	disliked := false
	for i, list := range lists {
		e.listScores[i] = r.dislikes(list)
		disliked = disliked || e.listScores[i] > 0
	}
	if !disliked {
		return nil
	}
	e.any = rows.copyOf(e.any)
	e.any.intersect(t.taints.advising)
	for row := range e.any.all {
		into[row] = e.listScores[t.taints.ofRow[row]]
	}
	return e.any
}

// level is for tables where all lists that advise count the same.
func (r *taintToleration) level(e *Evaluator, t *Table, rows bitmap) (some bitmap, score int64, ok bool) {
	first := true
	for _, list := range t.taints.lists.contents {
		if !slices.ContainsFunc(list, taint.advises) {
			continue
		}
		n := r.dislikes(list)
		if !first && n != score {
			return nil, 0, false
		}
		first, score = false, n
	}
	if score == 0 {
		return nil, 0, true
	}
	e.any = rows.copyOf(e.any)
	e.any.intersect(t.taints.advising)
	return e.any, score, true
}

func (r *taintToleration) score(_ *Evaluator, v view) int64 { return r.dislikes(v.t.taints.of(v.row)) }

// tolerates tells whether one of the tolerations is for the taint.
func tolerates(list []*pb.Toleration, t *taint) bool {
	for _, x := range list {
		if isFor(x, t) {
			return true
		}
	}
	return false
}

// isFor tells whether a toleration is for a taint. An empty key is every key, with
// either operator.
func isFor(x *pb.Toleration, t *taint) bool {
	if e := x.GetEffect(); e != pb.TaintEffect_TAINT_EFFECT_UNSPECIFIED && e != t.effect {
		return false
	}
	if x.GetKey() != "" && x.GetKey() != t.key {
		return false
	}
	return x.GetOperator() == pb.TolerationOperator_TOLERATION_OPERATOR_EXISTS || x.GetValue() == t.value
}
