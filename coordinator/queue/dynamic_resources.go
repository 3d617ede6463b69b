package queue

import (
	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"

	"github.com/shardsched/shardsched/coordinator/compile"
)

// Claims is what hints read of dynamic resources.
type Claims interface {
	// Problem is what keeps the claims of a pod from being looked at; "": nothing.
	Problem(*v1.Pod) string
	// Serves tells whether a class of devices is mapped to an extended resource.
	Serves(resource string) bool
}

// KnowsClaims is implemented by Profiles that know of dynamic resources. Without them no pod is held back for its claims, and each
// event may help.
type KnowsClaims interface {
	Claims() Claims
}

// knownClaims are those that profiles know of; nil: none are known.
func knownClaims(profiles Profiles) Claims {
	if k, ok := profiles.(KnowsClaims); ok {
		return k.Claims()
	}
	return nil
}

// ResourceClaimAdded is the event of a new ResourceClaim.
func ResourceClaimAdded(c *resourcev1.ResourceClaim) Event { return objAdded(ResourceClaim, c) }

// ResourceClaimUpdated is the event of a ResourceClaim that counts another way.
func ResourceClaimUpdated(old, now *resourcev1.ResourceClaim) Event {
	return objUpdated(ResourceClaim, old, now)
}

// ResourceSliceAdded is the event of a new ResourceSlice.
func ResourceSliceAdded(s *resourcev1.ResourceSlice) Event { return objAdded(ResourceSlice, s) }

// ResourceSliceUpdated is the event of a changed ResourceSlice.
func ResourceSliceUpdated(old, now *resourcev1.ResourceSlice) Event {
	return objUpdated(ResourceSlice, old, now)
}

// DeviceClassAdded is the event of a new DeviceClass.
func DeviceClassAdded(c *resourcev1.DeviceClass) Event { return objAdded(DeviceClass, c) }

// DeviceClassUpdated is the event of a changed DeviceClass.
func DeviceClassUpdated(old, now *resourcev1.DeviceClass) Event {
	return objUpdated(DeviceClass, old, now)
}

// DynamicResources waits for the pod's own claims, for claims of others that give devices back, and for devices. It
// holds a pod back until all of its claims are there.
func DynamicResources(profiles Profiles) Plugin {
	w := claimWaits{profiles, knownClaims(profiles)}
	return Plugin{
		PreEnqueue: w.holdsBack,
		Alike:      claimLikeness,
		Events: []Registration{
			{Resource: Node, Actions: Add | UpdateNodeLabel | UpdateNodeAllocatable},
			{
				Resource: ResourceClaim, Actions: Add | Update, If: changesClaim,
				Helps: w.claimHelps, Topics: resourceClaimTopics, Touches: claimTouches,
			},
			{Resource: PendingPod, Actions: UpdatePodGeneratedResourceClaim, Helps: w.hasClaims},
			{Resource: DeviceClass, Actions: Add | Update},
			{Resource: ResourceSlice, Actions: Add | Update},
		},
	}
}

// ClaimGone tells that the claim for extended resources is gone that an attempt of a pod had left behind, and that kept the pod
// off all nodes: the pod is tried.
//
// Differs from upstream: there it waits until it is flushed, unless something else happens to a claim.
func (q *Queue) ClaimGone(pod types.UID) {
	if p := q.pods[pod]; p != nil && p.place == Unschedulable {
		q.requeue(p, (&Event{resource: ResourceClaim, action: Delete}).String())
	}
}

// claimWaits are the hints of DynamicResources.
type claimWaits struct {
	profiles Profiles
	claims   Claims
}

func (w claimWaits) problem(p *v1.Pod) string {
	if w.claims == nil {
		return ""
	}
	return w.claims.Problem(p)
}

func (w claimWaits) holdsBack(p *v1.Pod) string {
	if len(p.Spec.ResourceClaims) == 0 || w.profiles != nil && !w.profiles.HoldsBack(p, compile.DynamicResources) {
		return ""
	}
	return w.problem(p)
}

// hasClaims: the claims of the pod itself are all there now.
func (w claimWaits) hasClaims(p *Pod, e *Event) bool { return IsOwn(p, e) && w.problem(p.Obj) == "" }

// claimHelps: the claim gives devices back, or is one of the pod's and new, or of another status. A pod that lacks another claim
// is not helped.
func (w claimWaits) claimHelps(p *Pod, e *Event) bool {
	c := e.obj.(*resourcev1.ResourceClaim)
	return w.problem(p.Obj) == "" && (givesBack(e) || namesResourceClaim(p.Obj, c))
}

// changesClaim: the claim is new, or of another status. All else of it matters to nobody.
func changesClaim(e *Event) bool {
	old, _ := e.oldObj.(*resourcev1.ResourceClaim)
	now := e.obj.(*resourcev1.ResourceClaim)
	return old == nil || !equality.Semantic.DeepEqual(&old.Status, &now.Status)
}

// givesBack: the claim had devices, and has none.
func givesBack(e *Event) bool {
	old, _ := e.oldObj.(*resourcev1.ResourceClaim)
	return old != nil && old.Status.Allocation != nil && e.obj.(*resourcev1.ResourceClaim).Status.Allocation == nil
}

func namesResourceClaim(p *v1.Pod, c *resourcev1.ResourceClaim) bool {
	if p.Namespace != c.Namespace {
		return false
	}
	for i := range p.Spec.ResourceClaims {
		if name, _, err := compile.ClaimName(p, &p.Spec.ResourceClaims[i]); err == nil && name == c.Name {
			return true
		}
	}
	return false
}

// resourceClaimTopics are the claims that a pod names, as far as their names are known. A pod that lacks a name waits for its own
// update, or for another claim to give devices back.
func resourceClaimTopics(p *Pod) (out []topic) {
	for i := range p.Obj.Spec.ResourceClaims {
		if name, _, err := compile.ClaimName(p.Obj, &p.Obj.Spec.ResourceClaims[i]); err == nil && name != "" {
			out = append(out, topic{of: resourceClaims, namespace: p.Obj.Namespace, key: name})
		}
	}
	return out
}

// claimTouches are the pods that name the claim; where it gives devices back, all.
func claimTouches(e *Event) ([]topic, bool) {
	c := e.obj.(*resourcev1.ResourceClaim)
	return []topic{{of: resourceClaims, namespace: c.Namespace, key: c.Name}}, !givesBack(e)
}

// claimLikeness covers the claims that a pod names. One that is made for a pod is that pod's alone.
func claimLikeness(p *v1.Pod) likeness {
	if len(p.Spec.ResourceClaims) == 0 {
		return likeness{}
	}
	var d digest
	d.text(p.Namespace)
	for i := range p.Spec.ResourceClaims {
		name, made, err := compile.ClaimName(p, &p.Spec.ResourceClaims[i])
		d.text(name)
		d.flag(err != nil)
		if d.flag(made); made {
			d.text(string(p.UID))
		}
	}
	return d.sum()
}

// changesResource: the class is new, or serves another extended resource.
func changesResource(e *Event) bool {
	old, _ := e.oldObj.(*resourcev1.DeviceClass)
	now := e.obj.(*resourcev1.DeviceClass)
	return old == nil || resourceOf(old) != resourceOf(now)
}

func resourceOf(c *resourcev1.DeviceClass) string {
	if c.Spec.ExtendedResourceName == nil {
		return ""
	}
	return *c.Spec.ExtendedResourceName
}

// asksForResource: the class serves an extended resource that the pod asks for: the one that it names, or, where it is new, the
// one that is named after it.
func asksForResource(p *Pod, e *Event) bool {
	c := e.obj.(*resourcev1.DeviceClass)
	for _, s := range p.uses().GetRequests().GetScalars() {
		if s.Name == resourceOf(c) || e.oldObj == nil && s.Name == resourcev1.ResourceDeviceClassPrefix+c.Name {
			return true
		}
	}
	return false
}
