package nominees

import (
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/shardsched/shardsched/coordinator/answers"
	"github.com/shardsched/shardsched/coordinator/cache"
	"github.com/shardsched/shardsched/coordinator/compile"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
	"github.com/shardsched/shardsched/scorer"
)

// Nominee is a node that waits for pods which come before the pod at hand.
type Nominee struct {
	answers.Nominee
	node   string
	pods   []*v1.Pod
	viewer *v1.Pod // the pod at hand, or one of the same viewer
}

// ForEngine is the part that the decision engine knows; nil: nobody is nominated.
func (n *Nominee) ForEngine() *answers.Nominee {
	if n == nil {
		return nil
	}
	return &n.Nominee
}

// List is the nominees that a pod finds, sorted by node.
type List []*Nominee

// ForEngine are the parts of nominees that the decision engine knows.
func (l List) ForEngine() []*answers.Nominee {
	if len(l) == 0 {
		return nil
	}
	out := make([]*answers.Nominee, len(l))
	for i, n := range l {
		out[i] = &n.Nominee
	}
	return out
}

// ByRow are the nominees by the rows of their nodes.
func (l List) ByRow() map[cache.Row]*Nominee {
	out := make(map[cache.Row]*Nominee, len(l))
	for _, n := range l {
		out[n.Row] = n
	}
	return out
}

// With is what some pods would take of a node that a pod looks at.
func (c *Cache) With(row cache.Row, node string, pods []*v1.Pod, p *v1.Pod, class *compile.Class) *Nominee {
	n := &Nominee{node: node, pods: pods, viewer: p}
	n.Row = row
	unseen := c.unseen(p, class)
	for _, other := range pods {
		n.Usages = append(n.Usages, withoutCounters(c.nodes.UsageOf(other), unseen))
	}
	n.Volumes = c.volumes.Joining(node, pods, p)
	n.Spread = spreadBeyond(p, class, pods)
	n.Claims = c.claimsOf(p, class, pods)
	return n
}

// RowCheck is what a table does not know of a row in a dry run for a class with this query: the nominated pods, if any.
func (c *Cache) RowCheck(n *Nominee, q *pb.Query) *scorer.RowCheck {
	if n == nil {
		return &scorer.RowCheck{}
	}
	check := &scorer.RowCheck{
		Join:   func(totals *scorer.RowTotals) { n.Join(totals, n.Volumes) },
		Adjust: func(v *scorer.Verdict) { n.AddTo(v, q, true) },
	}
	if !c.volumes.Attaches(n.pods) {
		return check
	}
	// Which volumes the nominated pods attach besides the node's own depends on which pods have left.
	var left []*v1.Pod
	check.Moved = func(number uint64, back bool) {
		pod, _ := c.nodes.PodNumbered(number)
		if left = slices.DeleteFunc(left, func(x *v1.Pod) bool { return x == pod }); !back && pod != nil {
			left = append(left, pod)
		}
	}
	check.Join = func(totals *scorer.RowTotals) {
		n.Join(totals, c.volumes.Joining(n.node, n.pods, n.viewer, left...))
	}
	return check
}

// unseen are the counters of what nominated pods do that the plugins for a pod do not look at. InterPodAffinity's PreFilter
// skips where the pod has no required terms and no pod that is there repels it. ReadWriteOncePod claims are counted by
// claimsOf.
func (c *Cache) unseen(p *v1.Pod, class *compile.Class) []uint32 {
	var out []uint32
	q := class.Query
	if repellers := class.Scorer.Repellers(); len(repellers) > 0 && !hasRequiredTerms(p) && !c.repelled(class.Scorer) {
		out = slices.Clone(repellers)
	}
	out = append(out, q.GetVolumeRestrictions().GetNamed()...)
	for _, i := range q.GetVolumeRestrictions().GetClaims() {
		for _, m := range q.Measures[i].GetCounters() {
			out = append(out, m.GetCounter())
		}
	}
	return out
}

func hasRequiredTerms(p *v1.Pod) bool {
	a := p.Spec.Affinity
	return a != nil && (a.PodAffinity != nil && len(a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution) > 0 ||
		a.PodAntiAffinity != nil && len(a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution) > 0)
}

// repelled tells whether a pod that is there repels the class.
func (c *Cache) repelled(class *scorer.Class) bool {
	for i := range c.nodes.NumShards() {
		if class.Repelled(c.nodes.Table(i)) {
			return true
		}
	}
	return false
}

// withoutCounters is a usage without some counters.
func withoutCounters(u *pb.PodUsage, ids []uint32) *pb.PodUsage {
	if !slices.ContainsFunc(u.GetCounters(), func(v *pb.CounterValue) bool { return slices.Contains(ids, v.GetCounter()) }) {
		return u
	}
	return &pb.PodUsage{
		Requests: u.GetRequests(), NonZeroMilliCpu: u.GetNonZeroMilliCpu(), NonZeroMemoryBytes: u.GetNonZeroMemoryBytes(),
		HostPorts: u.GetHostPorts(),
		Counters: slices.DeleteFunc(slices.Clone(u.GetCounters()), func(v *pb.CounterValue) bool {
			return slices.Contains(ids, v.GetCounter())
		}),
	}
}

// spreadBeyond counts, for each hard constraint, the pods that its counters leave out: pods that are being deleted, and all
// pods where the constraint selects every pod.
func spreadBeyond(p *v1.Pod, class *compile.Class, pods []*v1.Pod) []int64 {
	out := make([]int64, len(class.HardSelectors))
	for i, selects := range class.HardSelectors {
		for _, other := range pods {
			if other.Namespace == p.Namespace && (other.DeletionTimestamp != nil || selects.Empty()) && selects.Matches(other.Labels) {
				out[i]++
			}
		}
	}
	return out
}

// claimsOf counts the volumes of nominated pods that VolumeRestrictions counts: by the names of the pod's claims alone.
func (c *Cache) claimsOf(p *v1.Pod, class *compile.Class, pods []*v1.Pod) int64 {
	if len(class.Query.GetVolumeRestrictions().GetClaims()) == 0 {
		return 0
	}
	n := int64(0)
	for i := range p.Spec.Volumes {
		own := p.Spec.Volumes[i].PersistentVolumeClaim
		if own == nil || countClaims(p.Spec.Volumes[:i], own.ClaimName) > 0 || !c.forOnePod(p.Namespace, own.ClaimName) {
			continue
		}
		for _, other := range pods {
			n += countClaims(other.Spec.Volumes, own.ClaimName)
		}
	}
	return n
}

// countClaims counts the volumes that are claims of a name.
func countClaims(list []v1.Volume, claim string) (n int64) {
	for i := range list {
		if c := list[i].PersistentVolumeClaim; c != nil && c.ClaimName == claim {
			n++
		}
	}
	return n
}

// forOnePod tells whether only one pod may use a claim.
func (c *Cache) forOnePod(namespace, name string) bool {
	claim := c.volumes.Claim(namespace, name)
	return claim != nil && slices.Contains(claim.Spec.AccessModes, v1.ReadWriteOncePod)
}
