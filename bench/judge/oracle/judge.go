package oracle

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// Judge judges a pod against every node, or, where it is nominated to one and fits there,
// against that one.
func (o *Oracle) Judge(ctx context.Context, pod *v1.Pod) (*Verdict, error) {
	return o.JudgeWithin(ctx, pod, nil)
}

// JudgeWithin judges a pod against the nodes of a placement; nil: against all.
func (o *Oracle) JudgeWithin(ctx context.Context, pod *v1.Pod, within *Placement) (*Verdict, error) {
	if err := o.refresh(); err != nil {
		return nil, fmt.Errorf("snapshot: %w", err)
	}
	return o.judgeNow(klog.NewContext(ctx, quiet()), pod, within)
}

// judgeNow is JudgeWithin of the snapshot as it is.
func (o *Oracle) judgeNow(ctx context.Context, pod *v1.Pod, within *Placement) (*Verdict, error) {
	all, err := o.List()
	if err != nil {
		return nil, err
	}
	all = within.of(all)
	profile := o.profileOf(pod)
	if profile == nil {
		return nil, fmt.Errorf("pod %s/%s: there is no profile %q", pod.Namespace, pod.Name, pod.Spec.SchedulerName)
	}
	c := &cycle{profile: profile, pod: pod, state: framework.NewCycleState(), within: within}
	if groupsOn() && pod.Spec.SchedulingGroup != nil {
		c.state.SetPodGroupSchedulingCycle(framework.NewCycleState())
	}
	c.verdict = &Verdict{Nodes: len(all), Feasible: map[string]*Scored{}, Refused: map[string]Refusal{}, Fatal: map[string]string{}, cycle: c}
	if len(all) == 0 {
		c.verdict.Err = errNoNodes
		return c.verdict, nil
	}
	if feasible := c.filter(ctx, o, all); len(feasible) > 0 {
		c.score(ctx, feasible)
	}
	return c.verdict, nil
}

// cycle is one scheduling cycle.
type cycle struct {
	profile *profile
	pod     *v1.Pod
	state   fwk.CycleState
	verdict *Verdict
	fit     *framework.FitError
	within  *Placement
}

// filter runs PreFilter, and Filter on the nominated node or on every node that PreFilter
// leaves.
func (c *cycle) filter(ctx context.Context, o *Oracle, all []fwk.NodeInfo) []fwk.NodeInfo {
	c.fit = &framework.FitError{
		Pod: c.pod, NumAllNodes: len(all),
		Diagnosis: framework.Diagnosis{NodeToStatus: framework.NewDefaultNodeToStatus()},
	}
	narrowed, status, by := c.profile.RunPreFilterPlugins(ctx, c.state, c.pod)
	if !status.IsSuccess() {
		c.verdict.Err = status.AsError()
		if status.IsRejected() {
			c.fit.Diagnosis.PreFilterMsg = status.Message()
			c.fit.Diagnosis.NodeToStatus.SetAbsentNodesStatus(status)
			c.verdict.Err = c.fit
		}
		return nil
	}
	if feasible := c.nominated(ctx, o); len(feasible) > 0 {
		return feasible
	}
	nodes := all
	if !narrowed.AllNodes() {
		outside := fwk.NewStatus(fwk.UnschedulableAndUnresolvable, fmt.Sprintf("node(s) didn't satisfy plugin(s) %v", sets.List(by)))
		nodes = c.narrow(all, narrowed.NodeNames, outside)
	}
	feasible, err := c.try(ctx, nodes)
	if err != nil {
		c.verdict.Err = err
		return nil
	}
	if len(feasible) == 0 {
		c.verdict.Err = c.fit
	}
	return feasible
}

// nominated tries the node that the pod is nominated to. Where that does not work out, an
// error is forgotten and a refusal stands beside the others, even one of a node that
// PreFilter has left out.
func (c *cycle) nominated(ctx context.Context, o *Oracle) []fwk.NodeInfo {
	name := c.pod.Status.NominatedNodeName
	if name == "" {
		return nil
	}
	info, err := o.Get(name)
	if err != nil || len(c.within.of([]fwk.NodeInfo{info})) == 0 {
		return nil
	}
	feasible, err := c.try(ctx, []fwk.NodeInfo{info})
	if err != nil {
		delete(c.verdict.Feasible, name)
		delete(c.verdict.Fatal, name)
		return nil
	}
	c.verdict.Nominated = len(feasible) > 0
	return feasible
}

// narrow refuses the nodes outside of a set and returns the others.
func (c *cycle) narrow(all []fwk.NodeInfo, inside sets.Set[string], outside *fwk.Status) (nodes []fwk.NodeInfo) {
	c.fit.Diagnosis.NodeToStatus.SetAbsentNodesStatus(outside)
	for _, info := range all {
		name := info.Node().Name
		if inside.Has(name) {
			nodes = append(nodes, info)
		} else if _, tried := c.verdict.Refused[name]; !tried {
			c.verdict.Refused[name] = refusal(outside)
		}
	}
	return nodes
}

// try runs Filter on nodes, with and without the pods that are nominated to them. An error on any
// ends the cycle: which of several, the node's name decides.
func (c *cycle) try(ctx context.Context, nodes []fwk.NodeInfo) (feasible []fwk.NodeInfo, err error) {
	first := ""
	for _, info := range nodes {
		name := info.Node().Name
		status := c.profile.RunFilterPluginsWithNominatedPods(ctx, c.state, c.pod, info)
		switch {
		case status.IsSuccess():
			feasible = append(feasible, info)
			c.verdict.Feasible[name] = &Scored{}
		case status.IsRejected():
			c.fit.Diagnosis.NodeToStatus.Set(name, status)
			c.verdict.Refused[name] = refusal(status)
		default:
			c.verdict.Fatal[name] = status.AsError().Error()
			if err == nil || name < first {
				first, err = name, status.AsError()
			}
		}
	}
	if err != nil {
		return nil, err
	}
	return feasible, nil
}

// score runs PreScore, and Score on every feasible node.
func (c *cycle) score(ctx context.Context, feasible []fwk.NodeInfo) {
	if err := c.scoreAll(ctx, feasible); err != nil {
		c.verdict.ScoreErr = err
		if len(feasible) > 1 {
			c.verdict.Err = err
		}
	}
}

func (c *cycle) scoreAll(ctx context.Context, feasible []fwk.NodeInfo) error {
	if status := c.profile.RunPreScorePlugins(ctx, c.state, c.pod, feasible); !status.IsSuccess() {
		return status.AsError()
	}
	scores, status := c.profile.RunScorePlugins(ctx, c.state, c.pod, feasible)
	if !status.IsSuccess() {
		return status.AsError()
	}
	for i := range scores {
		s := c.verdict.Feasible[scores[i].Name]
		s.Total = scores[i].TotalScore
		for _, p := range scores[i].Scores {
			raw, status := c.profile.plugins[p.Name].(fwk.ScorePlugin).Score(ctx, c.state, c.pod, feasible[i])
			if !status.IsSuccess() {
				return status.AsError()
			}
			s.Plugins = append(s.Plugins, PluginScore{Plugin: p.Name, Raw: raw, Normalised: p.Score / c.profile.weights[p.Name],
				Weighted: p.Score})
		}
	}
	return nil
}
