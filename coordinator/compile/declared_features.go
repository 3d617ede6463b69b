package compile

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/component-helpers/nodedeclaredfeatures"
	"k8s.io/component-helpers/nodedeclaredfeatures/features"
)

// featuresVersion is the Kubernetes version whose nodes pods are scheduled to: what all of
// its nodes have need not be declared.
func featuresVersion() *version.Version { return version.MajorMinor(1, 36) }

// requiredFeatures are the features that a node must declare for a pod, sorted.
func requiredFeatures(p *v1.Pod) []string {
	var out []string
	info := nodedeclaredfeatures.PodInfo{Spec: &p.Spec}
	for _, f := range features.AllFeatures { // sorted by name: the framework sees to that
		if newest := f.MaxVersion(); newest != nil && featuresVersion().GreaterThan(newest) {
			continue
		}
		if f.InferForScheduling(&info) {
			out = append(out, f.Name())
		}
	}
	return out
}

// mayRequireFeatures is false for pods that use none of the fields which features are
// inferred from.
func mayRequireFeatures(p *v1.Pod) bool {
	if p.Spec.HostNetwork {
		return true
	}
	for _, list := range [][]v1.Container{p.Spec.InitContainers, p.Spec.Containers} {
		for i := range list {
			if len(list[i].RestartPolicyRules) > 0 {
				return true
			}
		}
	}
	return false
}

// declaredFeatures are the features that a node declares, of those that pods may need.
// As upstream, a name that stands out of order is passed over.
func declaredFeatures(names []string) []string {
	if len(names) == 0 {
		return nil
	}
	known := nodedeclaredfeatures.DefaultFramework
	out, err := known.Unmap(known.TryMap(names))
	if err != nil {
		panic(err) // the set is the framework's own
	}
	return out
}
