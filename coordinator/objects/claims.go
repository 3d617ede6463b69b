package objects

import (
	"crypto/sha256"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/api/scheduling/v1alpha2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Where there is no Kubernetes, nobody else does what its controller of resource claims does
// (k8s.io/kubernetes/pkg/controller/resourceclaim):
//
//	pod ──NameClaims──> names in its status ──MakeClaim──> claims, the pod's own
//	pod on a node ──ShareClaim──> reserved for it, where the claim is allocated
//	pod gone or at its end ──FreeClaim──> not reserved for it ──last one──> not allocated, and gone if it was the pod's own
//	PodGroup gone ───────────FreeClaim──> the same

// PodClaim is a resource claim that a pod uses.
type PodClaim struct {
	Ref
	// Entry is its name in spec.resourceClaims; empty: it stands for extended resources.
	Entry string
	// Template is what it is made from; empty: somebody makes it by himself.
	Template string
}

// PodClaims are the resource claims that a pod uses, as far as they have names.
func PodClaims(p *v1.Pod) []PodClaim {
	var claims []PodClaim
	add := func(entry, template string, name *string) {
		if name != nil {
			claims = append(claims, PodClaim{Ref{KindResourceClaim, p.Namespace, *name}, entry, template})
		}
	}
	for i := range p.Spec.ResourceClaims {
		r := &p.Spec.ResourceClaims[i]
		if r.ResourceClaimTemplateName == nil {
			add(r.Name, "", r.ResourceClaimName)
		} else if at := claimStatusAt(p, r.Name); at >= 0 {
			add(r.Name, *r.ResourceClaimTemplateName, p.Status.ResourceClaimStatuses[at].ResourceClaimName)
		}
	}
	if s := p.Status.ExtendedResourceClaimStatus; s != nil {
		add("", "", &s.ResourceClaimName)
	}
	return claims
}

// claimStatusAt is where a pod's status tells the name of a claim; -1: nowhere.
func claimStatusAt(p *v1.Pod, entry string) int {
	return slices.IndexFunc(p.Status.ResourceClaimStatuses, func(s v1.PodResourceClaimStatus) bool { return s.Name == entry })
}

// NameClaims writes into a pod's status how the claims are called that are made from templates. The pod needs its UID: a name hangs
// on it.
//
// Differs from upstream: the status tells the names before there are claims, and they are no random ones.
func NameClaims(p *v1.Pod) {
	var statuses []v1.PodResourceClaimStatus
	for i := range p.Spec.ResourceClaims {
		r := &p.Spec.ResourceClaims[i]
		if at := claimStatusAt(p, r.Name); at >= 0 {
			statuses = append(statuses, p.Status.ResourceClaimStatuses[at])
		} else if r.ResourceClaimTemplateName != nil {
			name := claimName(p, r.Name)
			statuses = append(statuses, v1.PodResourceClaimStatus{Name: r.Name, ResourceClaimName: &name})
		}
	}
	p.Status.ResourceClaimStatuses = statuses
}

// claimName is a name that no other pod's claim has: what upstream's has before the random letters, and letters that the pod's UID
// gives.
func claimName(p *v1.Pod, entry string) string {
	// Long names are cut in proportion, so that 63 bytes suffice.
	const longest = 57
	base := p.Name + "-" + entry + "-"
	if n := len(base); n > longest {
		base = p.Name[:len(p.Name)*longest/n] + "-" + entry[:len(entry)*longest/n]
	}
	const letters = "bcdfghjklmnpqrstvwxz2456789" // no vowels, so that they are no words
	hash := sha256.Sum256([]byte(string(p.UID) + "/" + entry))
	for _, b := range hash[:5] {
		base += string(letters[int(b)%len(letters)])
	}
	return base
}

// MakeClaim makes a pod's claim from its template.
func MakeClaim(p *v1.Pod, claim PodClaim, t *resourcev1.ResourceClaimTemplate) *resourcev1.ResourceClaim {
	spec := t.Spec.DeepCopy()
	c := &resourcev1.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{
			Name: claim.Name, Namespace: p.Namespace, Labels: spec.Labels, Annotations: map[string]string{},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(p, v1.SchemeGroupVersion.WithKind("Pod"))},
		},
		Spec: spec.Spec,
	}
	maps.Copy(c.Annotations, spec.Annotations)
	c.Annotations[resourcev1.PodResourceClaimAnnotation] = claim.Entry
	setType(c)
	Default(c)
	return c
}

// ShareClaim has an allocated claim reserved for a pod that is on a node, for the pod may not have come there by the scheduler. It
// tells whether that changes the claim.
func ShareClaim(c *resourcev1.ResourceClaim, p *v1.Pod) bool {
	if p.Spec.NodeName == "" || c.Status.Allocation == nil || c.DeletionTimestamp != nil ||
		len(c.Status.ReservedFor) >= resourcev1.ResourceClaimReservedForMaxSize ||
		slices.ContainsFunc(c.Status.ReservedFor, func(r resourcev1.ResourceClaimConsumerReference) bool { return r.UID == p.UID }) {
		return false
	}
	c.Status.ReservedFor = append(slices.Clip(c.Status.ReservedFor),
		resourcev1.ResourceClaimConsumerReference{Resource: "pods", Name: p.Name, UID: p.UID})
	return true
}

// PodGroupClaims are the resource claims of a PodGroup, as far as they have names.
func PodGroupClaims(g *v1alpha2.PodGroup) []Ref {
	var refs []Ref
	add := func(name *string) {
		if name != nil {
			refs = append(refs, Ref{KindResourceClaim, g.Namespace, *name})
		}
	}
	for i := range g.Spec.ResourceClaims {
		add(g.Spec.ResourceClaims[i].ResourceClaimName)
	}
	for i := range g.Status.ResourceClaimStatuses {
		add(g.Status.ResourceClaimStatuses[i].ResourceClaimName)
	}
	return refs
}

// FreeClaim takes the pods and PodGroups that are gone from the users of a claim. A claim whose last user that was is not allocated
// any more. over tells that the claim has to go: nobody uses it, and it is to be deleted, or was made for a pod or PodGroup that is
// gone. The claim that is given stays as it is.
func FreeClaim(c *resourcev1.ResourceClaim, gone func(types.UID) bool) (now *resourcev1.ResourceClaim, over bool) {
	now = c
	ended := func(r resourcev1.ResourceClaimConsumerReference) bool {
		known := r.APIGroup == "" && r.Resource == "pods" || r.APIGroup == v1alpha2.GroupName && r.Resource == "podgroups"
		return known && gone(r.UID)
	}
	if slices.ContainsFunc(c.Status.ReservedFor, ended) {
		shallow := *c
		now = &shallow
		now.Status.ReservedFor = slices.DeleteFunc(slices.Clone(c.Status.ReservedFor), ended)
		if len(now.Status.ReservedFor) == 0 && slices.Contains(c.Finalizers, resourcev1.Finalizer) {
			now.Status = resourcev1.ResourceClaimStatus{}
			now.Finalizers = slices.DeleteFunc(slices.Clone(c.Finalizers), func(f string) bool { return f == resourcev1.Finalizer })
		}
	}
	if len(now.Status.ReservedFor) > 0 {
		return now, false
	}
	owner := metav1.GetControllerOfNoCopy(c)
	return now, c.DeletionTimestamp != nil || owner != nil && (owner.Kind == "Pod" || owner.Kind == "PodGroup") && gone(owner.UID)
}
