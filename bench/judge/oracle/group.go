package oracle

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	schedulingv1alpha2 "k8s.io/api/scheduling/v1alpha2"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	resourcehelper "k8s.io/component-helpers/resource"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	schedutil "k8s.io/kubernetes/pkg/scheduler/util"
)

// Placement is nodes that the members of a pod group share: a domain, or the whole cluster. Its name is the domain's value.
type Placement struct {
	*fwk.Placement
	nodes map[string]bool
}

// of are the nodes that are in a placement; all are in none.
func (p *Placement) of(all []fwk.NodeInfo) []fwk.NodeInfo {
	if p == nil {
		return all
	}
	return slices.DeleteFunc(slices.Clone(all), func(n fwk.NodeInfo) bool { return !p.nodes[n.Node().Name] })
}

// Domain is the nodes whose label has a value.
func (o *Oracle) Domain(key, value string) *Placement {
	p := &Placement{nodes: map[string]bool{}}
	for name, n := range o.nodes {
		if v, ok := n.Labels[key]; ok && v == value {
			p.nodes[name] = true
		}
	}
	return p
}

// PodGroup is the pod group that a pod is a member of; nil: there is none.
func (o *Oracle) PodGroup(pod *v1.Pod) *schedulingv1alpha2.PodGroup {
	if pod.Spec.SchedulingGroup == nil || !groupsOn() {
		return nil
	}
	lister := o.objects.informers.Scheduling().V1alpha2().PodGroups().Lister()
	g, err := lister.PodGroups(pod.Namespace).Get(*pod.Spec.SchedulingGroup.PodGroupName)
	if err != nil { // of a lister: it is not there
		return nil
	}
	return g
}

// Placements are those that upstream tries for members of a pod group, by name: one, without a name, of all nodes where the gate
// is off. The error is what upstream fails them with.
func (o *Oracle) Placements(ctx context.Context, members []*v1.Pod) ([]*Placement, error) {
	ctx = klog.NewContext(ctx, quiet())
	if err := o.refresh(); err != nil {
		return nil, fmt.Errorf("snapshot: %w", err)
	}
	all, err := o.List()
	if err != nil {
		return nil, err
	}
	list, status := o.profileOf(members[0]).RunPlacementGeneratePlugins(ctx, framework.NewCycleState(), groupOf(members), all)
	if !status.IsSuccess() {
		return nil, status.AsError()
	}
	var out []*Placement
	for _, p := range list {
		x := &Placement{Placement: p, nodes: map[string]bool{}}
		for _, n := range p.Nodes {
			x.nodes[n.Node().Name] = true
		}
		out = append(out, x)
	}
	slices.SortFunc(out, func(a, b *Placement) int { return strings.Compare(a.Name, b.Name) })
	return out, nil
}

// Domains are the values of the label that the pod group of a pod asks for, of the nodes of its scheduled members.
func (o *Oracle) Domains(pod *v1.Pod) (out []string) {
	g := o.PodGroup(pod)
	state, err := o.cache.PodGroupStates().Get(g.Namespace, g.Name)
	if err != nil { // no member is known
		return nil
	}
	for _, member := range state.ScheduledPods() {
		n := o.nodes[member.Spec.NodeName]
		if n == nil {
			continue
		}
		if value, has := n.Labels[g.Spec.SchedulingConstraints.Topology[0].Key]; has {
			out = append(out, value)
		}
	}
	return out
}

// Missing is how many members a gang lacks on nodes; 0 of a pod group that is none, or is not there.
func (o *Oracle) Missing(g *schedulingv1alpha2.PodGroup) int {
	if g == nil || g.Spec.SchedulingPolicy.Gang == nil {
		return 0
	}
	scheduled := 0
	if state, err := o.cache.PodGroupStates().Get(g.Namespace, g.Name); err == nil { // else no member is known
		scheduled = state.ScheduledPodsCount()
	}
	return int(g.Spec.SchedulingPolicy.Gang.MinCount) - scheduled
}

func groupOf(members []*v1.Pod) *framework.PodGroupInfo {
	return &framework.PodGroupInfo{
		Namespace: members[0].Namespace, Name: *members[0].Spec.SchedulingGroup.PodGroupName, UnscheduledPods: members,
	}
}

// Proposal is a placement with the nodes that members would get in it.
type Proposal struct {
	*Placement
	Nodes map[types.UID]string
}

// assignment is a member with the node that it would get.
type assignment struct {
	pod  *v1.Pod
	node string
}

func (a assignment) GetPod() *v1.Pod     { return a.pod }
func (a assignment) GetNodeName() string { return a.node }

// ScorePlacements are the totals that upstream gives to proposals for a pod group.
func (o *Oracle) ScorePlacements(ctx context.Context, members []*v1.Pod, proposals []*Proposal) ([]int64, error) {
	ctx = klog.NewContext(ctx, quiet())
	if err := o.refresh(); err != nil {
		return nil, fmt.Errorf("snapshot: %w", err)
	}
	var all []*fwk.PodGroupAssignments
	for _, p := range proposals {
		a := &fwk.PodGroupAssignments{Placement: p.Placement.Placement}
		for _, pod := range members {
			if node := p.Nodes[pod.UID]; node != "" {
				a.ProposedAssignments = append(a.ProposedAssignments, assignment{flat(pod), node})
			}
		}
		all = append(all, a)
	}
	scores, status := o.profileOf(members[0]).RunPlacementScorePlugins(ctx, framework.NewCycleState(), groupOf(members), all)
	if !status.IsSuccess() {
		return nil, status.AsError()
	}
	var out []int64
	for _, s := range scores {
		out = append(out, s.TotalScore)
	}
	return out, nil
}

// Suspend takes the nominations of members back for as long as their pod group is tried: those whose turn comes later are not in the way of
// those before them.
func (o *Oracle) Suspend(members []*v1.Pod) (resume func()) {
	for _, pod := range members {
		o.nominated.suspend(pod)
	}
	return func() {
		for _, pod := range members {
			if o.Pending(pod.UID) != nil { // else it is placed
				o.nominated.resume(pod)
			}
		}
	}
}

// flat is a pod whose requests are those of its containers: upstream overlooks what a pod itself requests where it scores domains, and
// counts it everywhere else. Ours counts it there, too.
func flat(pod *v1.Pod) *v1.Pod {
	if pod.Spec.Resources == nil {
		return pod
	}
	requests := resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{NonMissingContainerRequests: v1.ResourceList{
		v1.ResourceCPU:    *resource.NewMilliQuantity(schedutil.DefaultMilliCPURequest, resource.DecimalSI),
		v1.ResourceMemory: *resource.NewQuantity(schedutil.DefaultMemoryRequest, resource.DecimalSI),
	}})
	pod = pod.DeepCopy()
	pod.Spec.Resources, pod.Spec.Overhead, pod.Spec.InitContainers = nil, nil, nil
	pod.Spec.Containers = []v1.Container{{Name: "all", Resources: v1.ResourceRequirements{Requests: requests}}}
	return pod
}

// Trial is a member on a node for as long as its pod group is tried.
type Trial struct {
	o       *Oracle
	verdict *Verdict
	placed  *v1.Pod
	// claims are those that it has got devices for.
	claims []*resourcev1.ResourceClaim
}

// Try assumes the pod of a verdict on a node, and reserves there. Unlike upstream's snapshot, the cache takes in what the pod
// declares of pods beside it: a later mate is held to it, and to the nodes of claims that it shares.
func (o *Oracle) Try(ctx context.Context, v *Verdict, node string) (*Trial, error) {
	ctx = klog.NewContext(ctx, quiet())
	placed := v.cycle.pod.DeepCopy()
	placed.Spec.NodeName = node
	t := &Trial{o: o, verdict: v, placed: placed}
	o.objects.devices.allocated = nil
	if err := o.cache.AssumePod(quiet(), placed); err != nil {
		return nil, fmt.Errorf("assume pod %s/%s on %s: %w", placed.Namespace, placed.Name, node, err)
	}
	if status := v.cycle.profile.RunReservePluginsReserve(ctx, v.cycle.state, placed, node); !status.IsSuccess() {
		return nil, errors.Join(status.AsError(), t.Undo(ctx))
	}
	claims := o.objects.devices.DefaultDRAManager.ResourceClaims()
	for _, claim := range o.objects.devices.allocated {
		if claim.Name == SpecialClaim {
			continue
		}
		by := resourcev1.ResourceClaimConsumerReference{Resource: "pods", Name: placed.Name, UID: placed.UID}
		claim.Status.ReservedFor = append(claim.Status.ReservedFor, by)
		if err := claims.AssumeClaimAfterAPICall(claim); err != nil {
			return nil, errors.Join(fmt.Errorf("assume claim %s/%s: %w", claim.Namespace, claim.Name, err), t.Undo(ctx))
		}
		claims.MaybeRemoveClaimPendingAllocation(claim.UID, true)
		t.claims = append(t.claims, claim)
	}
	return t, nil
}

// Undo takes the member from its node.
func (t *Trial) Undo(ctx context.Context) error {
	c := t.verdict.cycle
	c.profile.RunReservePluginsUnreserve(klog.NewContext(ctx, quiet()), c.state, t.placed, t.placed.Spec.NodeName)
	for _, claim := range t.claims {
		t.o.objects.devices.DefaultDRAManager.ResourceClaims().AssumedClaimRestore(claim.Namespace, claim.Name)
	}
	return errors.Join(t.o.cache.ForgetPod(quiet(), t.placed), t.o.takePorts(t.placed))
}

// Permits tells whether upstream's Permit lets the pod of a verdict, which is assumed on a node, and with it its pod group, go on.
func (o *Oracle) Permits(ctx context.Context, v *Verdict, node string) (bool, error) {
	if err := o.refresh(); err != nil {
		return false, fmt.Errorf("snapshot: %w", err)
	}
	placed := v.cycle.pod.DeepCopy()
	placed.Spec.NodeName = node
	_, status := v.cycle.profile.RunPermitPlugins(klog.NewContext(ctx, quiet()), v.cycle.state, placed, node)
	return status.IsSuccess(), nil
}

// mayPreempt tells whether DefaultPreemption looks for victims of a pod by itself.
func (o *Oracle) mayPreempt(pod *v1.Pod) bool {
	if pod.Spec.SchedulingGroup == nil || !groupsOn() {
		return true
	}
	g := o.PodGroup(pod)
	return !preemptionOn() && (!topologyOn() || g != nil && g.Spec.SchedulingConstraints == nil)
}

// nobody is activated: the queue of the oracle pops no pod.
type nobody struct{}

func (nobody) Activate(klog.Logger, map[string]*v1.Pod) {}
