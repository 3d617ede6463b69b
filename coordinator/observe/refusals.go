package observe

import (
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/shardsched/shardsched/coordinator/metrics"
)

// outOfOther is the label of what a kubelet lacks that is no resource of every node: devices have names without end.
const outOfOther = "OutOfOther"

// kubeletRefusals are the reasons in a pod's status by which a kubelet refuses it, as Kubernetes 1.36's word them
// (pkg/kubelet/lifecycle, cm/topologymanager, sysctl, nodeshutdown).
func kubeletRefusals() []string {
	return []string{
		"OutOfcpu", "OutOfmemory", "OutOfephemeral-storage", "OutOfpods", outOfOther,
		"NodeAffinity", "NodeName", "NodePorts", "TaintToleration", "TopologyAffinityError", "UnexpectedAdmissionError",
		"UnexpectedPredicateFailureType", "UnknownReason", "InvalidNodeInfo", "NodeShutdown",
		"AppArmor", "SysctlForbidden", "InitContainerRestartPolicyForbidden", "PodFeatureUnsupported", "PodLevelResourcesNotSupported",
		"PodOSNotSupported", "PodOSSelectorNodeLabelDoesNotMatch", "SupplementalGroupsPolicyNotSupported",
	}
}

// KubeletRefusal is the label of a reason in the status of a pod that has failed; "": it is not one by which kubelets refuse pods.
func KubeletRefusal(reason string) string {
	switch {
	case slices.Contains(kubeletRefusals(), reason):
		return reason
	case strings.HasPrefix(reason, "OutOf"):
		return outOfOther
	}
	return ""
}

// newRefusals makes a series of each reason, so that the first refusal is an increase.
func newRefusals(set *metrics.Set) map[string]prometheus.Counter {
	out := map[string]prometheus.Counter{}
	for _, reason := range kubeletRefusals() {
		out[reason] = set.Counter("shardsched_kubelet_refused_pods_total", reason)
	}
	return out
}

// KubeletRefused counts a pod that was bound and that its kubelet refused, by KubeletRefusal's label.
func (m *Meters) KubeletRefused(reason string) { m.refusals[reason].Inc() }
