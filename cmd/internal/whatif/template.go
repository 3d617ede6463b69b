package whatif

import (
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/shardsched/shardsched/cmd/internal/workload"
)

// restartedAt is the annotation that `kubectl rollout restart` leaves on a template; a manifest that does not know of it takes nothing
// away by it.
const restartedAt = "kubectl.kubernetes.io/restartedAt"

// hashLabels are those that controllers add to their pods and ReplicaSets.
func hashLabels() []string {
	return []string{"pod-template-hash", "controller-revision-hash", "pod-template-generation", "statefulset.kubernetes.io/pod-name",
		"apps.kubernetes.io/pod-index"}
}

// sameTemplate tells whether a template that is there is what an API server makes of another: fields may differ by their defaults alone.
func sameTemplate(there, wanted *v1.PodTemplateSpec) bool {
	a, b := there.DeepCopy(), wanted.DeepCopy()
	if _, named := b.Annotations[restartedAt]; !named {
		delete(a.Annotations, restartedAt)
	}
	for _, t := range []*v1.PodTemplateSpec{a, b} {
		for _, label := range hashLabels() {
			delete(t.Labels, label)
		}
		bare(&t.Spec)
	}
	return maps.Equal(a.Labels, b.Labels) && maps.Equal(a.Annotations, b.Annotations) && apiequality.Semantic.DeepEqual(a.Spec, b.Spec)
}

// MadeFrom tells whether a pod may have been made from a workload's template.
func MadeFrom(p *v1.Pod, w runtime.Object) bool {
	model := workload.Model(w)
	meta := metav1.ObjectMeta{Labels: model.Labels, Annotations: model.Annotations}
	return madeFrom(p, &v1.PodTemplateSpec{ObjectMeta: meta, Spec: model.Spec})
}

// madeFrom tells whether a pod may have been made from a template, where nothing is known of its controller: whatever admission adds
// to pods is left out.
func madeFrom(p *v1.Pod, wanted *v1.PodTemplateSpec) bool {
	t := &v1.PodTemplateSpec{Spec: *p.Spec.DeepCopy()}
	w := wanted.DeepCopy()
	for key, value := range w.Labels {
		if p.Labels[key] != value {
			return false
		}
	}
	for key, value := range w.Annotations {
		if p.Annotations[key] != value {
			return false
		}
	}
	w.Labels, w.Annotations = nil, nil
	leaveAdmission(&t.Spec, &w.Spec)
	return sameTemplate(t, w)
}

// leaveAdmission takes from a pod's spec what the API server and its controllers add, where the template does not have it.
func leaveAdmission(p, t *v1.PodSpec) {
	p.NodeName = t.NodeName
	p.Priority, p.PreemptionPolicy = t.Priority, t.PreemptionPolicy
	if t.PriorityClassName == "" {
		p.PriorityClassName = ""
	}
	p.Hostname, p.Subdomain = t.Hostname, t.Subdomain
	if len(t.ImagePullSecrets) == 0 {
		p.ImagePullSecrets = nil
	}
	token := map[string]bool{}
	p.Volumes = slices.DeleteFunc(p.Volumes, func(v v1.Volume) bool {
		token[v.Name] = v.Projected != nil && strings.HasPrefix(v.Name, "kube-api-access-")
		named := slices.ContainsFunc(t.Volumes, func(x v1.Volume) bool { return x.Name == v.Name })
		return token[v.Name] || v.PersistentVolumeClaim != nil && !named
	})
	for _, containers := range [][]v1.Container{p.InitContainers, p.Containers} {
		for i := range containers {
			c := &containers[i]
			c.VolumeMounts = slices.DeleteFunc(c.VolumeMounts, func(m v1.VolumeMount) bool { return token[m.Name] })
			c.Env = slices.DeleteFunc(c.Env, func(e v1.EnvVar) bool { return e.Name == "JOB_COMPLETION_INDEX" })
		}
	}
	p.Tolerations = slices.DeleteFunc(p.Tolerations, func(x v1.Toleration) bool {
		added := strings.HasPrefix(x.Key, "node.kubernetes.io/") && x.Operator == v1.TolerationOpExists
		return added && !slices.ContainsFunc(t.Tolerations, func(y v1.Toleration) bool { return y.MatchToleration(&x) })
	})
}

// bare clears the fields of a spec that hold what the API server fills in (pkg/apis/core/v1/defaults.go of k8s.io/kubernetes). What is
// empty and what is nil is the same.
func bare(s *v1.PodSpec) {
	unfill(&s.RestartPolicy, v1.RestartPolicyAlways)
	unfill(&s.DNSPolicy, v1.DNSClusterFirst)
	unfill(&s.SchedulerName, v1.DefaultSchedulerName)
	unfill(&s.ServiceAccountName, "default")
	unfill(&s.DeprecatedServiceAccount, "default")
	unfill(&s.DeprecatedServiceAccount, s.ServiceAccountName)
	unfillPointer(&s.TerminationGracePeriodSeconds, 30)
	unfillPointer(&s.EnableServiceLinks, true)
	if s.SecurityContext != nil && apiequality.Semantic.DeepEqual(*s.SecurityContext, v1.PodSecurityContext{}) {
		s.SecurityContext = nil
	}
	if len(s.NodeSelector) == 0 {
		s.NodeSelector = nil
	}
	for i := range s.Tolerations {
		unfill(&s.Tolerations[i].Operator, v1.TolerationOpEqual)
	}
	for i := range s.Volumes {
		bareVolume(&s.Volumes[i])
	}
	for i := range s.InitContainers {
		bareContainer(&s.InitContainers[i], s.HostNetwork)
	}
	for i := range s.Containers {
		bareContainer(&s.Containers[i], s.HostNetwork)
	}
}

func unfill[T comparable](field *T, standard T) {
	if *field == standard {
		*field = *new(T)
	}
}

func unfillPointer[T comparable](field **T, standard T) {
	if *field != nil && **field == standard {
		*field = nil
	}
}

func bareContainer(c *v1.Container, hostNetwork bool) {
	unfill(&c.TerminationMessagePath, v1.TerminationMessagePathDefault)
	unfill(&c.TerminationMessagePolicy, v1.TerminationMessageReadFile)
	unfill(&c.ImagePullPolicy, pullPolicy(c.Image))
	for name, q := range c.Resources.Limits {
		if has, ok := c.Resources.Requests[name]; ok && has.Cmp(q) == 0 {
			delete(c.Resources.Requests, name)
		}
	}
	for i := range c.Ports {
		port := &c.Ports[i]
		unfill(&port.Protocol, v1.ProtocolTCP)
		if hostNetwork {
			unfill(&port.HostPort, port.ContainerPort)
		}
	}
	for i := range c.Env {
		if from := c.Env[i].ValueFrom; from != nil && from.FieldRef != nil {
			unfill(&from.FieldRef.APIVersion, "v1")
		}
	}
	for _, probe := range []*v1.Probe{c.LivenessProbe, c.ReadinessProbe, c.StartupProbe} {
		bareProbe(probe)
	}
	if c.Lifecycle != nil {
		for _, h := range []*v1.LifecycleHandler{c.Lifecycle.PostStart, c.Lifecycle.PreStop} {
			if h != nil {
				bareGet(h.HTTPGet)
			}
		}
	}
	if c.SecurityContext != nil && apiequality.Semantic.DeepEqual(*c.SecurityContext, v1.SecurityContext{}) {
		c.SecurityContext = nil
	}
}

// pullPolicy is what the API server takes for an image.
func pullPolicy(image string) v1.PullPolicy {
	name := image[strings.LastIndex(image, "/")+1:]
	if strings.Contains(name, "@") {
		return v1.PullIfNotPresent
	}
	if _, tag, tagged := strings.Cut(name, ":"); tagged && tag != "latest" {
		return v1.PullIfNotPresent
	}
	return v1.PullAlways
}

func bareProbe(p *v1.Probe) {
	if p == nil {
		return
	}
	unfill(&p.TimeoutSeconds, 1)
	unfill(&p.PeriodSeconds, 10)
	unfill(&p.SuccessThreshold, 1)
	unfill(&p.FailureThreshold, 3)
	bareGet(p.HTTPGet)
	if p.GRPC != nil {
		unfillPointer(&p.GRPC.Service, "")
	}
}

func bareGet(g *v1.HTTPGetAction) {
	if g == nil {
		return
	}
	unfill(&g.Path, "/")
	unfill(&g.Scheme, v1.URISchemeHTTP)
	unfill(&g.Port, intstr.IntOrString{})
}

func bareVolume(v *v1.Volume) {
	const mode, projectedMode = v1.ConfigMapVolumeSourceDefaultMode, v1.ProjectedVolumeSourceDefaultMode
	if v.VolumeSource == (v1.VolumeSource{}) {
		v.EmptyDir = &v1.EmptyDirVolumeSource{}
	}
	switch {
	case v.ConfigMap != nil:
		unfillPointer(&v.ConfigMap.DefaultMode, mode)
	case v.Secret != nil:
		unfillPointer(&v.Secret.DefaultMode, mode)
	case v.DownwardAPI != nil:
		unfillPointer(&v.DownwardAPI.DefaultMode, mode)
		bareFiles(v.DownwardAPI.Items)
	case v.Projected != nil:
		unfillPointer(&v.Projected.DefaultMode, projectedMode)
		for i := range v.Projected.Sources {
			s := &v.Projected.Sources[i]
			if s.ServiceAccountToken != nil {
				unfillPointer(&s.ServiceAccountToken.ExpirationSeconds, 3600)
			}
			if s.DownwardAPI != nil {
				bareFiles(s.DownwardAPI.Items)
			}
		}
	case v.HostPath != nil:
		unfillPointer(&v.HostPath.Type, v1.HostPathUnset)
	case v.Ephemeral != nil && v.Ephemeral.VolumeClaimTemplate != nil:
		unfillPointer(&v.Ephemeral.VolumeClaimTemplate.Spec.VolumeMode, v1.PersistentVolumeFilesystem)
	case v.ISCSI != nil:
		unfill(&v.ISCSI.ISCSIInterface, "default")
	case v.RBD != nil:
		unfill(&v.RBD.RBDPool, "rbd")
		unfill(&v.RBD.RadosUser, "admin")
		unfill(&v.RBD.Keyring, "/etc/ceph/keyring")
	}
}

func bareFiles(items []v1.DownwardAPIVolumeFile) {
	for i := range items {
		if items[i].FieldRef != nil {
			unfill(&items[i].FieldRef.APIVersion, "v1")
		}
	}
}
