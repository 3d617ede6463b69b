package oracle

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/defaultpreemption"
	"k8s.io/kubernetes/pkg/scheduler/framework/preemption"
	"k8s.io/kubernetes/pkg/scheduler/util"
)

// Preemption is what upstream's PostFilter plugins make of a pod that fits nowhere.
type Preemption struct {
	// Message is what they add to the FitError; empty where there are candidates.
	Message string
	// Clears tells that the pod loses its nomination.
	Clears bool
	// Candidates are the nodes that the pod would fit on without some pods, by name.
	Candidates map[string]*Candidate
	// Written are claims of devices that a scheduler now takes the allocation from, as it writes
	// them, and Deleted those that it deletes. Of several that it may choose from, upstream takes any.
	Written, Deleted []Object
	best             *Candidate
}

// Candidate is a node that a pod would fit on without its victims.
type Candidate struct {
	Node string
	// Victims are namespace/name, the most important first.
	Victims []string
	// Violations counts the victims that disruption budgets protect.
	Violations int

	pods []*v1.Pod
}

// Rank spells the criteria that candidates are compared by: equal texts are equal ranks.
func (c *Candidate) Rank() string {
	sum, earliest := int64(0), int64(0)
	for _, p := range c.pods {
		sum += int64(priority(p)) + 1<<31
		if start := util.GetPodStartTime(p).UnixNano(); priority(p) == priority(c.pods[0]) && (earliest == 0 || start < earliest) {
			earliest = start
		}
	}
	if slices.ContainsFunc(c.pods, func(p *v1.Pod) bool { return p.Status.StartTime == nil }) {
		earliest = 0 // now, which passes
	}
	return fmt.Sprintf("%d violations, highest priority %d, sum %d, %d victims, started %d", c.Violations, priority(c.pods[0]), sum,
		len(c.pods), earliest)
}

func (c *Candidate) String() string {
	return fmt.Sprintf("%s without [%s]: %s", c.Node, strings.Join(c.Victims, " "), c.Rank())
}

func priority(p *v1.Pod) int32 {
	if p.Spec.Priority == nil {
		return 0
	}
	return *p.Spec.Priority
}

// Best is a candidate that upstream would have chosen; nil: there is none. There may be
// others of its rank.
func (p *Preemption) Best() *Candidate { return p.best }

// Nodes are the candidates' names, sorted.
func (p *Preemption) Nodes() []string { return slices.Sorted(maps.Keys(p.Candidates)) }

// Preempt runs the PostFilter plugins for a pod that was judged to fit nowhere, on the state that
// it was judged in. Of DefaultPreemption every potential node is tried, and nobody is
// evicted.
func (o *Oracle) Preempt(ctx context.Context, v *Verdict) (*Preemption, error) {
	ctx = klog.NewContext(ctx, quiet())
	out, c := &Preemption{Candidates: map[string]*Candidate{}}, v.cycle
	if c.fit == nil || !v.Unfit() {
		return out, nil
	}
	o.api.written, o.api.deleted = nil, nil
	defer func() {
		out.Deleted = o.api.deleted
		out.Written = slices.DeleteFunc(o.api.written, func(w Object) bool {
			return slices.ContainsFunc(out.Deleted, func(d Object) bool { return sameObject(w, d) })
		})
	}()
	if hasPorts(c.pod) {
		nodes, err := o.NodeInfos().List()
		if err != nil {
			return nil, err
		}
		for _, node := range nodes {
			restore, err := keepPorts(node.(*framework.NodeInfo), priority(c.pod))
			if err != nil {
				return nil, err
			}
			defer restore()
		}
	}
	var reasons []string
	for _, e := range c.profile.ListPlugins().PostFilter.Enabled {
		plugin := c.profile.plugins[e.Name].(fwk.PostFilterPlugin)
		var failed []error
		if d, ok := plugin.(*defaultpreemption.DefaultPreemption); ok && o.mayPreempt(c.pod) {
			var err error
			if failed, err = o.dryRun(ctx, d, c, out); err != nil {
				return nil, err
			}
			if len(out.Candidates) > 0 {
				return out, nil
			}
		}
		result, status := plugin.PostFilter(ctx, c.state, c.pod, c.fit.Diagnosis.NodeToStatus)
		clears := result != nil && result.Mode() == fwk.ModeOverride && result.NominatedNodeName == ""
		switch {
		case status.IsSuccess():
			return nil, fmt.Errorf("PostFilter of %s succeeded where there is no candidate", e.Name)
		case !status.IsRejected():
			out.Message, out.Clears = status.Message(), false
			if len(failed) > 0 {
				out.Message = "preemption: " + utilerrors.NewAggregate(failed).Error()
			}
			return out, nil
		case status.Code() == fwk.UnschedulableAndUnresolvable:
			out.Message, out.Clears = status.Message(), clears
			return out, nil
		}
		if result != nil && result.Mode() != fwk.ModeNoop {
			out.Clears = clears
		}
		reasons = append(reasons, status.Reasons()...)
	}
	out.Message = strings.Join(reasons, ", ")
	return out, nil
}

// mostFailed is how many nodes with errors a dry run tells of.
const mostFailed = 16

// dryRun finds the candidates, unless the pod may preempt nobody. Where there is none, failed are the errors of the first nodes by
// name, of those that had one: upstream tells of all, in the order in which it comes by them.
func (o *Oracle) dryRun(ctx context.Context, d *defaultpreemption.DefaultPreemption, c *cycle,
	out *Preemption) (failed []error, err error) {
	statuses := c.fit.Diagnosis.NodeToStatus
	if ok, _ := d.PodEligibleToPreemptOthers(ctx, c.pod, statuses.Get(c.pod.Status.NominatedNodeName)); !ok {
		return nil, nil
	}
	potential, err := statuses.NodesForStatusCode(o.NodeInfos(), fwk.Unschedulable)
	if err != nil || len(potential) == 0 {
		return nil, err
	}
	budgets, err := o.objects.informers.Policy().V1().PodDisruptionBudgets().Lister().List(labels.Everything())
	if err != nil {
		return nil, err
	}
	// One more than there are, so that the last is looked at too.
	found, tried, _ := d.Evaluator.DryRunPreemption(ctx, c.state, c.pod, potential, budgets, 0, int32(len(potential))+1)
	if len(found) == 0 {
		slices.SortFunc(potential, func(a, b fwk.NodeInfo) int { return strings.Compare(a.Node().Name, b.Node().Name) })
		for _, node := range potential {
			if status := tried.Get(node.Node().Name); status.Code() == fwk.Error && len(failed) < mostFailed {
				failed = append(failed, status.AsError())
			}
		}
		return failed, nil
	}
	for _, x := range found {
		out.Candidates[x.Name()] = newCandidate(x)
	}
	out.best = out.Candidates[d.Evaluator.SelectCandidate(ctx, found).Name()]
	return nil, nil
}

// keepPorts has the ports that pods of some priority or more hold stay taken on a node of the
// snapshot where a lesser one leaves which holds them too (see removePod): until restore is called
// the lesser have none of those.
func keepPorts(node *framework.NodeInfo, least int32) (restore func(), err error) {
	held, saved, changed := fwk.HostPortInfo{}, *node, node.SnapshotConcrete()
	for _, p := range node.Pods {
		if priority(p.GetPod()) >= least {
			addPorts(held, p.GetPod())
		}
	}
	for _, p := range node.Pods {
		bare := withoutPorts(p.GetPod(), held)
		if priority(p.GetPod()) >= least || bare == nil {
			continue
		}
		if err := changed.RemovePod(quiet(), p.GetPod()); err != nil {
			return nil, err
		}
		info, _ := framework.NewPodInfo(bare) // terms that can't be read count as none
		changed.AddPodInfo(info)
	}
	for ip, ports := range held {
		for port := range ports {
			changed.UsedPorts.Add(ip, port.Protocol, port.Port)
		}
	}
	*node = *changed
	return func() { *node = saved }, nil
}

func addPorts(into fwk.HostPortInfo, pod *v1.Pod) {
	for _, p := range util.GetHostPorts(pod) {
		into.Add(p.HostIP, string(p.Protocol), p.HostPort)
	}
}

// withoutPorts is a pod without those of its ports that others hold; nil: it has none of them.
func withoutPorts(pod *v1.Pod, held fwk.HostPortInfo) *v1.Pod {
	out := pod.DeepCopy()
	found := false
	for _, list := range [][]v1.Container{out.Spec.InitContainers, out.Spec.Containers} {
		for i := range list {
			list[i].Ports = slices.DeleteFunc(list[i].Ports, func(p v1.ContainerPort) bool {
				own := fwk.HostPortInfo{}
				own.Add(p.HostIP, string(p.Protocol), p.HostPort)
				for ip, ports := range own {
					for port := range ports {
						if _, both := held[ip][port]; both {
							found = true
							return true
						}
					}
				}
				return false
			})
		}
	}
	if !found {
		return nil
	}
	return out
}

func newCandidate(c preemption.Candidate) *Candidate {
	out := &Candidate{Node: c.Name(), Violations: int(c.Victims().NumPDBViolations), pods: c.Victims().Pods}
	for _, p := range out.pods {
		out.Victims = append(out.Victims, p.Namespace+"/"+p.Name)
	}
	return out
}

// Nominate keeps room for a pod that waits on a node, or with no node takes that back, as a
// scheduler does once PostFilter has told it; the pod's status says so from now on.
func (c *Cluster) Nominate(uid types.UID, node string) {
	pod := c.pending[uid]
	if pod == nil {
		return
	}
	changed := pod.DeepCopy()
	changed.Status.NominatedNodeName = node
	c.pending[uid] = changed
	c.nominated.nominate(changed, node)
}

// ClearLower takes their nomination from the pods that are nominated to a node and have a lower
// priority than one that waits, as a scheduler does once it has victims leave. It returns them.
func (c *Cluster) ClearLower(uid types.UID, node string) (lower []*v1.Pod) {
	pod := c.pending[uid]
	if pod == nil {
		return nil
	}
	for _, other := range slices.Clone(c.nominated.NominatedPodsForNode(node)) {
		if p := c.pending[other.GetPod().UID]; p != nil && p.UID != uid && priority(p) < priority(pod) {
			c.Nominate(p.UID, "")
			lower = append(lower, p)
		}
	}
	return lower
}

// nominate takes in what a scheduler has made of a pod's nomination.
func (n *nominations) nominate(pod *v1.Pod, node string) {
	if n.pods.Update(pod) != nil {
		return
	}
	n.nodes[node] = true
	info, _ := framework.NewPodInfo(pod) // terms that can't be read count as none
	n.queue.AddNominatedPod(quiet(), info, &fwk.NominatingInfo{NominatingMode: fwk.ModeOverride, NominatedNodeName: node})
}
