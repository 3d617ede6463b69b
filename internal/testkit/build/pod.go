package build

import (
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// PodBuilder builds a pod.
type PodBuilder struct{ pod v1.Pod }

// Pod starts a pod in the namespace default, without a container. Words about a
// container go to the last one that was started, and start one named "main"
// where there is none.
func Pod(name string) *PodBuilder {
	return &PodBuilder{pod: v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", UID: types.UID("pod-" + name)},
		Spec:       v1.PodSpec{SchedulerName: v1.DefaultSchedulerName},
	}}
}

// Obj is the pod. One without a container gets an empty one.
func (b *PodBuilder) Obj() *v1.Pod {
	if len(b.pod.Spec.Containers) == 0 {
		b.Container("main")
	}
	return &b.pod
}

// Namespace sets the namespace.
func (b *PodBuilder) Namespace(name string) *PodBuilder {
	b.pod.Namespace = name
	return b
}

// UID sets the UID, which is otherwise made of the name.
func (b *PodBuilder) UID(uid string) *PodBuilder {
	b.pod.UID = types.UID(uid)
	return b
}

// Label sets a label.
func (b *PodBuilder) Label(key, value string) *PodBuilder {
	if b.pod.Labels == nil {
		b.pod.Labels = map[string]string{}
	}
	b.pod.Labels[key] = value
	return b
}

// Priority sets the priority.
func (b *PodBuilder) Priority(p int32) *PodBuilder {
	b.pod.Spec.Priority = &p
	return b
}

// Node puts the pod on a node.
func (b *PodBuilder) Node(name string) *PodBuilder {
	b.pod.Spec.NodeName = name
	return b
}

// Nominated says that the pod is nominated to a node.
func (b *PodBuilder) Nominated(node string) *PodBuilder {
	b.pod.Status.NominatedNodeName = node
	return b
}

// Terminating says that the pod is being deleted.
func (b *PodBuilder) Terminating() *PodBuilder {
	at := metav1.Unix(1, 0)
	b.pod.DeletionTimestamp = &at
	return b
}

// Owner says which controller made the pod.
func (b *PodBuilder) Owner(apiVersion, kind, name string) *PodBuilder {
	controller := true
	b.pod.OwnerReferences = append(b.pod.OwnerReferences, metav1.OwnerReference{
		APIVersion: apiVersion, Kind: kind, Name: name, UID: types.UID(kind + "-" + name), Controller: &controller,
	})
	return b
}

// Claim mounts claims.
func (b *PodBuilder) Claim(names ...string) *PodBuilder {
	for _, name := range names {
		b.Mount(v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: name}})
	}
	return b
}

// Mount adds a volume.
func (b *PodBuilder) Mount(source v1.VolumeSource) *PodBuilder {
	b.pod.Spec.Volumes = append(b.pod.Spec.Volumes, v1.Volume{Name: fmt.Sprintf("v%d", len(b.pod.Spec.Volumes)), VolumeSource: source})
	return b
}

// Phase sets the phase.
func (b *PodBuilder) Phase(phase v1.PodPhase) *PodBuilder {
	b.pod.Status.Phase = phase
	return b
}

// Gate adds a scheduling gate.
func (b *PodBuilder) Gate(name string) *PodBuilder {
	b.pod.Spec.SchedulingGates = append(b.pod.Spec.SchedulingGates, v1.PodSchedulingGate{Name: name})
	return b
}

// Container starts a container.
func (b *PodBuilder) Container(name string) *PodBuilder {
	b.pod.Spec.Containers = append(b.pod.Spec.Containers, v1.Container{Name: name})
	return b
}

// last is the container that was started last.
func (b *PodBuilder) last() *v1.Container {
	if len(b.pod.Spec.Containers) == 0 {
		b.Container("main")
	}
	return &b.pod.Spec.Containers[len(b.pod.Spec.Containers)-1]
}

// Request sets what the container requests of a resource.
func (b *PodBuilder) Request(name, quantity string) *PodBuilder {
	set(&b.last().Resources.Requests, name, quantity)
	return b
}

// CPU sets the container's CPU request.
func (b *PodBuilder) CPU(quantity string) *PodBuilder {
	return b.Request(string(v1.ResourceCPU), quantity)
}

// Memory sets the container's memory request.
func (b *PodBuilder) Memory(quantity string) *PodBuilder {
	return b.Request(string(v1.ResourceMemory), quantity)
}

// Image sets the container's image.
func (b *PodBuilder) Image(name string) *PodBuilder {
	b.last().Image = name
	return b
}

// HostPort adds a host port to the container; an empty protocol is TCP, an empty
// address every address.
func (b *PodBuilder) HostPort(ip string, protocol v1.Protocol, port int32) *PodBuilder {
	c := b.last()
	c.Ports = append(c.Ports, v1.ContainerPort{HostIP: ip, Protocol: protocol, HostPort: port, ContainerPort: port})
	return b
}

// Init adds an init container with its requests, given as name, quantity, name,
// quantity.
func (b *PodBuilder) Init(name string, requests ...string) *PodBuilder {
	b.pod.Spec.InitContainers = append(b.pod.Spec.InitContainers, container(name, requests))
	return b
}

// Sidecar adds a restartable init container with its requests, as Init does.
func (b *PodBuilder) Sidecar(name string, requests ...string) *PodBuilder {
	c := container(name, requests)
	always := v1.ContainerRestartPolicyAlways
	c.RestartPolicy = &always
	b.pod.Spec.InitContainers = append(b.pod.Spec.InitContainers, c)
	return b
}

// container makes a container of a name and of pairs of resource and quantity.
func container(name string, requests []string) v1.Container {
	c := v1.Container{Name: name}
	for i := 0; i+1 < len(requests); i += 2 {
		set(&c.Resources.Requests, requests[i], requests[i+1])
	}
	return c
}

// Overhead sets what the pod takes beside its containers.
func (b *PodBuilder) Overhead(name, quantity string) *PodBuilder {
	set(&b.pod.Spec.Overhead, name, quantity)
	return b
}

// PodLevel sets a request of the pod as a whole.
func (b *PodBuilder) PodLevel(name, quantity string) *PodBuilder {
	if b.pod.Spec.Resources == nil {
		b.pod.Spec.Resources = &v1.ResourceRequirements{}
	}
	set(&b.pod.Spec.Resources.Requests, name, quantity)
	return b
}

// Toleration adds a toleration, written as a taint; without "=" it holds for
// every value, without ":" for every effect.
func (b *PodBuilder) Toleration(taint string) *PodBuilder {
	key, value, effect := split(taint)
	t := v1.Toleration{Key: key, Operator: v1.TolerationOpExists, Effect: effect}
	if strings.Contains(taint, "=") {
		t.Operator, t.Value = v1.TolerationOpEqual, value
	}
	b.pod.Spec.Tolerations = append(b.pod.Spec.Tolerations, t)
	return b
}

// NodeSelector adds a label that the node must have.
func (b *PodBuilder) NodeSelector(key, value string) *PodBuilder {
	if b.pod.Spec.NodeSelector == nil {
		b.pod.Spec.NodeSelector = map[string]string{}
	}
	b.pod.Spec.NodeSelector[key] = value
	return b
}
