package oracle

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	resourcev1client "k8s.io/client-go/kubernetes/typed/resource/v1"
)

// ResourceV1 has the claims of devices.
func (r *recorder) ResourceV1() resourcev1client.ResourceV1Interface { return recordingResource{r: r} }

type recordingResource struct {
	resourcev1client.ResourceV1Interface
	r *recorder
}

func (c recordingResource) ResourceClaims(namespace string) resourcev1client.ResourceClaimInterface {
	return recordingResourceClaims{r: c.r, namespace: namespace}
}

type recordingResourceClaims struct {
	resourcev1client.ResourceClaimInterface
	r         *recorder
	namespace string
}

// Create makes a claim under the name that was to be generated, with the owner's UID behind it, and
// has the cache of claims know it at once.
func (c recordingResourceClaims) Create(_ context.Context, claim *resourcev1.ResourceClaim,
	_ metav1.CreateOptions) (*resourcev1.ResourceClaim, error) {
	owner := metav1.GetControllerOf(claim)
	if claim.GenerateName == "" || owner == nil {
		return nil, fmt.Errorf("claim %q has no name to be generated, or nobody owns it", claim.Name)
	}
	created := claim.DeepCopy()
	created.Name = claim.GenerateName + string(owner.UID)
	created.UID = types.UID(created.Name)
	if err := c.r.objects.set(created); err != nil {
		return nil, err
	}
	return c.written(created), nil
}

// Update writes a claim but for its status.
func (c recordingResourceClaims) Update(_ context.Context, claim *resourcev1.ResourceClaim,
	_ metav1.UpdateOptions) (*resourcev1.ResourceClaim, error) {
	return c.written(claim), nil
}

// UpdateStatus writes a claim's status.
func (c recordingResourceClaims) UpdateStatus(_ context.Context, claim *resourcev1.ResourceClaim,
	_ metav1.UpdateOptions) (*resourcev1.ResourceClaim, error) {
	return c.written(claim), nil
}

func (c recordingResourceClaims) written(claim *resourcev1.ResourceClaim) *resourcev1.ResourceClaim {
	claim = claim.DeepCopy()
	c.r.objects.next(claim)
	c.r.write(claim)
	return claim
}

// Patch would take a reservation back that a pod has had since before its pod group was tried, and that try is undone. Ours keeps it.
func (c recordingResourceClaims) Patch(_ context.Context, name string, _ types.PatchType, _ []byte, _ metav1.PatchOptions,
	_ ...string) (*resourcev1.ResourceClaim, error) {
	return &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: name}}, nil
}

// Delete notes that a claim is gone.
func (c recordingResourceClaims) Delete(_ context.Context, name string, _ metav1.DeleteOptions) error {
	c.r.deleted = append(c.r.deleted, &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: name}})
	return nil
}

type recordingPods struct {
	corev1client.PodInterface
}

// Patch takes in which claim a pod has for its extended resources: the claim itself tells.
func (recordingPods) Patch(context.Context, string, types.PatchType, []byte, metav1.PatchOptions, ...string) (*v1.Pod, error) {
	return &v1.Pod{}, nil
}
