package devices

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

func v1Now() metav1.Time { return metav1.NewTime(start) }

func conditionTrue(name string) []metav1.Condition {
	return []metav1.Condition{{Type: name, Status: metav1.ConditionTrue, Reason: "why", Message: "so", LastTransitionTime: v1Now()}}
}

func TestAPodMayNameSoManyClaims(t *testing.T) {
	r := newRig(t, newAPI(plainClaim("c")))
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "many"}}
	name := "c"
	for i := range MaxClaims {
		pod.Spec.ResourceClaims = append(pod.Spec.ResourceClaims, v1.PodResourceClaim{Name: fmt.Sprint(i), ResourceClaimName: &name})
	}
	if got := r.c.Claims(pod, time.Minute); len(got.Query.GetClaims()) != MaxClaims {
		t.Errorf("%d claims: %v %s", MaxClaims, got.Err, got.Message)
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

// TestManySharesOfADevice: a share costs the same however many others there are.
func TestManySharesOfADevice(t *testing.T) {
	r := newRig(t, newAPI())
	share := func(i int, quantity string) *resourcev1.ResourceClaim {
		c := plainClaim(fmt.Sprint("share-", i))
		id := c.UID
		c.Status.Allocation = &resourcev1.AllocationResult{}
		c.Status.Allocation.Devices.Results = []resourcev1.DeviceRequestAllocationResult{{
			Request: "r", Driver: "d", Pool: "n1", Device: "a", ShareID: &id,
			ConsumedCapacity: amounts{"memory": resource.MustParse(quantity)},
		}}
		return c
	}
	const many = 5000
	for i := range many {
		r.c.Set(share(i, "1Gi"))
	}
	one := share(many, "500m")
	come := func() *pb.DeviceUse {
		told := r.c.Set(one)
		return told.Uses(r.c)[0].DeviceUse
	}
	leave := func() *pb.DeviceUse {
		told := r.c.Delete(one)
		return told.Uses(r.c)[0].DeviceUse
	}
	total := resource.MustParse(fmt.Sprint(many, "Gi"))
	come()
	if got := leave(); !proto.Equal(got.Consumed.Amounts[0].Quantity, amountOf(&total)) || got.Shares != many {
		t.Errorf("in use after one has come and gone: %v", got)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range 10 {
		come()
		leave()
	}
	runtime.ReadMemStats(&after)
	if n := (after.TotalAlloc - before.TotalAlloc) / 20; n > 10_000 {
		t.Errorf("one share of %d takes %d bytes", many, n)
	}
	for i := range many {
		r.c.Delete(share(i, "1Gi"))
	}
	if holders(r, "a") != "[]" {
		t.Errorf("a used by %s", holders(r, "a"))
	}
}
