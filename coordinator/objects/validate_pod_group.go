package objects

import (
	"slices"

	schedulingv1alpha2 "k8s.io/api/scheduling/v1alpha2"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// podGroup checks what pods that start together have in common, by the rules that the types are annotated with.
func (c *checker) podGroup(s *schedulingv1alpha2.PodGroupSpec, p *field.Path) {
	if ref := s.PodGroupTemplateRef; ref != nil {
		p := p.Child("podGroupTemplateRef")
		c.exactlyOne(p, member{"workload", ref.Workload != nil})
		if w := ref.Workload; w != nil {
			c.subdomain(p.Child("workload", "workloadName"), w.WorkloadName)
			c.dnsLabel(p.Child("workload", "podGroupTemplateName"), w.PodGroupTemplateName)
		}
	}
	policy := p.Child("schedulingPolicy")
	c.exactlyOne(policy, member{"basic", s.SchedulingPolicy.Basic != nil}, member{"gang", s.SchedulingPolicy.Gang != nil})
	if gang := s.SchedulingPolicy.Gang; gang != nil {
		if count := policy.Child("gang", "minCount"); gang.MinCount == 0 {
			c.add(field.Required(count, ""))
		} else {
			c.atLeast(count, int64(gang.MinCount), 1)
		}
	}
	if s.SchedulingConstraints != nil {
		c.topology(p.Child("schedulingConstraints", "topology"), s.SchedulingConstraints.Topology)
	}
	c.podGroupClaims(p.Child("resourceClaims"), s.ResourceClaims)
	if s.DisruptionMode != nil {
		oneOf(c, p.Child("disruptionMode"), *s.DisruptionMode, schedulingv1alpha2.DisruptionModePod, schedulingv1alpha2.DisruptionModePodGroup)
	}
	if s.PriorityClassName != "" {
		c.subdomain(p.Child("priorityClassName"), s.PriorityClassName)
	}
	if s.Priority != nil && *s.Priority > highestUserPriority {
		c.invalid(p.Child("priority"), *s.Priority, "must be less than or equal to %d", highestUserPriority)
	}
}

// topology checks in which one domain all of the pods have to be.
func (c *checker) topology(p *field.Path, list []schedulingv1alpha2.TopologyConstraint) {
	const most = 1
	if !c.atMost(p, len(list), most) {
		return
	}
	for i := range list {
		c.qualifiedName(p.Index(i).Child("key"), list[i].Key)
	}
}

func (c *checker) podGroupClaims(p *field.Path, list []schedulingv1alpha2.PodGroupResourceClaim) {
	if !c.atMost(p, len(list), schedulingv1alpha2.MaxPodGroupResourceClaims) {
		return
	}
	seen := map[string]bool{}
	for i := range list {
		claim, p := &list[i], p.Index(i)
		c.dnsLabel(p.Child("name"), claim.Name)
		unique(c, seen, p, short(claim.Name))
		c.exactlyOne(p, member{"resourceClaimName", claim.ResourceClaimName != nil},
			member{"resourceClaimTemplateName", claim.ResourceClaimTemplateName != nil})
		if claim.ResourceClaimName != nil {
			c.subdomain(p.Child("resourceClaimName"), *claim.ResourceClaimName)
		}
		if claim.ResourceClaimTemplateName != nil {
			c.subdomain(p.Child("resourceClaimTemplateName"), *claim.ResourceClaimTemplateName)
		}
	}
}

// podGroupTemplates checks that claims of a PodGroup need not be made: without Kubernetes nobody makes them. What a dump says was made is
// there.
//
// Differs from upstream: there, kube-controller-manager makes them.
func (c *checker) podGroupTemplates(g *schedulingv1alpha2.PodGroup) {
	for i := range g.Spec.ResourceClaims {
		x := &g.Spec.ResourceClaims[i]
		made := slices.ContainsFunc(g.Status.ResourceClaimStatuses, func(s schedulingv1alpha2.PodGroupResourceClaimStatus) bool {
			return s.Name == x.Name
		})
		if x.ResourceClaimTemplateName != nil && x.ResourceClaimName == nil && !made {
			c.invalid(field.NewPath("spec", "resourceClaims").Index(i).Child("resourceClaimTemplateName"), short(*x.ResourceClaimTemplateName),
				"claims of a PodGroup are not made from templates without Kubernetes: name a ResourceClaim by resourceClaimName")
		}
	}
}

// podGroupStatus checks what a dump of another cluster may carry.
func (c *checker) podGroupStatus(s *schedulingv1alpha2.PodGroupStatus, p *field.Path) {
	p = p.Child("resourceClaimStatuses")
	if !c.atMost(p, len(s.ResourceClaimStatuses), schedulingv1alpha2.MaxPodGroupResourceClaims) {
		return
	}
	seen := map[string]bool{}
	for i := range s.ResourceClaimStatuses {
		claim, p := &s.ResourceClaimStatuses[i], p.Index(i)
		unique(c, seen, p, short(claim.Name))
		if claim.ResourceClaimName != nil {
			c.subdomain(p.Child("resourceClaimName"), *claim.ResourceClaimName)
		}
	}
}

// schedulingGroup checks the name by which a pod says which PodGroup it belongs to. Whether that exists is nobody's to check: pods may
// come first.
func (c *checker) schedulingGroup(p *field.Path, name *string) {
	if name == nil {
		c.invalid(p, nil, "must specify one of: `podGroupName`")
		return
	}
	c.subdomain(p, *name)
}

// member is one of several fields of which exactly one has to be set.
type member struct {
	name string
	set  bool
}

func (c *checker) exactlyOne(p *field.Path, of ...member) {
	var names, set string
	n := 0
	for _, m := range of {
		names += ", `" + m.name + "`"
		if m.set {
			set += ", " + m.name
			n++
		}
	}
	const comma = len(", ")
	switch {
	case n == 0:
		c.invalid(p, "", "must specify one of: %s", names[comma:])
	case n > 1:
		c.invalid(p, "{"+set[comma:]+"}", "must specify exactly one of: %s", names[comma:])
	}
}
