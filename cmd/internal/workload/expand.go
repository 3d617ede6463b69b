package workload

import (
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// owner names a controller.
type owner struct{ kind, namespace, name string }

// Expander makes pods. It is immutable.
type Expander struct {
	nodes []*v1.Node
	owned map[owner][]*v1.Pod // running pods by their controller
	// there names the ReplicaSets and claims that are in the input.
	there map[owner]bool
	// controlled holds the controllers whose ReplicaSets or Jobs are in the input.
	controlled map[owner]bool
	// first is what the input holds first of what a controller has made: a pod, a ReplicaSet or a Job.
	first map[owner]metav1.Object
}

// New looks around: the nodes that DaemonSets run on, and all other objects of
// the input.
func New(nodes []*v1.Node, input []runtime.Object) *Expander {
	x := &Expander{nodes: nodes, owned: map[owner][]*v1.Pod{}, there: map[owner]bool{}, controlled: map[owner]bool{},
		first: map[owner]metav1.Object{}}
	for _, obj := range input {
		switch obj := obj.(type) {
		case *v1.Pod:
			x.notePod(obj)
		case *v1.PersistentVolumeClaim:
			x.there[owner{"PersistentVolumeClaim", obj.Namespace, obj.Name}] = true
		case *appsv1.ReplicaSet:
			x.there[owner{"ReplicaSet", obj.Namespace, obj.Name}] = true
			x.noteController(obj)
		case *batchv1.Job:
			x.noteController(obj)
		}
	}
	return x
}

func (x *Expander) noteController(obj metav1.Object) {
	if by, ok := controller(obj); ok {
		x.controlled[by] = true
		x.made(by, obj)
	}
}

func (x *Expander) made(by owner, obj metav1.Object) {
	if x.first[by] == nil {
		x.first[by] = obj
	}
}

// Running is what the input holds of a workload's pods, ReplicaSets or Jobs, the first of them; nil: nothing.
func (x *Expander) Running(kind, namespace, name string) metav1.Object {
	return x.first[owner{kind, namespace, name}]
}

func (x *Expander) notePod(p *v1.Pod) {
	if p.Status.Phase == v1.PodSucceeded || p.Status.Phase == v1.PodFailed {
		return
	}
	by, ok := controller(p)
	if !ok {
		return
	}
	x.owned[by] = append(x.owned[by], p)
	x.made(by, p)
	// The Deployment of a ReplicaSet that is not in the input is told by the name.
	if hash := p.Labels[appsv1.DefaultDeploymentUniqueLabelKey]; by.kind == "ReplicaSet" && hash != "" {
		if end := len(by.name) - len(hash) - 1; end > 0 && by.name[end:] == "-"+hash {
			d := owner{"Deployment", p.Namespace, by.name[:end]}
			x.owned[d] = append(x.owned[d], p)
			x.made(d, p)
		}
	}
}

func controller(obj metav1.Object) (owner, bool) {
	ref := metav1.GetControllerOfNoCopy(obj)
	if ref == nil {
		return owner{}, false
	}
	return owner{ref.Kind, obj.GetNamespace(), ref.Name}, true
}

// Made is what a workload stands for, beside itself.
type Made struct {
	// Pods that are not there yet.
	Pods []*v1.Pod
	// ReplicaSets own the pods of a Deployment. Those that are in the input are not made.
	ReplicaSets []*appsv1.ReplicaSet
	// Claims are those of a StatefulSet's pods, but for the ones that are in the input. They outlive
	// their StatefulSet unless it owns them.
	Claims []*v1.PersistentVolumeClaim
}

// Expand makes what a workload stands for; of anything else, nothing.
func (x *Expander) Expand(obj runtime.Object) Made {
	switch w := obj.(type) {
	case *appsv1.Deployment:
		return x.deployment(w)
	case *appsv1.StatefulSet:
		return x.statefulSet(w)
	case *appsv1.ReplicaSet:
		return Made{Pods: x.replicas(w, &w.Spec.Template, "ReplicaSet", appsv1.SchemeGroupVersion.String(), w.Spec.Replicas)}
	case *v1.ReplicationController:
		return Made{Pods: x.replicas(w, w.Spec.Template, "ReplicationController", "v1", w.Spec.Replicas)}
	case *appsv1.DaemonSet:
		return Made{Pods: x.daemonSet(w)}
	case *batchv1.Job:
		return Made{Pods: x.job(w)}
	case *batchv1.CronJob:
		return Made{Pods: x.cronJob(w)}
	}
	return Made{}
}

// maker stamps out the pods of one workload.
type maker struct {
	template  *v1.PodTemplateSpec
	namespace string
	owner     metav1.OwnerReference
	labels    map[string]string // beside the template's
}

func newMaker(w metav1.Object, t *v1.PodTemplateSpec, apiVersion, kind, name string) *maker {
	yes := true
	uid := w.GetUID()
	if uid == "" || name != w.GetName() {
		uid = UID(kind, w.GetNamespace(), name)
	}
	return &maker{
		template: t, namespace: w.GetNamespace(), labels: map[string]string{},
		owner: metav1.OwnerReference{APIVersion: apiVersion, Kind: kind, Name: name, UID: uid, Controller: &yes, BlockOwnerDeletion: &yes},
	}
}

// make stamps out one pod.
func (m *maker) make(name, generateName string) *v1.Pod {
	t := m.template.DeepCopy()
	p := &v1.Pod{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{
			Name: name, GenerateName: generateName, Namespace: m.namespace,
			Labels: t.Labels, Annotations: t.Annotations, Finalizers: t.Finalizers,
			OwnerReferences: []metav1.OwnerReference{m.owner},
		},
		Spec: t.Spec,
	}
	for k, v := range m.labels {
		p.Labels = with(p.Labels, k, v)
	}
	return p
}

// generated stamps out n pods whose names end at random, with the numbers from
// first on.
func (m *maker) generated(first, n int) []*v1.Pod {
	base := generateName(m.owner.Name)
	endings := newEndings(m.owner.Kind, m.namespace, m.owner.Name)
	pods := make([]*v1.Pod, 0, n)
	for i := first; i < first+n; i++ {
		pods = append(pods, m.make(base+endings.at(i), m.owner.Name+"-"))
	}
	return pods
}

// Replica makes pod i of a ReplicaSet, ReplicationController or Job that is not Indexed; nil: w is something else. No two numbers give
// one name.
func Replica(w runtime.Object, i int) *v1.Pod {
	m := makerOf(w)
	if m == nil {
		return nil
	}
	return m.generated(i, 1)[0]
}

func makerOf(w runtime.Object) *maker {
	switch w := w.(type) {
	case *appsv1.ReplicaSet:
		return newMaker(w, &w.Spec.Template, appsv1.SchemeGroupVersion.String(), "ReplicaSet", w.Name)
	case *v1.ReplicationController:
		return newMaker(w, w.Spec.Template, "v1", "ReplicationController", w.Name)
	case *batchv1.Job:
		return newJobMaker(w)
	}
	return nil
}

func with(m map[string]string, key, value string) map[string]string {
	if m == nil {
		m = map[string]string{}
	}
	m[key] = value
	return m
}

func or[T any](p *T, otherwise T) T {
	if p == nil {
		return otherwise
	}
	return *p
}

// missing is how many of n pods are not there, and the number that the first of
// them has.
func (x *Expander) missing(o owner, n int32) (first, count int) {
	have := len(x.owned[o])
	return have, max(0, int(n)-have)
}

func (x *Expander) replicas(w metav1.Object, t *v1.PodTemplateSpec, kind, apiVersion string, n *int32) []*v1.Pod {
	first, count := x.missing(owner{kind, w.GetNamespace(), w.GetName()}, or(n, 1))
	if t == nil {
		return nil
	}
	return newMaker(w, t, apiVersion, kind, w.GetName()).generated(first, count)
}
