package devices

import (
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/api/scheduling/v1alpha2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// PodGroup is what claims of a PodGroup ask of it.
type PodGroup struct {
	// Object is nil where there is no such PodGroup.
	Object *v1alpha2.PodGroup
	// Scheduled is how many of its pods have a node, bound or not.
	Scheduled int
}

// podGroup is the PodGroup that a pod names; nil: it names none, or claims of PodGroups do not count.
func (c *Cache) podGroup(pod *v1.Pod) *PodGroup {
	if c.cfg.PodGroup == nil || pod.Spec.SchedulingGroup == nil || pod.Spec.SchedulingGroup.PodGroupName == nil {
		return nil
	}
	of := c.cfg.PodGroup(pod)
	return &of
}

// groupOf is podGroup; that there is no such PodGroup is a refusal, whether the pod has claims or not.
func (c *Cache) groupOf(pod *v1.Pod) (*PodGroup, error) {
	of := c.podGroup(pod)
	if of == nil || of.Object != nil {
		return of, nil
	}
	name := *pod.Spec.SchedulingGroup.PodGroupName
	missing := apierrors.NewNotFound(v1alpha2.Resource("podgroup"), name)
	return nil, refusal{missing.Error(), "a pod group does not exist",
		fmt.Sprintf("PodGroup %s/%s has to be created", pod.Namespace, name)}
}

// consumerOf is whom the claim of an entry of a pod is reserved for: the PodGroup, where that has the same entry, so that any
// number of its pods may have the claim; else the pod.
func consumerOf(pod *v1.Pod, of *PodGroup, entry *v1.PodResourceClaim) resourcev1.ResourceClaimConsumerReference {
	if of == nil {
		return consumer(pod)
	}
	for i := range of.Object.Spec.ResourceClaims {
		x := &of.Object.Spec.ResourceClaims[i]
		if x.Name == entry.Name && ptr.Equal(x.ResourceClaimName, entry.ResourceClaimName) &&
			ptr.Equal(x.ResourceClaimTemplateName, entry.ResourceClaimTemplateName) {
			return resourcev1.ResourceClaimConsumerReference{
				APIGroup: v1alpha2.GroupName, Resource: podGroups, Name: of.Object.Name, UID: of.Object.UID,
			}
		}
	}
	return consumer(pod)
}

// podGroups is the resource of consumers that are PodGroups.
const podGroups = "podgroups"

// isGroupOwner tells whether a claim was made for the PodGroup that a pod names: a pod knows no more of it than its name.
func isGroupOwner(pod *v1.Pod, claim *resourcev1.ResourceClaim) bool {
	o := metav1.GetControllerOfNoCopy(claim)
	return o != nil && o.Kind == "PodGroup" && o.Name == *pod.Spec.SchedulingGroup.PodGroupName &&
		strings.HasPrefix(o.APIVersion, v1alpha2.GroupName+"/")
}

// notMadeFor is the refusal of a claim that was made for somebody else; nil: it was made for the pod, or its PodGroup.
//
// Differs from upstream: with the gate on, a pod without a PodGroup has the text that it has with the gate off, where upstream panics.
func (c *Cache) notMadeFor(pod *v1.Pod, claim *resourcev1.ResourceClaim) error {
	of := c.podGroup(pod)
	if isOwner(pod, claim) || of != nil && isGroupOwner(pod, claim) {
		return nil
	}
	who := "Pod is not owner"
	if of != nil {
		who = fmt.Sprintf("neither Pod nor PodGroup %s is the owner", *pod.Spec.SchedulingGroup.PodGroupName)
	}
	text := fmt.Sprintf("ResourceClaim %s was not created for Pod %s/%s (%s)", keyOf(claim), pod.Namespace, pod.Name, who)
	return refusal{text, "a resource claim is another pod's",
		fmt.Sprintf("ResourceClaim %s is another pod's: where that is gone, delete the claim, and it is made for this pod", keyOf(claim))}
}

// matesOf names the PodGroup whose pods share claims with a pod while these are in flight; empty: nobody does.
func (c *Cache) matesOf(pod *v1.Pod) string {
	if !c.cfg.Mates || pod.Spec.SchedulingGroup == nil || pod.Spec.SchedulingGroup.PodGroupName == nil {
		return ""
	}
	return pod.Namespace + "/" + *pod.Spec.SchedulingGroup.PodGroupName
}

// share is what a pod's claim gets of a flight that a mate has begun, or another pod of the PodGroup whose claim it is; nil: there is none.
// A claim has place for so many pods, and for one PodGroup of any number of them.
//
// Differs from upstream: pods of a PodGroup share an allocation in flight in any attempt, and not only in the attempt that has made
// it; and the nodes that the allocation is for are looked at for each of them. Where one of them has written it, the others take it as it
// is; upstream's fail, and are tried again.
func (f *flight) share(mates string, by resourcev1.ResourceClaimConsumerReference) *resourcev1.AllocationResult {
	switch {
	case f == nil:
	case by.Resource == podGroups && f.group != "" && by.UID == f.group,
		by.Resource != podGroups && f.group == "" && mates != "" && f.mates == mates && f.holders < resourcev1.ResourceClaimReservedForMaxSize:
		return f.result
	}
	return nil
}

// unreserved is the plan for the claims of a PodGroup of which no pod has a node: one of them is not reserved for it any more, so that
// its devices may be given back. It is no plan where there is nothing to do.
func (c *Cache) unreserved(pod *v1.Pod) (p Plan, ok bool) {
	of := c.podGroup(pod)
	if of == nil || of.Object == nil || of.Scheduled > 0 {
		return p, false
	}
	for i := range of.Object.Spec.ResourceClaims {
		name, made, err := groupClaimName(of.Object, &of.Object.Spec.ResourceClaims[i])
		if err != nil {
			return Plan{Text: err.Error(), failed: true}, true
		}
		claim := c.Claim(pod.Namespace, name)
		if name == "" || claim == nil || claim.Status.Allocation == nil || made && !metav1.IsControlledBy(claim, of.Object) ||
			!isReserved(claim, of.Object.UID) {
			continue
		}
		claim = claim.DeepCopy()
		its := func(r resourcev1.ResourceClaimConsumerReference) bool { return r.UID == of.Object.UID }
		claim.Status.ReservedFor = slices.DeleteFunc(claim.Status.ReservedFor, its)
		return Plan{Text: "ResourceClaim unreserved for PodGroup", deallocate: claim}, true
	}
	return p, false
}

// groupClaimName is the name of the claim that an entry of a PodGroup is for; "": there is deliberately none. made tells whether the
// claim is made for the PodGroup.
func groupClaimName(of *v1alpha2.PodGroup, entry *v1alpha2.PodGroupResourceClaim) (name string, made bool, err error) {
	switch {
	case entry.ResourceClaimName != nil:
		return *entry.ResourceClaimName, false, nil
	case entry.ResourceClaimTemplateName == nil:
		const text = "PodGroup %s/%s, spec.resourceClaim %s: none of the supported fields are set"
		return "", false, fmt.Errorf(text, of.Namespace, of.Name, entry.Name)
	}
	for i := range of.Status.ResourceClaimStatuses {
		if s := &of.Status.ResourceClaimStatuses[i]; s.Name == entry.Name {
			return ptr.Deref(s.ResourceClaimName, ""), true, nil
		}
	}
	return "", true, fmt.Errorf("PodGroup %s/%s: ResourceClaim not created yet", of.Namespace, of.Name)
}
