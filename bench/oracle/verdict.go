package oracle

import (
	"context"
	"errors"
	"fmt"
	"math"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// Verdict is what upstream says of one pod.
type Verdict struct {
	// Nodes is the number of nodes in the cluster.
	Nodes int
	// Feasible are the nodes that the pod fits on, by name.
	Feasible map[string]*Scored
	// Refused are the others, unless the pod was refused before any node was looked at.
	Refused map[string]Refusal
	// Err is why no node can be chosen: a FitError, or an error of a plugin. Nil where
	// one can. Its text is what a pod's condition says, but for what PostFilter adds.
	Err error
	// ScoreErr is an error of scoring. It is in Err too, but not where a single node
	// is feasible, which upstream does not score.
	ScoreErr error
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
	// Raw is before NormalizeScore, Weighted after it and times the weight.
	Raw, Weighted int64
}

// Refusal is why a node does not fit.
type Refusal struct {
	Plugin       string
	Reasons      []string
	Unresolvable bool
}

// Best is the highest total; false where nothing was scored.
func (v *Verdict) Best() (int64, bool) {
	best := int64(math.MinInt64)
	for _, s := range v.Feasible {
		best = max(best, s.Total)
	}
	return best, len(v.Feasible) > 0 && v.ScoreErr == nil
}

// errNoNodes has upstream's text for a cluster without a node.
var errNoNodes = errors.New("no nodes available to schedule pods")

// Judge judges a pod against every node.
func (o *Oracle) Judge(ctx context.Context, pod *v1.Pod) (*Verdict, error) {
	ctx = klog.NewContext(ctx, quiet())
	if err := o.refresh(); err != nil {
		return nil, fmt.Errorf("snapshot: %w", err)
	}
	all, err := o.List()
	if err != nil {
		return nil, err
	}
	v := &Verdict{Nodes: len(all), Feasible: map[string]*Scored{}, Refused: map[string]Refusal{}}
	if len(all) == 0 {
		v.Err = errNoNodes
		return v, nil
	}
	j := judgement{o: o, pod: pod, state: framework.NewCycleState(), verdict: v}
	if feasible := j.filter(ctx, all); len(feasible) > 0 {
		j.score(ctx, feasible)
	}
	return v, nil
}

// judgement is one scheduling cycle.
type judgement struct {
	o       *Oracle
	pod     *v1.Pod
	state   fwk.CycleState
	verdict *Verdict
}

// filter runs PreFilter, and Filter on every node that it leaves.
func (j *judgement) filter(ctx context.Context, all []fwk.NodeInfo) []fwk.NodeInfo {
	fit := &framework.FitError{
		Pod: j.pod, NumAllNodes: len(all),
		Diagnosis: framework.Diagnosis{NodeToStatus: framework.NewDefaultNodeToStatus()},
	}
	narrowed, status, by := j.o.framework.RunPreFilterPlugins(ctx, j.state, j.pod)
	if !status.IsSuccess() {
		j.verdict.Err = status.AsError()
		if status.IsRejected() {
			fit.Diagnosis.PreFilterMsg = status.Message()
			j.verdict.Err = fit
		}
		return nil
	}
	var outside *fwk.Status
	if !narrowed.AllNodes() {
		outside = fwk.NewStatus(fwk.UnschedulableAndUnresolvable, fmt.Sprintf("node(s) didn't satisfy plugin(s) %v", sets.List(by)))
		fit.Diagnosis.NodeToStatus.SetAbsentNodesStatus(outside)
	}
	var feasible []fwk.NodeInfo
	for _, info := range all {
		name := info.Node().Name
		if !narrowed.AllNodes() && !narrowed.NodeNames.Has(name) {
			j.verdict.Refused[name] = refusal(outside)
			continue
		}
		status := j.o.framework.RunFilterPluginsWithNominatedPods(ctx, j.state, j.pod, info)
		switch {
		case status.IsSuccess():
			feasible = append(feasible, info)
			j.verdict.Feasible[name] = &Scored{}
		case status.IsRejected():
			fit.Diagnosis.NodeToStatus.Set(name, status)
			j.verdict.Refused[name] = refusal(status)
		default:
			j.verdict.Err = status.AsError()
			return nil
		}
	}
	if len(feasible) == 0 {
		j.verdict.Err = fit
	}
	return feasible
}

func refusal(s *fwk.Status) Refusal {
	return Refusal{Plugin: s.Plugin(), Reasons: s.Reasons(), Unresolvable: s.Code() == fwk.UnschedulableAndUnresolvable}
}

// score runs PreScore, and Score on every feasible node.
func (j *judgement) score(ctx context.Context, feasible []fwk.NodeInfo) {
	if err := j.scoreAll(ctx, feasible); err != nil {
		j.verdict.ScoreErr = err
		if len(feasible) > 1 {
			j.verdict.Err = err
		}
	}
}

func (j *judgement) scoreAll(ctx context.Context, feasible []fwk.NodeInfo) error {
	if status := j.o.framework.RunPreScorePlugins(ctx, j.state, j.pod, feasible); !status.IsSuccess() {
		return status.AsError()
	}
	scores, status := j.o.framework.RunScorePlugins(ctx, j.state, j.pod, feasible)
	if !status.IsSuccess() {
		return status.AsError()
	}
	for i := range scores {
		s := j.verdict.Feasible[scores[i].Name]
		s.Total = scores[i].TotalScore
		for _, p := range scores[i].Scores {
			raw, status := j.o.plugins[p.Name].(fwk.ScorePlugin).Score(ctx, j.state, j.pod, feasible[i])
			if !status.IsSuccess() {
				return status.AsError()
			}
			s.Plugins = append(s.Plugins, PluginScore{Plugin: p.Name, Raw: raw, Weighted: p.Score})
		}
	}
	return nil
}
