package kubeflags

import (
	_ "embed"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/component-base/featuregate"
)

//go:embed gates.txt
var gatesText string // never written

// release is the Kubernetes release whose flags and gates these are.
const release = "1.36"

// newGates are kube-scheduler's feature gates, each as it comes.
func newGates() (featuregate.MutableVersionedFeatureGate, error) {
	gates := featuregate.NewVersionedFeatureGate(version.MustParse(release))
	specs, needs := map[featuregate.Feature]featuregate.VersionedSpecs{}, map[featuregate.Feature][]featuregate.Feature{}
	for line := range strings.Lines(gatesText) {
		words := strings.Fields(line)
		name := featuregate.Feature(words[0])
		for _, word := range words[1:] {
			if list, ok := strings.CutPrefix(word, "needs:"); ok {
				for n := range strings.SplitSeq(list, ",") {
					needs[name] = append(needs[name], featuregate.Feature(n))
				}
				continue
			}
			spec, err := stage(word)
			if err != nil {
				return nil, fmt.Errorf("feature gate %s: %w", name, err)
			}
			specs[name] = append(specs[name], spec)
		}
	}
	if err := gates.AddVersioned(specs); err != nil {
		return nil, err
	}
	return gates, gates.AddDependencies(needs)
}

// stage reads version:stability:default[:locked].
func stage(word string) (featuregate.FeatureSpec, error) {
	parts := strings.Split(word, ":")
	if len(parts) < 3 {
		return featuregate.FeatureSpec{}, fmt.Errorf("%q is no stage", word)
	}
	v, err := version.Parse(parts[0])
	if err != nil {
		return featuregate.FeatureSpec{}, err
	}
	spec := featuregate.FeatureSpec{Version: v, Default: parts[2] == "true", LockToDefault: slices.Contains(parts[3:], "locked")}
	switch parts[1] {
	case "ALPHA":
		spec.PreRelease = featuregate.Alpha
	case "BETA":
		spec.PreRelease = featuregate.Beta
	case "DEPRECATED":
		spec.PreRelease = featuregate.Deprecated
	case "GA":
		spec.PreRelease = featuregate.GA
	default:
		return featuregate.FeatureSpec{}, fmt.Errorf("%q is no stability", parts[1])
	}
	return spec, nil
}
