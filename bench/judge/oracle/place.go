package oracle

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientset "k8s.io/client-go/kubernetes"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
)

// Place puts the pod of a verdict on a node, as a scheduler does once it has decided, and
// reserves its volumes and devices there: what is assumed of them lasts until Set brings them
// anew. It returns the persistent volumes, their claims and the claims of devices that a scheduler
// would now write, as it would write them.
func (o *Oracle) Place(ctx context.Context, v *Verdict, node string) ([]Object, error) {
	return o.place(ctx, v, node, names.VolumeBinding, names.DynamicResources)
}

// PlaceWithoutDevices is Place, but no devices are taken: see Depart.
func (o *Oracle) PlaceWithoutDevices(ctx context.Context, v *Verdict, node string) ([]Object, error) {
	o.objects.devices.trial = true
	defer func() { o.objects.devices.trial = false }()
	return o.place(ctx, v, node, names.VolumeBinding)
}

// place reserves, and has the PreBind of some plugins write.
func (o *Oracle) place(ctx context.Context, v *Verdict, node string, writers ...string) ([]Object, error) {
	pod, err := o.assume(v.cycle.pod, node)
	if err != nil {
		return nil, err
	}
	p := v.cycle.profile
	if status := p.RunReservePluginsReserve(ctx, v.cycle.state, pod, node); !status.IsSuccess() {
		return nil, fmt.Errorf("reserve for pod %s/%s on %s: %w", pod.Namespace, pod.Name, node, status.AsError())
	}
	o.api.written = nil
	for _, e := range p.ListPlugins().PreBind.Enabled {
		if !slices.Contains(writers, e.Name) {
			continue
		}
		if err := o.writes(ctx, p.plugins[e.Name].(fwk.PreBindPlugin), v.cycle.state, pod); err != nil {
			return nil, err
		}
	}
	return o.api.written, nil
}

// writes lets a plugin write what it has assumed. It then would wait for volumes to be bound, or
// devices to be ready, but its time is up.
func (o *Oracle) writes(ctx context.Context, p fwk.PreBindPlugin, state fwk.CycleState, pod *v1.Pod) error {
	ctx, cancel := context.WithCancel(ctx)
	cancel()
	before := len(o.api.written)
	status := p.PreBind(ctx, state, pod, pod.Spec.NodeName)
	waits := strings.Contains(status.Message(), context.Canceled.Error()) // a claim that is reserved already is not written
	if !status.IsSuccess() && !waits && (len(o.api.written) == before || p.Name() == names.DynamicResources) {
		return fmt.Errorf("%s writes for pod %s/%s: %w", p.Name(), pod.Namespace, pod.Name, status.AsError())
	}
	return nil
}

// recorder is an API server that notes down writes to volumes and claims. What it is
// not asked for, it does not have.
type recorder struct {
	clientset.Interface
	objects *objects
	// written are objects as they were written last, deleted are those that are gone.
	written, deleted []Object
}

// write notes an object down in place of an older state of it.
func (r *recorder) write(obj Object) {
	r.written = slices.DeleteFunc(r.written, func(o Object) bool { return sameObject(o, obj) })
	r.written = append(r.written, obj.DeepCopyObject().(Object))
}

func sameObject(a, b Object) bool {
	return reflect.TypeOf(a) == reflect.TypeOf(b) && a.GetNamespace() == b.GetNamespace() && a.GetName() == b.GetName()
}

func (r *recorder) CoreV1() corev1client.CoreV1Interface { return recordingCore{r: r} }

type recordingCore struct {
	corev1client.CoreV1Interface
	r *recorder
}

func (c recordingCore) PersistentVolumes() corev1client.PersistentVolumeInterface {
	return recordingVolumes{r: c.r}
}

// Pods are those whose status is written.
func (c recordingCore) Pods(string) corev1client.PodInterface { return recordingPods{} }

func (c recordingCore) PersistentVolumeClaims(string) corev1client.PersistentVolumeClaimInterface {
	return recordingClaims{r: c.r}
}

type recordingVolumes struct {
	corev1client.PersistentVolumeInterface
	r *recorder
}

// Update notes the volume down.
func (v recordingVolumes) Update(_ context.Context, pv *v1.PersistentVolume, _ metav1.UpdateOptions) (*v1.PersistentVolume, error) {
	v.r.write(pv)
	return pv, nil
}

type recordingClaims struct {
	corev1client.PersistentVolumeClaimInterface
	r *recorder
}

// Update notes the claim down.
func (c recordingClaims) Update(_ context.Context, pvc *v1.PersistentVolumeClaim,
	_ metav1.UpdateOptions) (*v1.PersistentVolumeClaim, error) {
	c.r.write(pvc)
	return pvc, nil
}
