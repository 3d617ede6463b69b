package queue

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"github.com/shardsched/shardsched/coordinator/storage"
)

// parsed is what the hints read of a pod's spec, made ready at first use: an event that is
// held against 100,000 pods reads no selector twice.
type parsed struct {
	node           *nodeaffinity.RequiredNodeAffinity
	affinity, anti *affinityTerms
	spread         *spreadTerms
	claims         *[]claim
}

// required is the pod's node selector and required node affinity.
func (p *Pod) required() *nodeaffinity.RequiredNodeAffinity {
	if p.parsed.node == nil {
		r := nodeaffinity.GetRequiredNodeAffinity(p.Obj)
		p.parsed.node = &r
	}
	return p.parsed.node
}

// affinity are the pod's required affinity terms.
func (p *Pod) affinity() *affinityTerms {
	if p.parsed.affinity == nil {
		p.parsed.affinity = requiredAffinity(p.Obj)
	}
	return p.parsed.affinity
}

// antiAffinity are the pod's required anti-affinity terms.
func (p *Pod) antiAffinity() *affinityTerms {
	if p.parsed.anti == nil {
		p.parsed.anti = requiredAntiAffinity(p.Obj)
	}
	return p.parsed.anti
}

// spread are the pod's own hard topology spread constraints.
func (p *Pod) spread() *spreadTerms {
	if p.parsed.spread == nil {
		p.parsed.spread = ownConstraints(p.Obj)
	}
	return p.parsed.spread
}

// claims are the claims that the pod's volumes name.
func (p *Pod) claims() []claim {
	if p.parsed.claims == nil {
		list := claimsOf(p.Obj)
		p.parsed.claims = &list
	}
	return *p.parsed.claims
}

// claim is a PersistentVolumeClaim that a volume names, in the pod's namespace.
type claim struct {
	name string
	// made tells that the claim is made for this pod: the volume is a generic ephemeral one.
	made bool
}

func claimsOf(p *v1.Pod) []claim {
	var out []claim
	for i := range p.Spec.Volumes {
		if name, made, ok := storage.ClaimName(p, &p.Spec.Volumes[i]); ok {
			out = append(out, claim{name, made})
		}
	}
	return out
}
