package main

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	volume "k8s.io/component-helpers/storage/volume"
)

// driver is the CSI driver that the provisioner stands for.
const driver = "hollow.shardsched.io"

// Parameters of a StorageClass that the provisioner knows.
const (
	// topologyParameter is the node label that says where a volume can be used; without
	// it, everywhere.
	topologyParameter = "topology"
	// fullParameter is the name of a node on which there is no room.
	fullParameter = "full"
)

// provision does what the external provisioner of a CSI driver does: it makes volumes
// for claims once the controller (and, where the class waits for the first consumer, a
// scheduler) has asked for it, gives a claim back to the scheduler where a node is full,
// and deletes volumes that are released.
type provision struct{ cluster }

func provisioner(_ context.Context, c cluster) (func(context.Context), error) {
	p := provision{c}
	core := c.objects.Core().V1()
	// The listers that are used must be there before the informers start.
	c.objects.Storage().V1().StorageClasses().Informer()
	core.Nodes().Informer()
	claims := newWork("provisioner", p.claim)
	if err := claims.watch(core.PersistentVolumeClaims().Informer()); err != nil {
		return nil, err
	}
	volumes := newWork("provisioner", p.release)
	if err := volumes.watch(core.PersistentVolumes().Informer()); err != nil {
		return nil, err
	}
	return func(ctx context.Context) {
		done := make(chan struct{})
		go func() { defer close(done); volumes.run(ctx, 1) }()
		claims.run(ctx, syncs)
		<-done
	}, nil
}

// claim makes the volume of a claim that wants one of ours.
func (p provision) claim(ctx context.Context, key string) error {
	namespace, name, err := cache.SplitMetaNamespaceKey(key)
	if err != nil {
		return err
	}
	claim, err := p.objects.Core().V1().PersistentVolumeClaims().Lister().PersistentVolumeClaims(namespace).Get(name)
	if err != nil {
		return unlessGone(err)
	}
	if claim.Spec.VolumeName != "" || claim.Annotations[volume.AnnStorageProvisioner] != driver || claim.Spec.StorageClassName == nil {
		return nil
	}
	class, err := p.objects.Storage().V1().StorageClasses().Lister().Get(*claim.Spec.StorageClassName)
	if err != nil {
		return fmt.Errorf("class: %w", err)
	}
	selected := claim.Annotations[volume.AnnSelectedNode]
	if waits := class.VolumeBindingMode; selected == "" && waits != nil && *waits == storagev1.VolumeBindingWaitForFirstConsumer {
		return nil
	}
	if selected != "" && class.Parameters[fullParameter] == selected {
		return p.giveBack(ctx, claim)
	}
	v, err := p.volume(claim, class, selected)
	if err != nil {
		return err
	}
	_, err = p.client.CoreV1().PersistentVolumes().Create(ctx, v, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

// giveBack lets the scheduler choose another node.
func (p provision) giveBack(ctx context.Context, claim *v1.PersistentVolumeClaim) error {
	claim = claim.DeepCopy()
	delete(claim.Annotations, volume.AnnSelectedNode)
	_, err := p.client.CoreV1().PersistentVolumeClaims(claim.Namespace).Update(ctx, claim, metav1.UpdateOptions{})
	return err
}

func (p provision) volume(claim *v1.PersistentVolumeClaim, class *storagev1.StorageClass, selected string) (*v1.PersistentVolume, error) {
	name := "pvc-" + string(claim.UID)
	v := &v1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{volume.AnnDynamicallyProvisioned: driver}},
		Spec: v1.PersistentVolumeSpec{
			StorageClassName: class.Name,
			AccessModes:      claim.Spec.AccessModes,
			VolumeMode:       claim.Spec.VolumeMode,
			Capacity:         v1.ResourceList{v1.ResourceStorage: claim.Spec.Resources.Requests[v1.ResourceStorage]},
			ClaimRef: &v1.ObjectReference{
				APIVersion: "v1", Kind: "PersistentVolumeClaim", Namespace: claim.Namespace, Name: claim.Name,
				UID: claim.UID, ResourceVersion: claim.ResourceVersion,
			},
			PersistentVolumeReclaimPolicy: v1.PersistentVolumeReclaimDelete,
			PersistentVolumeSource: v1.PersistentVolumeSource{CSI: &v1.CSIPersistentVolumeSource{Driver: driver,
				VolumeHandle: name}},
		},
	}
	if class.ReclaimPolicy != nil {
		v.Spec.PersistentVolumeReclaimPolicy = *class.ReclaimPolicy
	}
	if topology := class.Parameters[topologyParameter]; topology != "" && selected != "" {
		node, err := p.objects.Core().V1().Nodes().Lister().Get(selected)
		if err != nil {
			return nil, fmt.Errorf("selected node: %w", err)
		}
		v.Spec.NodeAffinity = onlyWhere(topology, node.Labels[topology])
	}
	return v, nil
}

// onlyWhere is the affinity of a volume for nodes with a label.
func onlyWhere(key, value string) *v1.VolumeNodeAffinity {
	return &v1.VolumeNodeAffinity{Required: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{
		MatchExpressions: []v1.NodeSelectorRequirement{{Key: key, Operator: v1.NodeSelectorOpIn, Values: []string{value}}},
	}}}}
}

// release deletes a volume of ours whose claim is gone.
func (p provision) release(ctx context.Context, key string) error {
	v, err := p.objects.Core().V1().PersistentVolumes().Lister().Get(key)
	if err != nil {
		return unlessGone(err)
	}
	ours := v.Annotations[volume.AnnDynamicallyProvisioned] == driver
	if !ours || v.Status.Phase != v1.VolumeReleased || v.Spec.PersistentVolumeReclaimPolicy != v1.PersistentVolumeReclaimDelete {
		return nil
	}
	return p.client.CoreV1().PersistentVolumes().Delete(ctx, v.Name, metav1.DeleteOptions{})
}
