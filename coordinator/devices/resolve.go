package devices

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/shardsched/shardsched/coordinator/compile"
)

// MaxClaims is how many claims a pod may name: each costs time on the loop, at each attempt and each event that
// may help the pod. Pods in use have a handful.
//
// Differs from upstream: a pod with more is refused.
const MaxClaims = 64

// specialName is the name that the claim for extended resources has in texts while it is in memory only.
const specialName = "<extended-resources>"

// resolved are the claims of a pod as an attempt sees them.
type resolved struct {
	// claims are those that the pod names, in its order; one of its PodGroup that is in flight has its allocation. consumers
	// are whom they are reserved for.
	claims    []*resourcev1.ResourceClaim
	consumers []resourcev1.ResourceClaimConsumerReference
	// extended is set where a class of devices may serve an extended resource of the pod.
	extended *extended
}

func (r *resolved) isNone() bool { return len(r.claims) == 0 && r.extended == nil }

// refusal is why no node takes a pod. It is a status, so an error of the plugin is none.
type refusal struct {
	text string
	// cause says the same without names that are a pod's own; "": the text has none.
	cause string
	// next is who has to do what about it; "": the text says so.
	next string
}

func (r refusal) Error() string { return r.text }

// Refusal is what keeps a pod's claims from being looked at, the same without names that are the pod's own, and who has to do what about
// it; "": nothing does, or the text says so.
func (c *Cache) Refusal(pod *v1.Pod) (text, cause, next string) {
	_, err := c.resolve(pod)
	var no refusal
	errors.As(err, &no)
	return no.text, cmp.Or(no.cause, no.text), no.next
}

// Problem is what keeps a pod's claims from being looked at; "": nothing. A pod waits for that before its first
// attempt.
//
// Differs from upstream: a pod with claims that the API server has no kinds for is tried, so that its condition says why it waits.
func (c *Cache) Problem(pod *v1.Pod) string {
	if len(pod.Spec.ResourceClaims) == 0 || c.notServed {
		return ""
	}
	if _, _, err := c.named(pod); err != nil {
		return err.Error()
	}
	return ""
}

// notServed is why a pod with claims waits where there are no kinds of devices.
const notServed = "the API server does not serve resource.k8s.io/v1, so that resource claims can not be allocated"

// named are the claims that a pod names, with its entries for them; the first that is not as it has to be is a refusal.
func (c *Cache) named(pod *v1.Pod) (out []*resourcev1.ResourceClaim, entries []*v1.PodResourceClaim, err error) {
	if c.notServed {
		return nil, nil, refusal{text: notServed,
			next: "Kubernetes 1.34 and later serve resource.k8s.io/v1, unless --runtime-config turns it off"}
	}
	if n := len(pod.Spec.ResourceClaims); n > MaxClaims {
		const text = "pod \"%s/%s\": %d resource claims, at most %d are supported"
		return nil, nil, refusal{text: fmt.Sprintf(text, pod.Namespace, pod.Name, n, MaxClaims)}
	}
	for i := range pod.Spec.ResourceClaims {
		name, made, err := compile.ClaimName(pod, &pod.Spec.ResourceClaims[i])
		if err != nil {
			return nil, nil, refusal{err.Error(), "a resource claim is not made yet", nextForTemplate(pod, &pod.Spec.ResourceClaims[i])}
		}
		if name == "" {
			continue
		}
		key := types.NamespacedName{Namespace: pod.Namespace, Name: name}
		claim := c.claims[key]
		switch {
		case claim == nil:
			cause, next := "a resource claim does not exist", fmt.Sprintf("nobody makes ResourceClaim %s for the pod: it has to be created", key)
			if made {
				cause, next = "a resource claim is not made yet", nextForTemplate(pod, &pod.Spec.ResourceClaims[i])
			}
			return nil, nil, refusal{fmt.Sprintf("could not find ResourceClaim %q", key), cause, next}
		case claim.DeletionTimestamp != nil:
			return nil, nil, refusal{fmt.Sprintf("resourceclaim %q is being deleted", name), "a resource claim is being deleted",
				fmt.Sprintf("ResourceClaim %s goes once the pods that it is reserved for have ended; then it has to be created anew", key)}
		}
		if made {
			if err := c.notMadeFor(pod, claim); err != nil {
				return nil, nil, err
			}
		}
		out, entries = append(out, claim), append(entries, &pod.Spec.ResourceClaims[i])
	}
	return out, entries, nil
}

// nextForTemplate tells who makes the claim of an entry.
func nextForTemplate(pod *v1.Pod, entry *v1.PodResourceClaim) string {
	if entry.ResourceClaimTemplateName == nil {
		return ""
	}
	const text = "kube-controller-manager makes the claim from ResourceClaimTemplate %s/%s once that is there; " +
		"without Kubernetes shardsched does"
	return fmt.Sprintf(text, pod.Namespace, *entry.ResourceClaimTemplateName)
}

// isOwner tells whether a claim of the pod's namespace was made for the pod.
func isOwner(pod *v1.Pod, claim *resourcev1.ResourceClaim) bool {
	o := metav1.GetControllerOfNoCopy(claim)
	return o != nil && o.UID == pod.UID
}

// resolve is PreFilter: the pod's claims, or why no node takes the pod (a refusal), or an error of the attempt.
func (c *Cache) resolve(pod *v1.Pod) (*resolved, error) {
	r := &resolved{extended: c.extendedOf(pod)}
	var entries []*v1.PodResourceClaim
	var err error
	if len(pod.Spec.ResourceClaims) > 0 {
		if r.claims, entries, err = c.named(pod); err != nil {
			return nil, err
		}
	}
	of, err := c.groupOf(pod)
	if err != nil {
		return nil, err
	}
	for i, claim := range r.claims {
		r.consumers = append(r.consumers, consumerOf(pod, of, entries[i]))
		if claim.Status.Allocation != nil {
			continue
		}
		f := c.flights[claim.UID]
		if shared := f.share(c.matesOf(pod), r.consumers[i]); shared != nil {
			with := *claim
			with.Status.Allocation = shared
			r.claims[i] = &with
			continue
		}
		if f != nil {
			return nil, refusal{fmt.Sprintf("resource claim %s is in the process of being allocated", keyOf(claim)),
				"a resource claim is in the process of being allocated",
				"another pod of the claim is being bound: this one is tried again once the claim has its devices, or that bind has failed"}
		}
		if err := c.checkClasses(claim); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// checkClasses: each request of a claim names a class that is there.
func (c *Cache) checkClasses(claim *resourcev1.ResourceClaim) error {
	check := func(class, request string) error {
		switch {
		case class == "":
			return fmt.Errorf("request %s: unsupported request type", request)
		case c.classes[class] == nil:
			return refusal{fmt.Sprintf("request %s: device class %s does not exist", request, class), "device class " + class + " does not exist",
				fmt.Sprintf("DeviceClass %s has to be created: by an administrator, or with the driver that serves it", class)}
		}
		return nil
	}
	for i := range claim.Spec.Devices.Requests {
		r := &claim.Spec.Devices.Requests[i]
		switch {
		case r.Exactly != nil:
			if err := check(r.Exactly.DeviceClassName, r.Name); err != nil {
				return err
			}
		case len(r.FirstAvailable) == 0:
			return refusal{text: fmt.Sprintf("resource claim %s, request %s: unknown request type", keyOf(claim), r.Name)}
		}
		for j := range r.FirstAvailable {
			if r.Exactly != nil {
				break
			}
			if err := check(r.FirstAvailable[j].DeviceClassName, r.Name+"/"+r.FirstAvailable[j].Name); err != nil {
				return err
			}
		}
	}
	return nil
}

// Claims is part of compile.Devices: what a pod's claims ask of nodes, as of now. patience is the profile's
// bindingTimeout.
func (c *Cache) Claims(pod *v1.Pod, patience time.Duration) compile.PodClaims {
	if len(pod.Spec.ResourceClaims) == 0 && len(c.mapping) == 0 && c.podGroup(pod) == nil {
		return compile.PodClaims{}
	}
	r, err := c.resolve(pod)
	if err == nil && !r.isNone() {
		var out compile.PodClaims
		if out.Query, err = c.query(r, pod, patience); err == nil {
			return out
		}
	}
	switch no := err.(type) {
	case nil:
		return compile.PodClaims{}
	case refusal:
		return compile.PodClaims{Message: no.text}
	}
	return compile.PodClaims{Err: err}
}
