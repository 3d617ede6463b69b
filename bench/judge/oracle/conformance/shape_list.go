package conformance

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/shardsched/shardsched/internal/testkit/build"
)

// Shapes are the shapes that there are.
func Shapes() []Shape {
	const host, zone = v1.LabelHostname, v1.LabelTopologyZone
	devops := func(name string, a v1.Affinity) func(*shaped) {
		return func(w *shaped) { w.alike(coloured(name, a)) }
	}
	return []Shape{
		{"Basic", func(w *shaped) { w.alike(nil) }},
		{"PodAntiAffinity", devops("green", apart(colour("green", host)))},
		{"PodMatchingAntiAffinity", matchingAntiAffinity},
		{"PodAffinity", func(w *shaped) { w.zones("zone1"); devops("blue", near(colour("blue", zone)))(w) }},
		{"PreferredPodAffinity", devops("red", ratherNear(colour("red", host)))},
		{"PreferredPodAntiAffinity", devops("yellow", ratherApart(colour("yellow", host)))},
		{"NodeAffinity", nodeAffinity},
		{"MixedBasePod", mixed},
		{"RequiredAntiAffinityNSSelector", devops("green", apart(ofTeam("green", host)))},
		{"PreferredAntiAffinityNSSelector", devops("yellow", ratherApart(ofTeam("yellow", host)))},
		{"RequiredAffinityNSSelector", func(w *shaped) { w.zones("zone1"); devops("blue", near(ofTeam("blue", zone)))(w) }},
		{"PreferredAffinityNSSelector", devops("red", ratherNear(ofTeam("red", host)))},
		{"TopologySpreading", func(w *shaped) { w.alike(spreadBy(zone, 5, v1.DoNotSchedule, nil)) }},
		{"TopologySpreadingByHost", func(w *shaped) { w.alike(spreadBy(host, 1, v1.DoNotSchedule, nil)) }},
		{"PreferredTopologySpreading", func(w *shaped) { w.alike(spreadBy(zone, 5, v1.ScheduleAnyway, nil)) }},
		{"DefaultTopologySpreading", defaultSpreading},
		{"NodeInclusionPolicy", inclusionPolicy},
		{"Secrets", secrets},
		{"InTreePVs", func(w *shaped) { w.alike(w.claimed(awsVolume)) }},
		{"MigratedInTreePVs", func(w *shaped) { w.attaching(driverAWS, pluginAWS, 3); w.alike(w.claimed(awsVolume)) }},
		{"CSIPVs", func(w *shaped) { w.attaching(driverAWS, "", 3); w.alike(w.claimed(csiVolume)) }},
		{"DeclaredFeatures", declaredFeatures},
		{"Unschedulable", unschedulable},
		{"WhileGated", whileGated},
		{"DeletedPodsWithFinalizers", deletedPods},
		{"Daemonset", daemonSet},
	}
}

func awsVolume(name string) v1.PersistentVolumeSource {
	return v1.PersistentVolumeSource{AWSElasticBlockStore: &v1.AWSElasticBlockStoreVolumeSource{VolumeID: "vol-" + name}}
}

func csiVolume(name string) v1.PersistentVolumeSource {
	return v1.PersistentVolumeSource{CSI: &v1.CSIPersistentVolumeSource{Driver: driverAWS, VolumeHandle: name}}
}

// matchingAntiAffinity: pods that come first keep their kind away, the others are of it.
func matchingAntiAffinity(w *shaped) {
	w.first = w.some(w.nodes/2, "sched-0", "init", coloured("green", apart(colour("green", v1.LabelHostname))))
	w.measured = w.some(w.nodes, "sched-1", "pod", coloured("green", v1.Affinity{}))
}

func nodeAffinity(w *shaped) {
	w.alike(func(_ int, p *v1.Pod) {
		p.Spec.Affinity = build.Pod("").Required(build.Labels(build.Match(v1.LabelTopologyZone, v1.NodeSelectorOpIn, "zone1",
			"zone2"))).Obj().Spec.Affinity
	})
}

// mixed: pods of five kinds come first.
func mixed(w *shaped) {
	w.zones("zone1")
	const host, zone = v1.LabelHostname, v1.LabelTopologyZone
	for i, change := range []func(int, *v1.Pod){
		nil, coloured("blue", near(colour("blue", zone))), coloured("green", apart(colour("green", host))),
		coloured("red", ratherNear(colour("red", host))), coloured("yellow", ratherApart(colour("yellow", host))),
	} {
		w.first = append(w.first, w.some(w.nodes/3, "sched-0", fmt.Sprintf("kind-%d", i), change)...)
	}
	w.measured = w.some(2*w.nodes, "sched-0", "pod", nil)
}

func defaultSpreading(w *shaped) {
	w.add(&v1.Service{ObjectMeta: metav1.ObjectMeta{Name: "blue", Namespace: "sched-1"},
		Spec: v1.ServiceSpec{Selector: map[string]string{"color": "blue"}}})
	w.first = w.some(w.nodes, "sched-0", "init", nil)
	w.measured = w.some(3*w.nodes, "sched-1", "pod", coloured("blue", v1.Affinity{}))
}

// inclusionPolicy: the pods of a hard constraint heed taints, and a fifth of the nodes have
// one.
func inclusionPolicy(w *shaped) {
	for i := range w.nodes {
		b := w.node(i, "zone1")
		if i%5 == 0 {
			b.Taint("foo:NoSchedule")
		}
		w.add(b.Obj())
	}
	w.measured = w.some(w.nodes, "sched-0", "pod", spreadBy(v1.LabelHostname, 1, v1.DoNotSchedule, ptr.To(v1.NodeInclusionPolicyHonor)))
}

func secrets(w *shaped) {
	w.alike(func(_ int, p *v1.Pod) {
		p.Spec.Volumes = []v1.Volume{{Name: "secret", VolumeSource: v1.VolumeSource{Secret: &v1.SecretVolumeSource{SecretName: "secret"}}}}
	})
}

func declaredFeatures(w *shaped) {
	for i := range w.nodes {
		n := w.node(i, "zone1").Obj()
		if i%3 != 0 {
			n.Status.DeclaredFeatures = []string{restartAll}
		}
		w.add(n)
	}
	w.alike(func(_ int, p *v1.Pod) {
		p.Spec.Containers[0].RestartPolicyRules = []v1.ContainerRestartRule{{
			Action:    v1.ContainerRestartRuleActionRestartAllContainers,
			ExitCodes: &v1.ContainerRestartRuleOnExitCodes{Operator: v1.ContainerRestartRuleOnExitCodesOpIn, Values: []int32{1}},
		}}
	})
}

// unschedulable: pods that are too large for any node come first.
func unschedulable(w *shaped) {
	w.first = w.some(5, "sched-0", "large", func(_ int, p *v1.Pod) {
		p.Spec.Containers[0].Resources.Requests[v1.ResourceCPU] = resource.MustParse("10")
	})
	w.measured = w.some(2*w.nodes, "sched-1", "pod", nil)
}

// whileGated: pods wait at gates, with affinity to one another.
func whileGated(w *shaped) {
	gate := func(_ int, p *v1.Pod) {
		coloured("blue", near(colour("blue", v1.LabelTopologyZone)))(0, p)
		p.Spec.SchedulingGates = []v1.PodSchedulingGate{{Name: "later"}}
	}
	w.first = w.some(w.nodes, "sched-0", "gated", gate)
	w.measured = w.some(2*w.nodes, "sched-1", "pod", nil)
}

// deletedPods: pods that are being deleted still are where they are.
func deletedPods(w *shaped) {
	w.first = w.some(w.nodes, "sched-0", "deleted", func(i int, p *v1.Pod) {
		p.Spec.NodeName = fmt.Sprintf("node-%d", i)
		(&generator{}).terminating(p)
	})
	w.measured = w.some(2*w.nodes, "sched-1", "pod", nil)
}

// daemonSet: each pod is tied to its node, as by a DaemonSet.
func daemonSet(w *shaped) {
	w.measured = w.some(w.nodes, "sched-1", "pod", func(i int, p *v1.Pod) {
		p.Spec.Affinity = build.Pod("").Required(build.Names(fmt.Sprintf("node-%d", i))).Obj().Spec.Affinity
	})
}
