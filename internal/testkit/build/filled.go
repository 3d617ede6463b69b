package build

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/shardsched/shardsched/coordinator/objects"
)

// Filled is so many nodes in two zones with ten pods each.
func Filled(nodes int) *objects.Snapshot {
	var all []*v1.Node
	var pods []*v1.Pod
	for i := range nodes {
		name := fmt.Sprintf("n%02d", i)
		all = append(all, Node(name).CPU("64").Memory("64Gi").Label(v1.LabelTopologyZone, fmt.Sprint(i%2)).Obj())
		for k := range 10 {
			p := fmt.Sprintf("%s-%d", name, k)
			pods = append(pods, Pod(p).UID(p).CPU("100m").Label("app", fmt.Sprint(k)).Node(name).Obj())
			pods[len(pods)-1].ResourceVersion = fmt.Sprint(len(pods))
		}
	}
	return &objects.Snapshot{Nodes: all, Pods: pods}
}

// Wide is a pod with four terms of its own, by zone, over the pods of all namespaces that lack a label.
func Wide(i int) *v1.Pod {
	name := fmt.Sprint("wide-", i)
	p := Pod(name).UID(name).CPU("1m")
	for k := range 4 {
		p.PreferNear(int32(1+(i+k)%7), lacking(v1.LabelTopologyZone, fmt.Sprintf("label-%d-%d", i, k)))
	}
	return p.Obj()
}

// lacking is a term over the pods of all namespaces that lack a label.
func lacking(key, label string) PodTerm {
	return PodTerm{TopologyKey: key, NamespaceSelector: &metav1.LabelSelector{}, LabelSelector: &metav1.LabelSelector{
		MatchExpressions: []metav1.LabelSelectorRequirement{{Key: label, Operator: metav1.LabelSelectorOpDoesNotExist}},
	}}
}
