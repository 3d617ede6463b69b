package conformance

import (
	"fmt"
	"math/rand/v2"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/shardsched/shardsched/internal/testkit/build"
)

// strange adds to objects what a cluster seldom has, but may have.
type strange struct{ *rand.Rand }

func oneOf[T any](r strange, list ...T) T { return list[r.IntN(len(list))] }

func (r strange) chance(percent int) bool { return r.IntN(100) < percent }

// Names of resources, some of which a scheduler does not count.
func (r strange) resource() v1.ResourceName {
	return oneOf(r, v1.ResourceCPU, v1.ResourceMemory, v1.ResourceEphemeralStorage, v1.ResourcePods, v1.ResourceStorage,
		"nvidia.com/gpu", "example.com/foo", "example.com/bar", "hugepages-2Mi", "hugepages-1Gi", "attachable-volumes-csi-x",
		"kubernetes.io/batch", "sub.kubernetes.io/thing", "requests.example.com/foo", "requests.cpu", "plain",
		"bad name/x", "example.com/", "/x")
}

// quantity is a quantity in one of the many ways to write it, less than what we take for
// the most there is of a resource.
func (r strange) quantity(name v1.ResourceName) resource.Quantity {
	if name != v1.ResourceCPU && r.chance(4) {
		return resource.MustParse(oneOf(r, "4Pi", "9007199254740993"))
	}
	return resource.MustParse(oneOf(r, "0", "1", "2", "3", "7", "100m", "1500m", "1m", "1n", "999999999n", "0.5", "1.0001", "1e3", "12e6",
		"1k", "1Ki", "128Mi", "1G", "1Gi", "17Gi", "1Ti", "209715200", "209715201", "100000u", "5e-1", "64"))
}

func (r strange) list(n int) v1.ResourceList {
	out := v1.ResourceList{}
	for range n {
		name := r.resource()
		out[name] = r.quantity(name)
	}
	return out
}

func (r strange) key() string {
	return oneOf(r, "zone", "disk", "tier", "empty", "a", "dedicated", "spot", "example.com/role", v1.LabelHostname,
		v1.TaintNodeUnschedulable, "not a key", "")
}

func (r strange) value() string {
	return oneOf(r, "", "a", "b", "ssd", "1", "2", "03", "+5", "-7", "40", "9223372036854775807", "9223372036854775808", "many", "web",
		"yes", "no value!")
}

// node makes a node stranger.
func (r strange) node(n *v1.Node) {
	if r.chance(25) {
		for name, q := range r.list(3) {
			n.Status.Allocatable[name] = q
		}
	}
	if r.chance(6) {
		delete(n.Status.Allocatable, oneOf(r, v1.ResourceCPU, v1.ResourceMemory, v1.ResourcePods))
	}
	for range r.IntN(3) {
		if key := r.key(); r.chance(40) && key != "" {
			n.Labels[key] = r.value()
		}
	}
	if r.chance(15) {
		n.Spec.Taints = append(n.Spec.Taints, r.taint())
	}
	for range r.IntN(3) {
		if r.chance(40) {
			n.Status.Images = append(n.Status.Images, r.image())
		}
	}
	if r.chance(2) {
		n.Labels = nil
	}
}

func (r strange) taint() v1.Taint {
	return v1.Taint{
		Key: oneOf(r, "dedicated", "spot", "a", v1.TaintNodeUnschedulable, v1.TaintNodeNotReady), Value: r.value(),
		Effect: oneOf(r, v1.TaintEffectNoSchedule, v1.TaintEffectPreferNoSchedule, v1.TaintEffectPreferNoSchedule,
			v1.TaintEffectPreferNoSchedule, v1.TaintEffectNoExecute),
	}
}

func (r strange) imageName() string {
	return oneOf(r, "registry/app:v1", "registry/app:latest", "registry/app", "registry:5000/db", "registry:5000/db:latest", "db",
		"db:latest",
		"registry/db@sha256:0123", "registry/huge:latest", "registry/huge", "", "a/b/c:d", "x:1/y")
}

func (r strange) image() v1.ContainerImage {
	out := v1.ContainerImage{SizeBytes: oneOf[int64](r, 0, 1, 23<<20, 23<<20+1, 500<<20, 1000<<20, 5000<<20, 40<<30, 123456789)}
	for range r.IntN(4) {
		out.Names = append(out.Names, r.imageName())
	}
	return out
}

// pod makes a pod stranger, one that is pending or one that is on a node.
func (r strange) pod(p *v1.Pod) {
	if r.chance(30) {
		r.requests(p)
	}
	if r.chance(12) {
		r.podLevel(p)
	}
	for range r.IntN(3) {
		if r.chance(30) {
			p.Spec.Tolerations = append(p.Spec.Tolerations, r.toleration())
		}
	}
	if r.chance(20) {
		r.ports(p)
	}
	if r.chance(15) {
		p.Spec.Volumes = append(p.Spec.Volumes, v1.Volume{Name: "image",
			VolumeSource: v1.VolumeSource{Image: &v1.ImageVolumeSource{Reference: r.imageName()}}})
	}
	for i := range p.Spec.Containers {
		if r.chance(30) {
			p.Spec.Containers[i].Image = r.imageName()
		}
	}
	for i := range p.Spec.InitContainers {
		if r.chance(30) {
			p.Spec.InitContainers[i].Image = r.imageName()
		}
	}
	if r.chance(12) {
		r.affinity(p)
	}
	if r.chance(5) {
		p.Spec.NodeSelector = map[string]string{r.key(): r.value()}
	}
}

// vary changes one thing of a pod.
func (r strange) vary(p *v1.Pod) {
	always := v1.ContainerRestartPolicyAlways
	switch r.IntN(9) {
	case 0:
		for i := range p.Spec.InitContainers {
			if p.Spec.InitContainers[i].RestartPolicy = nil; r.chance(50) {
				p.Spec.InitContainers[i].RestartPolicy = &always
			}
		}
	case 1:
		for i := range p.Spec.Containers {
			p.Spec.Containers[i].Resources.Requests = r.list(2)
		}
	case 2:
		p.Spec.Overhead = r.list(1)
	case 3:
		r.podLevel(p)
	case 4:
		r.ports(p)
	case 5:
		for i := range p.Spec.Tolerations {
			p.Spec.Tolerations[i] = r.toleration()
		}
	case 6:
		r.affinity(p)
	case 7:
		p.Spec.Volumes = []v1.Volume{{Name: "image", VolumeSource: v1.VolumeSource{Image: &v1.ImageVolumeSource{Reference: r.imageName()}}}}
	case 8:
		p.Spec.NodeSelector = map[string]string{r.key(): r.value()}
	}
}

// scatter gives a node one of hundreds of scores.
func (r strange) scatter() (out []v1.PreferredSchedulingTerm) {
	prefer := func(key string, operator v1.NodeSelectorOperator, values ...string) {
		out = append(out, v1.PreferredSchedulingTerm{Weight: int32(1 + r.IntN(100)),
			Preference: build.Labels(build.Match(key, operator, values...))})
	}
	for _, zone := range []string{"a", "b", "c"} {
		prefer("zone", v1.NodeSelectorOpIn, zone)
	}
	prefer("disk", v1.NodeSelectorOpIn, "ssd")
	prefer("disk", v1.NodeSelectorOpExists)
	for _, bound := range []string{"1", "2", "3"} {
		prefer("tier", v1.NodeSelectorOpGt, bound)
	}
	for range 5 {
		prefer(v1.LabelHostname, v1.NodeSelectorOpIn, fmt.Sprintf("node-%d", r.IntN(40)), fmt.Sprintf("node-%d", r.IntN(40)),
			fmt.Sprintf("node-%d", r.IntN(40)))
	}
	return out
}

func (r strange) requests(p *v1.Pod) {
	always := v1.ContainerRestartPolicyAlways
	for range r.IntN(3) {
		c := v1.Container{Name: fmt.Sprintf("init-%d", len(p.Spec.InitContainers)),
			Resources: v1.ResourceRequirements{Requests: r.list(r.IntN(3))}}
		if r.chance(50) {
			c.RestartPolicy = &always
		}
		p.Spec.InitContainers = append(p.Spec.InitContainers, c)
	}
	if r.chance(60) {
		p.Spec.Containers = append(p.Spec.Containers, v1.Container{
			Name: "more", Resources: v1.ResourceRequirements{Requests: r.list(r.IntN(4)), Limits: r.list(r.IntN(2))},
		})
	}
	if r.chance(20) {
		p.Spec.Overhead = r.list(2)
	}
}

func (r strange) podLevel(p *v1.Pod) {
	p.Spec.Resources = &v1.ResourceRequirements{Requests: v1.ResourceList{}}
	for range r.IntN(3) {
		name := oneOf(r, v1.ResourceCPU, v1.ResourceMemory, "hugepages-2Mi", "hugepages-1Gi", "example.com/foo", "ephemeral-storage")
		p.Spec.Resources.Requests[name] = r.quantity(name)
	}
	if r.chance(30) {
		p.Spec.Resources.Limits = r.list(2)
	}
}

func (r strange) toleration() v1.Toleration {
	return v1.Toleration{
		Key:      oneOf(r, "", "dedicated", "spot", "a", "old", "broken", v1.TaintNodeUnschedulable),
		Operator: oneOf[v1.TolerationOperator](r, "", "Equal", "Exists", "Exists", "Lt", "Gt"),
		Value:    r.value(),
		Effect:   oneOf(r, "", v1.TaintEffectNoSchedule, v1.TaintEffectPreferNoSchedule, v1.TaintEffectNoExecute),
	}
}

func (r strange) ports(p *v1.Pod) {
	port := func() v1.ContainerPort {
		return v1.ContainerPort{
			ContainerPort: 1, HostPort: oneOf[int32](r, 0, 80, 80, 443, 9000),
			HostIP:   oneOf(r, "", "0.0.0.0", "127.0.0.1", "10.0.0.1", "::", "::1"),
			Protocol: oneOf(r, "", v1.ProtocolTCP, v1.ProtocolUDP, v1.ProtocolSCTP),
		}
	}
	for i := range p.Spec.Containers {
		p.Spec.Containers[i].Ports = append(p.Spec.Containers[i].Ports, port())
	}
	for i := range p.Spec.InitContainers {
		p.Spec.InitContainers[i].Ports = append(p.Spec.InitContainers[i].Ports, port(), port())
	}
}

// resize gives a pod that is on its node the status of one that is resized in place.
func (r strange) resize(p *v1.Pod) {
	status := func(name string) v1.ContainerStatus {
		s := v1.ContainerStatus{Name: name}
		if r.chance(80) {
			s.Resources = &v1.ResourceRequirements{Requests: r.list(r.IntN(4))}
		}
		if r.chance(60) {
			s.AllocatedResources = r.list(r.IntN(4))
		}
		return s
	}
	for _, c := range p.Spec.Containers {
		p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, status(c.Name))
	}
	for _, c := range p.Spec.InitContainers {
		p.Status.InitContainerStatuses = append(p.Status.InitContainerStatuses, status(c.Name))
	}
	if r.chance(40) {
		p.Status.Resources = &v1.ResourceRequirements{Requests: r.list(r.IntN(3))}
	}
	if r.chance(40) {
		p.Status.AllocatedResources = r.list(r.IntN(3))
	}
	if r.chance(30) {
		p.Status.Conditions = append(p.Status.Conditions, v1.PodCondition{
			Type: v1.PodResizePending, Status: v1.ConditionTrue, Reason: oneOf(r, v1.PodReasonInfeasible, v1.PodReasonDeferred),
		})
	}
}

func (r strange) affinity(p *v1.Pod) {
	a := &v1.NodeAffinity{}
	if r.chance(60) {
		a.RequiredDuringSchedulingIgnoredDuringExecution = r.selector()
	}
	a.PreferredDuringSchedulingIgnoredDuringExecution = r.preferences()
	p.Spec.Affinity = &v1.Affinity{NodeAffinity: a}
}

func (r strange) selector() *v1.NodeSelector {
	s := &v1.NodeSelector{}
	for range r.IntN(4) {
		s.NodeSelectorTerms = append(s.NodeSelectorTerms, r.term())
	}
	return s
}

func (r strange) preferences() (out []v1.PreferredSchedulingTerm) {
	n := r.IntN(3)
	if r.chance(25) {
		n = 10 // more different sums than nodes
	}
	for range n {
		out = append(out, v1.PreferredSchedulingTerm{Weight: int32(r.IntN(101)), Preference: r.term()})
	}
	return out
}

func (r strange) term() v1.NodeSelectorTerm {
	var t v1.NodeSelectorTerm
	for range r.IntN(3) {
		t.MatchExpressions = append(t.MatchExpressions, r.requirement())
	}
	if r.chance(35) {
		for range r.IntN(3) {
			t.MatchFields = append(t.MatchFields, r.field())
		}
	}
	return t
}

func (r strange) requirement() v1.NodeSelectorRequirement {
	q := v1.NodeSelectorRequirement{
		Key:      oneOf(r, "zone", "disk", "tier", "empty", "a", r.key()),
		Operator: oneOf[v1.NodeSelectorOperator](r, "In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"),
	}
	if r.chance(2) {
		q.Operator = oneOf[v1.NodeSelectorOperator](r, "", "in", "Equals")
	}
	switch n := r.IntN(3); q.Operator {
	case v1.NodeSelectorOpGt, v1.NodeSelectorOpLt:
		q.Values = []string{oneOf(r, "1", "2", "0", "39", "41", "1", r.value())}
		if r.chance(3) {
			q.Values = append(q.Values, "5")
		}
	case v1.NodeSelectorOpIn, v1.NodeSelectorOpNotIn:
		for range n + 1 {
			q.Values = append(q.Values, oneOf(r, "a", "b", "ssd", "hdd", "1", "", r.value()))
		}
		if r.chance(3) {
			q.Values = nil
		}
	default:
		if r.chance(3) {
			q.Values = []string{"a"}
		}
	}
	return q
}

func (r strange) field() v1.NodeSelectorRequirement {
	q := v1.NodeSelectorRequirement{
		Key: oneOf(r, metav1.ObjectNameField, metav1.ObjectNameField, metav1.ObjectNameField, metav1.ObjectNameField,
			"metadata.namespace", ""),
		Operator: oneOf[v1.NodeSelectorOperator](r, "In", "In", "In", "NotIn", "NotIn", "Exists"),
	}
	for range oneOf(r, 1, 1, 1, 1, 2, 0) {
		q.Values = append(q.Values, oneOf(r, "", "none", fmt.Sprintf("node-%d", r.IntN(5)), fmt.Sprintf("node-%d", r.IntN(30))))
	}
	return q
}
