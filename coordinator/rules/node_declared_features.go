package rules

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/component-helpers/nodedeclaredfeatures"
	"k8s.io/component-helpers/nodedeclaredfeatures/features"

	"github.com/shardsched/shardsched/coordinator/compile"
	"github.com/shardsched/shardsched/coordinator/framework"
	"github.com/shardsched/shardsched/coordinator/queue"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// NodeDeclaredFeatures is the plugin for pods that need features of a node which not every kubelet has.
const NodeDeclaredFeatures = "NodeDeclaredFeatures"

func nodeDeclaredFeatures() *Rule {
	return &Rule{
		Name: NodeDeclaredFeatures,
		Part: compile.Part{
			Plugin:     pb.Plugin_PLUGIN_NODE_DECLARED_FEATURES,
			FilterAsks: func(q *pb.Query) bool { return len(q.GetRequiredFeatures()) > 0 },
			Write:      func(q *pb.Query, p *v1.Pod, _ runtime.Object) { q.RequiredFeatures = requiredFeatures(p) },
			Reads:      readFeatures,
		},
		Gate:   "NodeDeclaredFeatures",
		Points: []framework.Point{framework.PreFilter, framework.Filter},
		Hints:  featureHints,
		Words:  featureWords(),
	}
}

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

// readFeatures is requiredFeatures as a text.
func readFeatures(p *v1.Pod) string {
	if !mayRequireFeatures(p) {
		return ""
	}
	return strings.Join(requiredFeatures(p), " ")
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

// featureHints waits for nodes whose features are others than before, and for the
// pod to need others.
func featureHints(queue.Profiles) queue.Plugin {
	return queue.Plugin{Events: []queue.Registration{
		{Resource: queue.Node, Actions: queue.Add | queue.UpdateNodeDeclaredFeature, If: declaresOthers},
		{Resource: queue.AnyPod, Actions: queue.AnyPodUpdate, Helps: needsOthers},
	}}
}

// declaresOthers: the node is new or declares other features than before. Whether they are
// those that a pod needs is not asked.
func declaresOthers(e *queue.Event) bool {
	old, now := objects[*v1.Node](e)
	return old == nil || !slices.Equal(old.Status.DeclaredFeatures, now.Status.DeclaredFeatures)
}

// needsOthers: the pod itself needs other features than before.
func needsOthers(p *queue.Pod, e *queue.Event) bool {
	old, now := objects[*v1.Pod](e)
	return queue.IsOwn(p, e) && neededFeatures(&old.Spec) != neededFeatures(&now.Spec)
}

// needed are those that a pod may need of its node.
type needed struct {
	restartAllContainers, userNamespacesHostNetwork bool
}

func neededFeatures(s *v1.PodSpec) needed {
	restarts := func(c v1.Container) bool {
		return slices.ContainsFunc(c.RestartPolicyRules, func(r v1.ContainerRestartRule) bool {
			return r.Action == v1.ContainerRestartRuleActionRestartAllContainers
		})
	}
	return needed{
		restartAllContainers:      slices.ContainsFunc(s.Containers, restarts) || slices.ContainsFunc(s.InitContainers, restarts),
		userNamespacesHostNetwork: s.HostNetwork && s.HostUsers != nil && !*s.HostUsers,
	}
}

func featureWords() *Words {
	return &Words{
		Says: []string{"node(s) didn't match Pod's required features"},
		Lacks: func(r *Refused) []string {
			var out []string
			for _, f := range r.Class.Query.GetRequiredFeatures() {
				if !slices.Contains(r.Node.Status.DeclaredFeatures, f) {
					out = append(out, fmt.Sprintf("feature %s is not declared by the node (kubelet %s)", f,
						cmp.Or(r.Node.Status.NodeInfo.KubeletVersion, "of an unknown version")))
				}
			}
			return out
		},
		Wants: func(a *Asked) []Want {
			var names, counts []string
			for _, f := range requiredFeatures(a.Pod) {
				n := a.Nodes.Declaring(f)
				names, counts = append(names, f), append(counts, fmt.Sprintf("%s %s %s", nodesText(n), verb(n, "declares", "declare"), f))
			}
			return []Want{{Cause: "feature " + listed(names), Detail: listed(counts), Help: "nodes whose kubelet has the feature"}}
		},
	}
}
