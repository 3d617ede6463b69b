package decide

import (
	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/shardsched/shardsched/bench/oracle"
)

// Shape is a kind of pods.
type Shape struct {
	Name string
	// About says what its pods ask for.
	About string
	// Costly says that upstream takes minutes for a pod on a large cluster.
	Costly bool
	// shared makes objects of the cluster, app those of a workload, node those of a node; nil:
	// there are none.
	shared func() []oracle.Object
	app    func(name string) []oracle.Object
	node   func(name string) []oracle.Object
	// pod has a pod ask for it; on is where it is, nil: nowhere yet. It returns the
	// pod's own objects.
	pod func(p *v1.Pod, app string, on *v1.Node) []oracle.Object
	// placed is what a placement makes of other objects that other pods' verdicts rest on; nil:
	// nothing.
	placed func(p *v1.Pod, node string) []oracle.Object
}

// Shapes are all of them.
func Shapes() []Shape {
	return []Shape{
		{
			Name: "plain", About: "nothing but resources",
			pod: func(*v1.Pod, string, *v1.Node) []oracle.Object { return nil },
		},
		{
			Name: "default-spread", About: "pods of a Service: soft spread over hosts and zones, the system's default",
			app: deployed,
			pod: func(p *v1.Pod, app string, _ *v1.Node) []oracle.Object { owned(p, app); return nil },
		},
		{
			Name: "hard-spread", About: "DoNotSchedule, maxSkew 1, over hosts and zones",
			pod: func(p *v1.Pod, app string, _ *v1.Node) []oracle.Object {
				p.Spec.TopologySpreadConstraints = []v1.TopologySpreadConstraint{evenly(v1.LabelTopologyZone, app), evenly(v1.LabelHostname, app)}
				return nil
			},
		},
		{
			Name: "anti-affinity", About: "no two pods of a workload on a host",
			pod: affine(func(p *v1.Pod, app string) {
				p.Spec.Affinity.PodAntiAffinity = &v1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{term(v1.LabelHostname, app)}}
			}),
		},
		{
			Name: "preferred-anti", About: "rather not two pods of a workload on a host",
			pod: affine(func(p *v1.Pod, app string) {
				p.Spec.Affinity.PodAntiAffinity = preferredAnti(app)
			}),
		},
		{
			Name: "preferred-affinity", About: "rather in the zone of the workload's pods, rather not on their hosts",
			pod: affine(func(p *v1.Pod, app string) {
				p.Spec.Affinity.PodAffinity = &v1.PodAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []v1.WeightedPodAffinityTerm{{Weight: 50, PodAffinityTerm: term(v1.LabelTopologyZone, app)}}}
				p.Spec.Affinity.PodAntiAffinity = preferredAnti(app)
			}),
		},
		{
			Name: "zone-affinity", About: "only in a zone with pods of the workload",
			pod: affine(func(p *v1.Pod, app string) {
				p.Spec.Affinity.PodAffinity = &v1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{term(v1.LabelTopologyZone, app)}}
			}),
		},
		{
			Name: "chart", About: "what many charts make: spread by default, rather not two on a host",
			app: deployed,
			pod: affine(func(p *v1.Pod, app string) {
				owned(p, app)
				p.Spec.Affinity.PodAntiAffinity = preferredAnti(app)
			}),
		},
		{
			Name: "volumes", About: "a claim of its own each, WaitForFirstConsumer, provisioned in the pod's zone",
			shared: storage, node: attaches, pod: claimed,
		},
		{
			Name: "local-volumes", Costly: true, About: "a claim of its own each, WaitForFirstConsumer, for one of the free volumes: one on each node",
			shared: localStorage, node: localVolume, pod: locallyClaimed, placed: takesLocal,
		},
	}
}

// affine has pods ask for an affinity.
func affine(ask func(p *v1.Pod, app string)) func(*v1.Pod, string, *v1.Node) []oracle.Object {
	return func(p *v1.Pod, app string, _ *v1.Node) []oracle.Object {
		p.Spec.Affinity = &v1.Affinity{}
		ask(p, app)
		return nil
	}
}

func preferredAnti(app string) *v1.PodAntiAffinity {
	return &v1.PodAntiAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []v1.WeightedPodAffinityTerm{{Weight: 100, PodAffinityTerm: term(v1.LabelHostname, app)}}}
}

func selector(app string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}
}

func term(key, app string) v1.PodAffinityTerm {
	return v1.PodAffinityTerm{TopologyKey: key, LabelSelector: selector(app)}
}

func evenly(key, app string) v1.TopologySpreadConstraint {
	return v1.TopologySpreadConstraint{MaxSkew: 1, TopologyKey: key, WhenUnsatisfiable: v1.DoNotSchedule, LabelSelector: selector(app)}
}

func meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: name, Namespace: namespace}
}

// deployed makes the Service and the ReplicaSet that a Deployment's pods belong to: they spread
// by default.
func deployed(app string) []oracle.Object {
	set := &appsv1.ReplicaSet{ObjectMeta: meta(app), Spec: appsv1.ReplicaSetSpec{Selector: selector(app)}}
	return []oracle.Object{set, &v1.Service{ObjectMeta: meta(app), Spec: v1.ServiceSpec{Selector: selector(app).MatchLabels}}}
}

// owned says that a pod is of the workload's ReplicaSet.
func owned(p *v1.Pod, app string) {
	p.OwnerReferences = []metav1.OwnerReference{{
		APIVersion: "apps/v1", Kind: "ReplicaSet", Name: app, UID: types.UID("ReplicaSet-" + app), Controller: ptr.To(true),
	}}
}
