package count

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/shardsched/shardsched/coordinator/selector"
)

func pick(t *rapid.T, label string, from ...string) string {
	return rapid.SampledFrom(from).Draw(t, label)
}

func drawNamespace(t *rapid.T) string { return pick(t, "namespace", "red", "green", "blue") }

// drawSelector draws a selector that now and then can not be read.
func drawSelector(t *rapid.T) *metav1.LabelSelector {
	switch rapid.IntRange(0, 11).Draw(t, "kind") {
	case 0:
		return nil
	case 1:
		return &metav1.LabelSelector{}
	case 2:
		return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "app", Operator: "NotIn", Values: []string{"a"}}}}
	case 3:
		return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "tier", Operator: "Exists"}}}
	case 4:
		return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "app", Operator: "In", Values: []string{"a", "b"}}}}
	case 5:
		return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "team", Operator: "DoesNotExist"}}}
	case 6:
		if rapid.IntRange(0, 9).Draw(t, "odd") == 0 {
			return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "app", Operator: "In"}}}
		}
	}
	return &metav1.LabelSelector{MatchLabels: map[string]string{pick(t, "key", "app", "tier", "team"): pick(t, "value", "a", "b")}}
}

func drawTerm(t *rapid.T) v1.PodAffinityTerm {
	term := v1.PodAffinityTerm{LabelSelector: drawSelector(t), TopologyKey: pick(t, "topology", "zone", "host", "")}
	if rapid.Bool().Draw(t, "names") {
		term.Namespaces = rapid.SliceOfN(rapid.SampledFrom([]string{"red", "green", "grey"}), 0, 3).Draw(t, "namespaces")
	}
	if rapid.IntRange(0, 2).Draw(t, "select namespaces") == 0 {
		term.NamespaceSelector = drawSelector(t)
	}
	return term
}

func drawTerms(t *rapid.T, label string) []v1.PodAffinityTerm {
	return rapid.SliceOfN(rapid.Custom(drawTerm), 0, 2).Draw(t, label)
}

func drawWeighted(t *rapid.T, label string) []v1.WeightedPodAffinityTerm {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) v1.WeightedPodAffinityTerm {
		return v1.WeightedPodAffinityTerm{Weight: rapid.Int32Range(1, 3).Draw(t, "weight"), PodAffinityTerm: drawTerm(t)}
	}), 0, 2).Draw(t, label)
}

// drawPod draws a pod with labels, terms, disks and claims.
func drawPod(t *rapid.T) *v1.Pod {
	p := &v1.Pod{}
	p.Namespace = drawNamespace(t)
	p.UID = types.UID(fmt.Sprint(rapid.Uint64().Draw(t, "uid")))
	p.Labels = rapid.MapOfN(rapid.SampledFrom([]string{"app", "tier", "team", "pod-name"}), rapid.SampledFrom([]string{"a", "b", "c"}), 0, 4).Draw(t, "labels")
	if rapid.IntRange(0, 4).Draw(t, "terminating") == 0 {
		p.DeletionTimestamp = &metav1.Time{}
	}
	if rapid.Bool().Draw(t, "affinity") {
		p.Spec.Affinity = &v1.Affinity{
			PodAffinity: &v1.PodAffinity{
				RequiredDuringSchedulingIgnoredDuringExecution:  drawTerms(t, "required"),
				PreferredDuringSchedulingIgnoredDuringExecution: drawWeighted(t, "preferred"),
			},
		}
		if rapid.Bool().Draw(t, "anti-affinity") {
			p.Spec.Affinity.PodAntiAffinity = &v1.PodAntiAffinity{
				RequiredDuringSchedulingIgnoredDuringExecution:  drawTerms(t, "anti"),
				PreferredDuringSchedulingIgnoredDuringExecution: drawWeighted(t, "preferred anti"),
			}
		}
	}
	for range rapid.IntRange(0, 2).Draw(t, "volumes") {
		p.Spec.Volumes = append(p.Spec.Volumes, v1.Volume{VolumeSource: drawVolume(t)})
	}
	return p
}

func drawVolume(t *rapid.T) v1.VolumeSource {
	readOnly, name := rapid.Bool().Draw(t, "read-only"), pick(t, "disk", "d1", "d2")
	switch rapid.IntRange(0, 5).Draw(t, "volume") {
	case 0:
		return v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: name}}
	case 1:
		return v1.VolumeSource{GCEPersistentDisk: &v1.GCEPersistentDiskVolumeSource{PDName: name, ReadOnly: readOnly}}
	case 2:
		return v1.VolumeSource{AWSElasticBlockStore: &v1.AWSElasticBlockStoreVolumeSource{VolumeID: name, ReadOnly: readOnly}}
	case 3:
		return v1.VolumeSource{ISCSI: &v1.ISCSIVolumeSource{IQN: name, ReadOnly: readOnly}}
	case 4:
		return v1.VolumeSource{RBD: &v1.RBDVolumeSource{
			CephMonitors: rapid.SliceOfN(rapid.SampledFrom([]string{"m1", "m2", "m3"}), 0, 2).Draw(t, "monitors"),
			RBDPool:      pick(t, "pool", "p", "q"), RBDImage: name, ReadOnly: readOnly,
		}}
	}
	return v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}
}

func mustSelector(t *rapid.T, in *metav1.LabelSelector) *selector.Selector {
	s, err := selector.New(in)
	if err != nil {
		return selector.Nothing()
	}
	return s
}
