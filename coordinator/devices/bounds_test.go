package devices

import (
	"fmt"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func v1Now() metav1.Time { return metav1.NewTime(start) }

func conditionTrue(name string) []metav1.Condition {
	return []metav1.Condition{{Type: name, Status: metav1.ConditionTrue, Reason: "why", Message: "so", LastTransitionTime: v1Now()}}
}

func TestAPodMayNameSoManyClaims(t *testing.T) {
	r := newRig(t, newAPI(plainClaim("c")))
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "many"}}
	name := "c"
	for i := range maxClaims {
		pod.Spec.ResourceClaims = append(pod.Spec.ResourceClaims, v1.PodResourceClaim{Name: fmt.Sprint(i), ResourceClaimName: &name})
	}
	if got := r.c.Claims(pod, time.Minute); len(got.Query.GetClaims()) != maxClaims {
		t.Errorf("%d claims: %v %s", maxClaims, got.Err, got.Message)
	}
	pod.Spec.ResourceClaims = append(pod.Spec.ResourceClaims, v1.PodResourceClaim{Name: "one more", ResourceClaimName: &name})
	const want = `pod "default/many": 65 resource claims, at most 64 are supported`
	if got := r.c.Claims(pod, time.Minute); got.Message != want {
		t.Errorf("%q, want %q", got.Message, want)
	}
	if got := r.c.Problem(pod); got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestAQueryMayBeSoLarge(t *testing.T) {
	r := newRig(t, newAPI(plainClaim("c")))
	claim := plainClaim("large")
	grow := func(n int) {
		claim = claim.DeepCopy()
		of := claim.Spec.Devices.Requests[0].Exactly
		of.Selectors = []resourcev1.DeviceSelector{{CEL: &resourcev1.CELDeviceSelector{Expression: strings.Repeat("x", n)}}}
		r.c.Delete(claim)
		r.c.Set(claim)
	}
	name := "large"
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p"}}
	for i := range 8 { // each has a quarter less a little
		pod.Spec.ResourceClaims = append(pod.Spec.ResourceClaims, v1.PodResourceClaim{Name: fmt.Sprint(i), ResourceClaimName: &name})
	}
	grow(maxQueryBytes/8 - 200)
	if got := r.c.Claims(pod, time.Minute); got.Query == nil {
		t.Errorf("below the bound: %v %s", got.Err, got.Message)
	}
	grow(maxQueryBytes/8 + 1)
	if got := r.c.Claims(pod, time.Minute); got.Err == nil || !strings.HasSuffix(got.Err.Error(), "at most 262144 are supported") {
		t.Errorf("above the bound: %v", got.Err)
	}
}

// TestManyClaimsOfOnePod: claims that name a pod as their owner cost it nothing.
func TestManyClaimsOfOnePod(t *testing.T) {
	r := newRig(t, newAPI())
	pod := r.pods["e"]
	isController := true
	for i := range 1000 {
		c := plainClaim(fmt.Sprintf("c%04d", 999-i))
		c.Annotations = map[string]string{resourcev1.ExtendedResourceClaimAnnotation: "true"}
		c.OwnerReferences = []metav1.OwnerReference{{Kind: "Pod", Name: "e", UID: pod.UID, Controller: &isController}}
		r.c.Set(c)
	}
	allocs := testing.AllocsPerRun(10, func() {
		if x := r.c.extendedOf(pod); x.stale.Name != "c0000" {
			t.Fatalf("found %s", x.stale.Name)
		}
	})
	if allocs > 40 {
		t.Errorf("%v allocations", allocs)
	}
	for name := range r.c.claims {
		r.c.Delete(r.c.claims[name])
	}
	if len(r.c.special) != 0 {
		t.Errorf("%d pods left", len(r.c.special))
	}
}

func TestAPodMayHaveSoManyExpressions(t *testing.T) {
	r := newRig(t, newAPI(plainClaim("c")))
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p"}}
	for i := range maxExpressions/32 + 1 {
		claim := plainClaim(fmt.Sprint("claim-", i))
		claim.UID = types.UID(claim.Name)
		of := claim.Spec.Devices.Requests[0].Exactly
		for j := range 32 {
			text := fmt.Sprintf("%d == %d", i%(maxExpressions/32), j)
			of.Selectors = append(of.Selectors, resourcev1.DeviceSelector{CEL: &resourcev1.CELDeviceSelector{Expression: text}})
		}
		r.c.Set(claim)
		pod.Spec.ResourceClaims = append(pod.Spec.ResourceClaims, v1.PodResourceClaim{Name: claim.Name, ResourceClaimName: &claim.Name})
	}
	if got := r.c.Claims(pod, time.Minute); got.Query == nil {
		t.Errorf("%d different expressions: %v %s", maxExpressions, got.Err, got.Message)
	}
	one := plainClaim("one")
	one.UID = "one"
	one.Spec.Devices.Requests[0].Exactly.Selectors = []resourcev1.DeviceSelector{{CEL: &resourcev1.CELDeviceSelector{Expression: "true"}}}
	r.c.Set(one)
	pod.Spec.ResourceClaims = append(pod.Spec.ResourceClaims, v1.PodResourceClaim{Name: "one", ResourceClaimName: &one.Name})
	const want = "the resource claims of pod default/p have 257 different expressions, at most 256 are supported"
	if got := r.c.Claims(pod, time.Minute); got.Err == nil || got.Err.Error() != want {
		t.Errorf("got %v, want %s", got.Err, want)
	}
}
