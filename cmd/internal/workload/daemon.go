package workload

import (
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"
)

// daemonSet makes a pod for each node that the template's nodeName, nodeSelector,
// required node affinity and tolerations allow, as the controller does: the
// scheduler is only left to see whether it fits.
func (x *Expander) daemonSet(w *appsv1.DaemonSet) []*v1.Pod {
	there := map[string]bool{}
	for _, p := range x.owned[owner{"DaemonSet", w.Namespace, w.Name}] {
		there[TargetNode(p)] = true
	}
	d := NewDaemons(w)
	taken := map[string]bool{}
	var pods []*v1.Pod
	for _, n := range byName(x.nodes) {
		if there[n.Name] || !d.MayRun(n) {
			continue
		}
		pods = append(pods, d.Pod(n.Name, func(name string) bool { return taken[name] }))
		taken[pods[len(pods)-1].Name] = true
	}
	return pods
}

// Daemons makes the pods of a DaemonSet, node by node. It is immutable.
type Daemons struct {
	set      *appsv1.DaemonSet
	model    *v1.Pod
	affinity nodeaffinity.RequiredNodeAffinity
}

// NewDaemons is for one DaemonSet.
func NewDaemons(w *appsv1.DaemonSet) *Daemons {
	m := newMaker(w, &w.Spec.Template, appsv1.SchemeGroupVersion.String(), "DaemonSet", w.Name)
	m.labels[appsv1.ControllerRevisionHashLabelKey] = templateHash(&w.Spec.Template)
	m.labels["pod-template-generation"] = "1"
	if g := w.Annotations[appsv1.DeprecatedTemplateGeneration]; g != "" {
		m.labels["pod-template-generation"] = g
	}
	model := m.make("", "")
	tolerateDaemon(&model.Spec)
	return &Daemons{w, model, nodeaffinity.GetRequiredNodeAffinity(model)}
}

// MayRun tells whether the controller wants a pod on a node.
func (d *Daemons) MayRun(n *v1.Node) bool { return mayRun(d.model, d.affinity, n) }

// Pod makes the pod of a node, under a name that is not taken.
func (d *Daemons) Pod(node string, taken func(string) bool) *v1.Pod {
	p := d.model.DeepCopy()
	p.Name, p.GenerateName = daemonName(d.set, node, taken), d.set.Name+"-"
	tie(p, node)
	return p
}

func byName(nodes []*v1.Node) []*v1.Node {
	sorted := slices.Clone(nodes)
	slices.SortFunc(sorted, func(a, b *v1.Node) int { return strings.Compare(a.Name, b.Name) })
	return sorted
}

func mayRun(p *v1.Pod, affinity nodeaffinity.RequiredNodeAffinity, n *v1.Node) bool {
	if p.Spec.NodeName != "" && p.Spec.NodeName != n.Name {
		return false
	}
	if ok, err := affinity.Match(n); err != nil || !ok {
		return false
	}
	_, refused := corev1.FindMatchingUntoleratedTaint(klog.Background(), n.Spec.Taints, p.Spec.Tolerations, func(t *v1.Taint) bool {
		return t.Effect == v1.TaintEffectNoExecute || t.Effect == v1.TaintEffectNoSchedule
	}, false)
	return !refused
}

// daemonName depends on the node alone, so that one more node renames no pod.
// Two nodes whose names hash alike give the later one another ending.
func daemonName(w *appsv1.DaemonSet, node string, taken func(string) bool) string {
	e := newEndings("DaemonSet", w.Namespace, w.Name, node)
	for i := 0; ; i++ {
		if name := generateName(w.Name) + e.at(i); !taken(name) {
			return name
		}
	}
}

// tie replaces the required node affinity by the node's name. The preferred one
// stays.
func tie(p *v1.Pod, node string) {
	if p.Spec.Affinity == nil {
		p.Spec.Affinity = &v1.Affinity{}
	}
	if p.Spec.Affinity.NodeAffinity == nil {
		p.Spec.Affinity.NodeAffinity = &v1.NodeAffinity{}
	}
	p.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution = &v1.NodeSelector{
		NodeSelectorTerms: []v1.NodeSelectorTerm{{
			MatchFields: []v1.NodeSelectorRequirement{{Key: metav1.ObjectNameField, Operator: v1.NodeSelectorOpIn, Values: []string{node}}},
		}},
	}
}

// TargetNode is the node of a DaemonSet's pod, placed or not.
func TargetNode(p *v1.Pod) string {
	if p.Spec.NodeName != "" || p.Spec.Affinity == nil || p.Spec.Affinity.NodeAffinity == nil {
		return p.Spec.NodeName
	}
	required := p.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	if required == nil {
		return ""
	}
	for _, term := range required.NodeSelectorTerms {
		for _, f := range term.MatchFields {
			if f.Key == metav1.ObjectNameField && f.Operator == v1.NodeSelectorOpIn && len(f.Values) == 1 {
				return f.Values[0]
			}
		}
	}
	return ""
}

// tolerateDaemon adds what every DaemonSet's pod tolerates: a node in trouble is
// where its daemons are needed.
func tolerateDaemon(s *v1.PodSpec) {
	tolerate(s, v1.TaintNodeNotReady, v1.TaintEffectNoExecute)
	tolerate(s, v1.TaintNodeUnreachable, v1.TaintEffectNoExecute)
	tolerate(s, v1.TaintNodeDiskPressure, v1.TaintEffectNoSchedule)
	tolerate(s, v1.TaintNodeMemoryPressure, v1.TaintEffectNoSchedule)
	tolerate(s, v1.TaintNodePIDPressure, v1.TaintEffectNoSchedule)
	tolerate(s, v1.TaintNodeUnschedulable, v1.TaintEffectNoSchedule)
	if s.HostNetwork {
		tolerate(s, v1.TaintNodeNetworkUnavailable, v1.TaintEffectNoSchedule)
	}
}

func tolerate(s *v1.PodSpec, key string, effect v1.TaintEffect) {
	want := v1.Toleration{Key: key, Operator: v1.TolerationOpExists, Effect: effect}
	for i := range s.Tolerations {
		if s.Tolerations[i].MatchToleration(&want) {
			s.Tolerations[i] = want
			return
		}
	}
	s.Tolerations = append(s.Tolerations, want)
}
