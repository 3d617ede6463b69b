package workload

import (
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// statefulSet makes the pods that are missing, each with its number, and their claims.
func (x *Expander) statefulSet(w *appsv1.StatefulSet) Made {
	there := map[string]bool{}
	for _, p := range x.owned[owner{"StatefulSet", w.Namespace, w.Name}] {
		there[p.Name] = true
	}
	start := 0
	if w.Spec.Ordinals != nil {
		start = int(w.Spec.Ordinals.Start)
	}
	var made Made
	for i := start; i < start+int(or(w.Spec.Replicas, 1)); i++ {
		if there[fmt.Sprintf("%s-%d", w.Name, i)] {
			continue
		}
		p, claims := Ordinal(w, i)
		made.Pods = append(made.Pods, p)
		made.Claims = append(made.Claims, slices.DeleteFunc(claims, func(c *v1.PersistentVolumeClaim) bool {
			return x.there[owner{"PersistentVolumeClaim", c.Namespace, c.Name}]
		})...)
	}
	return made
}

// Ordinal makes the pod with a number of a StatefulSet, and its claims.
func Ordinal(w *appsv1.StatefulSet, i int) (*v1.Pod, []*v1.PersistentVolumeClaim) {
	m := newMaker(w, &w.Spec.Template, appsv1.SchemeGroupVersion.String(), "StatefulSet", w.Name)
	m.labels[appsv1.StatefulSetRevisionLabel] = Revision(w.Name, &w.Spec.Template)
	name := fmt.Sprintf("%s-%d", w.Name, i)
	p := m.make(name, w.Name+"-")
	p.Labels = with(p.Labels, appsv1.StatefulSetPodNameLabel, name)
	p.Labels = with(p.Labels, appsv1.PodIndexLabel, fmt.Sprint(i))
	p.Spec.Hostname, p.Spec.Subdomain = name, w.Spec.ServiceName
	p.Spec.Volumes = claimed(p.Spec.Volumes, w.Spec.VolumeClaimTemplates, name)
	return p, claims(w, m.owner, name)
}

// Revision is the value of the label that tells the templates of a StatefulSet's pods apart.
func Revision(name string, t *v1.PodTemplateSpec) string { return name + "-" + templateHash(t) }

// claims makes a pod's claims, one of each template, which have the labels that the
// StatefulSet selects by as well.
func claims(w *appsv1.StatefulSet, by metav1.OwnerReference, pod string) []*v1.PersistentVolumeClaim {
	var claims []*v1.PersistentVolumeClaim
	for i := range w.Spec.VolumeClaimTemplates {
		t := w.Spec.VolumeClaimTemplates[i].DeepCopy()
		name := claimName(t.Name, pod)
		c := &v1.PersistentVolumeClaim{
			TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolumeClaim"},
			ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: w.Namespace, Labels: t.Labels, Annotations: t.Annotations},
			Spec:       t.Spec,
		}
		if w.Spec.Selector != nil {
			for key, value := range w.Spec.Selector.MatchLabels {
				c.Labels = with(c.Labels, key, value)
			}
		}
		r := w.Spec.PersistentVolumeClaimRetentionPolicy
		if r != nil && r.WhenDeleted == appsv1.DeletePersistentVolumeClaimRetentionPolicyType {
			c.OwnerReferences = []metav1.OwnerReference{by}
		}
		claims = append(claims, c)
	}
	return claims
}

func claimName(template, pod string) string { return template + "-" + pod }

// claimed puts a volume for each claim template before the pod's own volumes, and in
// the place of one that has its name.
func claimed(own []v1.Volume, templates []v1.PersistentVolumeClaim, pod string) []v1.Volume {
	var volumes []v1.Volume
	named := map[string]bool{}
	for i := range templates {
		name := templates[i].Name
		named[name] = true
		volumes = append(volumes, v1.Volume{Name: name, VolumeSource: v1.VolumeSource{
			PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: claimName(name, pod)},
		}})
	}
	for _, v := range own {
		if !named[v.Name] {
			volumes = append(volumes, v)
		}
	}
	return volumes
}
