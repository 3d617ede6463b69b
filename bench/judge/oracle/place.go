package oracle

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientset "k8s.io/client-go/kubernetes"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
)

// Place puts the pod of a verdict on a node, as a scheduler does once it has decided, and
// reserves its volumes there: what is assumed of them lasts until Set brings them
// anew. It returns the persistent volumes and claims that a scheduler would now write, as
// it would write them.
func (o *Oracle) Place(ctx context.Context, v *Verdict, node string) ([]Object, error) {
	pod, err := o.assume(v.cycle.pod, node)
	if err != nil {
		return nil, err
	}
	p := v.cycle.profile
	if status := p.RunReservePluginsReserve(ctx, v.cycle.state, pod, node); !status.IsSuccess() {
		return nil, fmt.Errorf("reserve for pod %s/%s on %s: %w", pod.Namespace, pod.Name, node, status.AsError())
	}
	for _, e := range p.ListPlugins().PreBind.Enabled {
		if e.Name == names.VolumeBinding {
			return o.writes(ctx, p.plugins[e.Name].(fwk.PreBindPlugin), v.cycle.state, pod)
		}
	}
	return nil, nil
}

// writes lets VolumeBinding write what it has assumed. It then would wait for
// volumes to be bound, but its time is up.
func (o *Oracle) writes(ctx context.Context, p fwk.PreBindPlugin, state fwk.CycleState, pod *v1.Pod) ([]Object, error) {
	ctx, cancel := context.WithCancel(ctx)
	cancel()
	o.api.written = nil
	status := p.PreBind(ctx, state, pod, pod.Spec.NodeName)
	if !status.IsSuccess() && len(o.api.written) == 0 {
		return nil, fmt.Errorf("bind volumes of pod %s/%s: %w", pod.Namespace, pod.Name, status.AsError())
	}
	return o.api.written, nil
}

// recorder is an API server that notes down writes to volumes and claims. What it is
// not asked for, it does not have.
type recorder struct {
	clientset.Interface
	written []Object
}

func (r *recorder) CoreV1() corev1client.CoreV1Interface { return recordingCore{r: r} }

type recordingCore struct {
	corev1client.CoreV1Interface
	r *recorder
}

func (c recordingCore) PersistentVolumes() corev1client.PersistentVolumeInterface {
	return recordingVolumes{r: c.r}
}

func (c recordingCore) PersistentVolumeClaims(string) corev1client.PersistentVolumeClaimInterface {
	return recordingClaims{r: c.r}
}

type recordingVolumes struct {
	corev1client.PersistentVolumeInterface
	r *recorder
}

// Update notes the volume down.
func (v recordingVolumes) Update(_ context.Context, pv *v1.PersistentVolume, _ metav1.UpdateOptions) (*v1.PersistentVolume, error) {
	v.r.written = append(v.r.written, pv.DeepCopy())
	return pv, nil
}

type recordingClaims struct {
	corev1client.PersistentVolumeClaimInterface
	r *recorder
}

// Update notes the claim down.
func (c recordingClaims) Update(_ context.Context, pvc *v1.PersistentVolumeClaim, _ metav1.UpdateOptions) (*v1.PersistentVolumeClaim, error) {
	c.r.written = append(c.r.written, pvc.DeepCopy())
	return pvc, nil
}
