package conformance

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	storagehelpers "k8s.io/component-helpers/storage/volume"
	"k8s.io/utils/ptr"

	"github.com/shardsched/shardsched/bench/judge/oracle"
	"github.com/shardsched/shardsched/internal/testkit/build"
)

// Shape is a workload of the kind that kube-scheduler's own benchmark (scheduler_perf) runs:
// nodes that are alike, pods that come first, and pods that are measured.
type Shape struct {
	Name string
	make func(w *shaped)
}

// Scenario is the shape on some nodes.
func (s Shape) Scenario(nodes int) *Scenario {
	w := &shaped{nodes: nodes}
	for _, name := range []string{"sched-0", "sched-1"} {
		w.add(&v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"team": "devops"}}})
	}
	s.make(w)
	if !w.prepared {
		w.zones("zone1", "zone2", "zone3")
	}
	return &Scenario{Rounds: []Round{w.objects, w.first, w.measured}}
}

// shaped is a scenario of a shape.
type shaped struct {
	nodes                    int
	prepared                 bool
	objects, first, measured Round
}

func (w *shaped) add(obj oracle.Object) { w.objects = append(w.objects, set(obj)) }

// zones makes the nodes, in zones one after the other.
func (w *shaped) zones(zones ...string) {
	for i := range w.nodes {
		w.add(w.node(i, zones[i%len(zones)]).Obj())
	}
}

func (w *shaped) node(i int, zone string) *build.NodeBuilder {
	w.prepared = true
	name := fmt.Sprintf("node-%d", i)
	return build.Node(name).CPU("4").Memory("32Gi").Pods("110").Label(v1.LabelHostname, name).Label(v1.LabelTopologyZone, zone)
}

// some are pods of a namespace that differ in their names. change may be nil.
func (w *shaped) some(n int, namespace, prefix string, change func(i int, p *v1.Pod)) (out Round) {
	for i := range n {
		p := build.Pod(fmt.Sprintf("%s-%d", prefix, i)).Namespace(namespace).CPU("100m").Memory("500Mi").Obj()
		p.UID = types.UID(namespace + "-" + p.Name)
		if change != nil {
			change(i, p)
		}
		out = append(out, set(p))
	}
	return out
}

// alike makes pods that come first, in one namespace, and others like them, in another.
func (w *shaped) alike(change func(i int, p *v1.Pod)) {
	w.first = append(w.first, w.some(w.nodes, "sched-0", "init", change)...)
	w.measured = append(w.measured, w.some(2*w.nodes, "sched-1", "pod", change)...)
}

// colour is a term for pods of a colour in both namespaces.
func colour(name, key string) v1.PodAffinityTerm {
	return v1.PodAffinityTerm{LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"color": name}}, TopologyKey: key,
		Namespaces: []string{"sched-0", "sched-1"}}
}

// ofTeam is a term for pods of a colour in the namespaces of a team.
func ofTeam(name, key string) v1.PodAffinityTerm {
	t := colour(name, key)
	t.Namespaces, t.NamespaceSelector = nil, &metav1.LabelSelector{MatchLabels: map[string]string{"team": "devops"}}
	return t
}

func weighted(t v1.PodAffinityTerm) []v1.WeightedPodAffinityTerm {
	return []v1.WeightedPodAffinityTerm{{Weight: 1, PodAffinityTerm: t}}
}

// coloured gives pods a colour and an affinity.
func coloured(name string, a v1.Affinity) func(int, *v1.Pod) {
	return func(_ int, p *v1.Pod) {
		p.Labels = map[string]string{"color": name}
		p.Spec.Affinity = a.DeepCopy()
	}
}

func near(terms ...v1.PodAffinityTerm) v1.Affinity {
	return v1.Affinity{PodAffinity: &v1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: terms}}
}

func apart(terms ...v1.PodAffinityTerm) v1.Affinity {
	return v1.Affinity{PodAntiAffinity: &v1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: terms}}
}

func ratherNear(t v1.PodAffinityTerm) v1.Affinity {
	return v1.Affinity{PodAffinity: &v1.PodAffinity{PreferredDuringSchedulingIgnoredDuringExecution: weighted(t)}}
}

func ratherApart(t v1.PodAffinityTerm) v1.Affinity {
	return v1.Affinity{PodAntiAffinity: &v1.PodAntiAffinity{PreferredDuringSchedulingIgnoredDuringExecution: weighted(t)}}
}

// spreadBy gives pods a constraint.
func spreadBy(key string, skew int32, when v1.UnsatisfiableConstraintAction, taints *v1.NodeInclusionPolicy) func(int, *v1.Pod) {
	return func(_ int, p *v1.Pod) {
		p.Labels = map[string]string{"color": "blue"}
		p.Spec.TopologySpreadConstraints = []v1.TopologySpreadConstraint{{
			MaxSkew: skew, TopologyKey: key, WhenUnsatisfiable: when, NodeTaintsPolicy: taints,
			LabelSelector: &metav1.LabelSelector{MatchLabels: p.Labels},
		}}
	}
}

// claimed gives each pod a claim of its own, bound to a volume that comes with it.
func (w *shaped) claimed(source func(name string) v1.PersistentVolumeSource) func(int, *v1.Pod) {
	return func(_ int, p *v1.Pod) {
		name := p.Namespace + "-" + p.Name
		storage := v1.ResourceList{v1.ResourceStorage: resource.MustParse("1Gi")}
		modes := []v1.PersistentVolumeAccessMode{v1.ReadOnlyMany}
		w.add(&v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: v1.PersistentVolumeStatus{Phase: v1.VolumeBound},
			Spec: v1.PersistentVolumeSpec{
				Capacity: storage, AccessModes: modes, PersistentVolumeSource: source(name),
				ClaimRef: &v1.ObjectReference{Kind: "PersistentVolumeClaim", Namespace: p.Namespace, Name: p.Name, UID: types.UID(name)},
			}})
		w.add(&v1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Name: p.Name, Namespace: p.Namespace, UID: types.UID(name),
				Annotations: map[string]string{storagehelpers.AnnBindCompleted: "true"}},
			Spec: v1.PersistentVolumeClaimSpec{AccessModes: modes, VolumeName: name,
				Resources: v1.VolumeResourceRequirements{Requests: storage}, StorageClassName: ptr.To("")},
			Status: v1.PersistentVolumeClaimStatus{Phase: v1.ClaimBound},
		})
		claim := &v1.PersistentVolumeClaimVolumeSource{ClaimName: p.Name}
		p.Spec.Volumes = []v1.Volume{{Name: "vol", VolumeSource: v1.VolumeSource{PersistentVolumeClaim: claim}}}
	}
}

// attaching says how many volumes of a driver each node attaches, and which plugin it has
// taken over.
func (w *shaped) attaching(driver, plugin string, limit int32) {
	for i := range w.nodes {
		c := &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("node-%d", i)}}
		if plugin != "" {
			c.Annotations = map[string]string{v1.MigratedPluginsAnnotationKey: plugin}
		}
		c.Spec.Drivers = []storagev1.CSINodeDriver{{Name: driver, NodeID: c.Name,
			Allocatable: &storagev1.VolumeNodeResources{Count: &limit}}}
		w.add(c)
	}
}
