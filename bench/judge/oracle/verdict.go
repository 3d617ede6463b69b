package oracle

import (
	"errors"
	"math"

	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// Verdict is what upstream says of one pod.
type Verdict struct {
	// Nodes is the number of nodes in the cluster.
	Nodes int
	// Feasible are the nodes that the pod fits on, by name.
	Feasible map[string]*Scored
	// Refused are the others, as far as they were looked at: none where the pod was
	// refused before any was, or where it fits on the node that it is nominated to.
	Refused map[string]Refusal
	// Fatal are the errors of nodes, by name, each of which ends the cycle whatever is feasible.
	Fatal map[string]string
	// Nominated says that the pod fits on the node that it is nominated to, so that no
	// other was looked at.
	Nominated bool
	// Err is why no node can be chosen: a FitError, or an error of a plugin. Nil where
	// one can. Its text is what a pod's condition says, but for what PostFilter adds.
	Err error
	// ScoreErr is an error of scoring. It is in Err too, but not where a single node
	// is feasible, which upstream does not score.
	ScoreErr error

	cycle *cycle
}

// Scored is a feasible node.
type Scored struct {
	Total   int64
	Plugins []PluginScore
}

// Plugin is a plugin's part; zeros for one that was skipped.
func (s *Scored) Plugin(name string) PluginScore {
	for _, p := range s.Plugins {
		if p.Plugin == name {
			return p
		}
	}
	return PluginScore{Plugin: name}
}

// PluginScore is a plugin's part of a node's score. A plugin that was skipped has none.
type PluginScore struct {
	Plugin string
	// Raw is before NormalizeScore, Normalised after it, and Weighted is that times
	// the weight.
	Raw, Normalised, Weighted int64
}

// Refusal is why a node does not fit.
type Refusal struct {
	Plugin       string
	Reasons      []string
	Unresolvable bool
}

func refusal(s *fwk.Status) Refusal {
	return Refusal{Plugin: s.Plugin(), Reasons: s.Reasons(), Unresolvable: s.Code() == fwk.UnschedulableAndUnresolvable}
}

// Best is the highest total; false where nothing was scored.
func (v *Verdict) Best() (int64, bool) {
	best := int64(math.MinInt64)
	for _, s := range v.Feasible {
		best = max(best, s.Total)
	}
	return best, len(v.Feasible) > 0 && v.ScoreErr == nil
}

// Unfit tells whether no node can be chosen because none fits, as opposed to an error.
func (v *Verdict) Unfit() bool {
	var fit *framework.FitError
	return errors.As(v.Err, &fit)
}

// Rejected tells whether no node can be chosen, as opposed to an error: none fits, or there is none.
func (v *Verdict) Rejected() bool { return v.Unfit() || errors.Is(v.Err, errNoNodes) }

// Text is why no node can be chosen, with what PostFilter adds; empty where one can.
func (v *Verdict) Text(p *Preemption) string {
	if v.Err == nil {
		return ""
	}
	if v.Unfit() {
		v.cycle.fit.Diagnosis.PostFilterMsg = p.Message
	}
	return v.Err.Error()
}

// errNoNodes has upstream's text for a cluster without a node.
var errNoNodes = errors.New("no nodes available to schedule pods")
