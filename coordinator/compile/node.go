package compile

import (
	"slices"
	"strings"
	"unicode/utf8"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// Node is a node as its row knows it, without what its CSINode says (VolumeLimits,
// MigratedPlugins).
func Node(n *v1.Node) *pb.Node {
	pods := n.Status.Allocatable[v1.ResourcePods]
	return &pb.Node{
		Name:          n.Name,
		Unschedulable: n.Spec.Unschedulable,
		Labels:        sortedLabels(n.Labels),
		Taints:        taints(n.Spec.Taints),
		Allocatable:   resources(n.Status.Allocatable, nil),
		AllowedPods:   amount(pods, ones),
		Images:        imageNames(n.Status.Images),

		DeclaredFeatures: declaredFeatures(n.Status.DeclaredFeatures),
		ZeroResources:    zeroResources(n.Status.Allocatable),
	}
}

// zeroResources lists the extended resources, those of device classes too, of which a node reports 0. Its amounts leave them
// out, and DynamicResources tells them from those that the node does not report.
func zeroResources(list v1.ResourceList) (out []string) {
	for name, q := range list {
		extended := isExtended(name) || strings.HasPrefix(string(name), resourcev1.ResourceDeviceClassPrefix)
		if q.Sign() <= 0 && extended && usable(string(name)) {
			out = append(out, string(name))
		}
	}
	slices.Sort(out)
	return out
}

// maxText is the length from which on a text is not one that the API server lets
// through: rows and queries do without it. Kubernetes' own limits are far below.
const maxText = 4 << 10

// usable tells whether a text may stand in a row or a query.
func usable(s string) bool {
	return len(s) <= maxText && utf8.ValidString(s)
}

// sortedLabels lists a map by key, without the labels that can not be.
func sortedLabels(m map[string]string) []*pb.Label {
	if len(m) == 0 {
		return nil
	}
	out := make([]*pb.Label, 0, len(m))
	for k, v := range m {
		if k != "" && usable(k) && usable(v) {
			out = append(out, &pb.Label{Key: k, Value: v})
		}
	}
	slices.SortFunc(out, func(a, b *pb.Label) int { return strings.Compare(a.Key, b.Key) })
	return out
}

// taints keeps the order of the spec: the first that is not tolerated is the one
// that counts.
func taints(list []v1.Taint) []*pb.Taint {
	var out []*pb.Taint
	for i := range list {
		t := &pb.Taint{Key: list[i].Key, Value: list[i].Value, Effect: effects(list[i].Effect)}
		if t.Effect == pb.TaintEffect_TAINT_EFFECT_UNSPECIFIED || t.Key == "" || !usable(t.Key) || !usable(t.Value) {
			continue
		}
		out = append(out, t)
	}
	return out
}

// effects translates a taint's effect; one that upstream does not know is
// unspecified.
func effects(e v1.TaintEffect) pb.TaintEffect {
	switch e {
	case v1.TaintEffectNoSchedule:
		return pb.TaintEffect_TAINT_EFFECT_NO_SCHEDULE
	case v1.TaintEffectPreferNoSchedule:
		return pb.TaintEffect_TAINT_EFFECT_PREFER_NO_SCHEDULE
	case v1.TaintEffectNoExecute:
		return pb.TaintEffect_TAINT_EFFECT_NO_EXECUTE
	}
	return pb.TaintEffect_TAINT_EFFECT_UNSPECIFIED
}

// imageNames lists the images of a node by the names that the node gives them.
// As upstream, only the pod's names are normalised: an image that a node reports
// without a tag is not found.
func imageNames(list []v1.ContainerImage) []string {
	var out []string
	for i := range list {
		for _, name := range list[i].Names {
			if name != "" && usable(name) {
				out = append(out, name)
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}
