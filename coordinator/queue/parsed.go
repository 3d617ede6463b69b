package queue

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"github.com/shardsched/shardsched/coordinator/count"
	"github.com/shardsched/shardsched/coordinator/storage"
)

// parsed is what the hints read of a pod's spec, made ready at first use: an event that is
// held against 100,000 pods reads no selector twice.
type parsed struct {
	node           *nodeaffinity.RequiredNodeAffinity
	affinity, anti *affinityTerms
	spread         *spreadTerms
	claims         *[]claim
	held           *[]count.Key
	parts          int // 1 more than there are, 0: not counted yet
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

// held are the keys of the claims and disks that the pod's volumes name, as count.Disk gives them; not of claims that
// are made for it.
func (p *Pod) held() []count.Key {
	if p.parsed.held == nil {
		list := []count.Key{}
		for _, c := range p.claims() {
			if !c.made {
				list = append(list, count.Claim(p.Obj.Namespace, c.name))
			}
		}
		for i := range p.Obj.Spec.Volumes {
			list = append(list, count.Disk(&p.Obj.Spec.Volumes[i].VolumeSource)...)
		}
		p.parsed.held = &list
	}
	return *p.parsed.held
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
