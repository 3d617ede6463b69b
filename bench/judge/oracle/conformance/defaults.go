package conformance

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/shardsched/shardsched/bench/judge/oracle"
)

// defaultsFamily puts pods behind services and into workloads, through which they have
// topology spread constraints by default.
type defaultsFamily struct {
	g       *generator
	objects []oracle.Object
	made    int
}

func (f *defaultsFamily) node(n *v1.Node) { f.g.place(n) }

func (f *defaultsFamily) first() (out Round) {
	for range f.g.IntN(7) {
		out = append(out, f.add()...)
	}
	return out
}

// add adds a service or a workload.
func (f *defaultsFamily) add() Round {
	f.made++
	meta := metav1.ObjectMeta{Name: fmt.Sprintf("owner-%d", f.made), Namespace: f.g.namespace()}
	meta.UID = types.UID(meta.Name)
	var obj oracle.Object
	switch f.g.IntN(6) {
	case 0:
		obj = &appsv1.ReplicaSet{ObjectMeta: meta, Spec: appsv1.ReplicaSetSpec{Selector: f.selector()}}
	case 1:
		obj = &appsv1.StatefulSet{ObjectMeta: meta, Spec: appsv1.StatefulSetSpec{Selector: f.selector()}}
	case 2:
		obj = &v1.ReplicationController{ObjectMeta: meta, Spec: v1.ReplicationControllerSpec{Selector: f.labels()}}
	default:
		obj = &v1.Service{ObjectMeta: meta, Spec: v1.ServiceSpec{Selector: f.labels()}}
	}
	f.objects = append(f.objects, obj)
	return Round{set(obj)}
}

func (f *defaultsFamily) labels() map[string]string {
	switch f.g.IntN(8) {
	case 0:
		return nil
	case 1:
		return map[string]string{}
	}
	out := map[string]string{"app": oneOf(f.g.strange, "web", "web", "db", "cache")}
	if f.g.chance(30) {
		out["tier"] = oneOf(f.g.strange, "front", "back")
	}
	return out
}

func (f *defaultsFamily) selector() *metav1.LabelSelector {
	s := f.g.labelSelector(map[string]string{"app": oneOf(f.g.strange, "web", "db")})
	if s == nil || f.g.chance(50) {
		s = &metav1.LabelSelector{MatchLabels: f.labels()}
	}
	return s
}

func (f *defaultsFamily) pod(p *v1.Pod) Round {
	f.g.identify(p)
	if f.g.chance(50) {
		return nil
	}
	p.OwnerReferences = []metav1.OwnerReference{f.owner(p)}
	if f.g.chance(10) {
		p.OwnerReferences[0].Controller = nil
	}
	return nil
}

// owner is one of the workloads, perhaps of another namespace, or none that there is.
func (f *defaultsFamily) owner(p *v1.Pod) metav1.OwnerReference {
	ref := metav1.OwnerReference{APIVersion: "apps/v1", Kind: oneOf(f.g.strange, "ReplicaSet", "StatefulSet", "DaemonSet"), Name: "nobody",
		UID: "nobody", Controller: ptr.To(true)}
	if len(f.objects) == 0 || f.g.chance(10) {
		return ref
	}
	obj := oneOf(f.g.strange, f.objects...)
	ref.Name, ref.UID = obj.GetName(), obj.GetUID()
	switch obj.(type) {
	case *v1.ReplicationController:
		ref.APIVersion, ref.Kind = "v1", "ReplicationController"
	case *appsv1.ReplicaSet:
		ref.Kind = "ReplicaSet"
	case *appsv1.StatefulSet:
		ref.Kind = "StatefulSet"
	}
	if f.g.chance(5) {
		ref.APIVersion = oneOf(f.g.strange, "v1", "apps/v1beta1", "a/b/c", "")
	}
	if f.g.chance(80) {
		p.Namespace = obj.GetNamespace()
	}
	return ref
}

func (f *defaultsFamily) change() Round {
	if len(f.objects) == 0 || f.g.chance(30) {
		return f.add()
	}
	i := f.g.IntN(len(f.objects))
	if f.g.chance(30) {
		obj := f.objects[i]
		f.objects = append(f.objects[:i:i], f.objects[i+1:]...)
		return Round{{Type: Removed, Object: obj}}
	}
	if f.g.chance(30) {
		return f.g.relabel()
	}
	switch obj := f.objects[i].DeepCopyObject().(type) {
	case *v1.Service:
		obj.Spec.Selector = f.labels()
		f.objects[i] = obj
	case *v1.ReplicationController:
		obj.Spec.Selector = f.labels()
		f.objects[i] = obj
	}
	return Round{set(f.objects[i])}
}
