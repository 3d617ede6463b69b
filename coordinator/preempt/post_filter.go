package preempt

import (
	"context"
	"slices"

	v1 "k8s.io/api/core/v1"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/shardsched/shardsched/coordinator/answers"
	"github.com/shardsched/shardsched/coordinator/extender"
	"github.com/shardsched/shardsched/coordinator/objects"
	"github.com/shardsched/shardsched/scorer"
)

// Outcome is what DefaultPreemption makes of an attempt that has found no node.
type Outcome struct {
	Result *fwk.PostFilterResult
	Status *fwk.Status
	// Victims have to leave: the nominated node, and with WholeGangs those of their pod groups other nodes.
	Victims []*v1.Pod
	// Asking is set where extenders have to be asked first: the attempt is to be parked, and is resumed with it once they have
	// answered, or once it is its turn to have them asked.
	Asking *Advice
}

// PostFilter is DefaultPreemption's PostFilter. An error ends the loop; an error of the attempt is a status.
func (f *Finder) PostFilter(ctx context.Context, p *Preemptor) (Outcome, error) {
	if p.Advice == nil {
		f.Attempts.Inc()
	}
	if p.Ineligible != "" {
		return Outcome{Status: refusal(p.Ineligible)}, nil
	}
	pod, nominated := p.Pod.Obj, p.Pod.Nomination()
	f.followWholes()
	if p.Answer = f.answerFor(p); p.Answer != nil {
		p.nominees, p.leftOut = f.Nominees.Of(pod, p.Class, nil), f.Engine.LeftOut(p.Class, nominated)
	}
	units := wholeUnits{f, f.ownWhole(pod)}
	if why := ineligible(pod, nominated, f.isUseless(p, nominated), f.Nodes.PodsOn(nominated), units.leavesBelow); why != "" {
		if why == leaving {
			if rest := units.leftInPart(pod, nominated); len(rest) > 0 {
				return Outcome{Result: nominate(nominated), Victims: rest}, nil
			}
		}
		return Outcome{Status: refusal(why)}, nil
	}
	if list := extender.Preempters(f.Lanes.List(), pod); len(list) > 0 {
		return f.advised(ctx, p, list)
	}
	found, err := f.find(ctx, p, 1)
	if err != nil {
		return Outcome{}, err
	}
	if len(found.best) == 0 {
		return f.noCandidate(found), nil
	}
	best := found.best[0]
	victims, err := f.victims(pod, best)
	if err != nil {
		return Outcome{}, err
	}
	klog.FromContext(ctx).V(2).Info("The target node for the preemption is determined", "node", best.Name, "pod", klog.KObj(pod))
	return Outcome{Result: nominate(best.Name), Victims: f.complete(victims)}, nil
}

// answerFor is the answer that a dry run uses: the preemptor's, or where a plugin's PreFilter has rejected the pod in
// a way that victims may change, on all nodes, the answer of the class; nil: nothing helps.
func (f *Finder) answerFor(p *Preemptor) *answers.Answer {
	switch rejected := p.Plugins.Rejected(); {
	case rejected == nil:
		return p.Answer
	case rejected.Code() != fwk.Unschedulable:
		return nil
	}
	return f.Engine.Repaired(p.Class)
}

// isUseless tells whether a pod's nominated node is gone, or refuses the pod for a reason which no victim changes.
func (f *Finder) isUseless(p *Preemptor, node string) bool {
	if node == "" || p.Answer == nil {
		return true // a PreFilter has rejected the pod, whatever the node
	}
	row, ok := f.Nodes.RowOf(node)
	if !ok {
		return true
	}
	if status, said := p.Plugins.Status(row, node); said && !status.IsSuccess() {
		return status.Code() == fwk.UnschedulableAndUnresolvable
	}
	var why []scorer.Reason
	if p.leftOut != nil {
		_, why = p.leftOut.Reasons(p.Answer, p.nominees.ByRow()[row].ForEngine())
	}
	if why == nil {
		why = p.Answer.WhyRefused(row)
	}
	if len(why) == 0 {
		why = p.Extenders.WhyRefused(node)
	}
	return slices.ContainsFunc(why, func(r scorer.Reason) bool { return r.Unresolvable })
}

// noCandidate is what DefaultPreemption says where a dry run has found no candidate.
func (f *Finder) noCandidate(found found) Outcome {
	if len(found.failed) > 0 {
		return Outcome{Status: fwk.NewStatus(fwk.Error, Prefix+utilerrors.NewAggregate(found.failed).Error())}
	}
	counts := map[string]int{}
	for _, c := range found.all.Reasons {
		counts[c.Text] += c.Nodes
	}
	counts[notHelpful] += f.Nodes.Nodes() - found.all.Tried
	return Outcome{Result: nominate(""), Status: refusal(answers.FitError(f.Nodes.Nodes(), counts))}
}

// nominate is the result of a PostFilter plugin that nominates a pod to a node; "": to none any more.
func nominate(node string) *fwk.PostFilterResult {
	return &fwk.PostFilterResult{NominatingInfo: &fwk.NominatingInfo{NominatingMode: fwk.ModeOverride, NominatedNodeName: node}}
}

// Nominating is what a result makes of a pod's nominated node.
func Nominating(r *fwk.PostFilterResult) *objects.Nominating {
	if r == nil || r.Mode() != fwk.ModeOverride {
		return nil
	}
	return &objects.Nominating{Node: r.NominatedNodeName}
}

// refusal is what DefaultPreemption says where it finds no victims.
func refusal(text string) *fwk.Status { return fwk.NewStatus(fwk.Unschedulable, Prefix+text) }
