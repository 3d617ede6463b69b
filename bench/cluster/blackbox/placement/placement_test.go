package placement

import (
	"fmt"
	"strings"
	"testing"

	nodev1 "k8s.io/api/node/v1"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/shardsched/shardsched/bench/cluster/blackbox/rig"
	"github.com/shardsched/shardsched/bench/cluster/controlplane/testbed"
	"github.com/shardsched/shardsched/internal/testkit/build"
)

func TestPlacement(t *testing.T) {
	r := rig.New(t, testbed.Config{})
	// The scheduler knows of these from its start.
	r.Create(
		build.Namespace("east", "side", "east"), build.Namespace("west", "side", "west"),
	)
	served := build.Service("default", "served", "app", "served")
	served.Spec.Ports = []v1.ServicePort{{Port: 80}}
	r.Create(served)
	_, err := r.Admin.NodeV1().RuntimeClasses().Create(t.Context(), &nodev1.RuntimeClass{
		ObjectMeta: metav1.ObjectMeta{Name: "heavy"}, Handler: "heavy",
		Overhead: &nodev1.Overhead{PodFixed: v1.ResourceList{v1.ResourceCPU: resource.MustParse("1")}},
	}, metav1.CreateOptions{})
	r.Must(err)
	r.Start(profiles())
	t.Run("filters alone", func(t *testing.T) {
		for plugin, cases := range filterCases() {
			t.Run(plugin, func(t *testing.T) { r.Run(t, in("only-"+plugin, cases)) })
		}
	})
	t.Run("scores alone", func(t *testing.T) {
		for plugin, cases := range scoreCases() {
			t.Run(plugin, func(t *testing.T) { r.Run(t, in("by-"+plugin, cases)) })
		}
	})
	t.Run("all together", func(t *testing.T) { r.Run(t, togetherCases()) })
	r.CheckWrites()
}

// in gives cases a profile where they have none.
func in(profile string, cases []rig.Case) []rig.Case {
	for i := range cases {
		if cases[i].Profile == "" {
			cases[i].Profile = profile
		}
	}
	return cases
}

// profiles are those that the cases name: only-<plugin> filters by it, by-<plugin> scores by it.
func profiles() string {
	var s strings.Builder
	for plugin := range filterCases() {
		s.WriteString(filters("only-"+plugin, plugin, ""))
	}
	for plugin := range scoreCases() {
		s.WriteString(scores("by-"+plugin, plugin, ""))
	}
	for _, p := range []string{
		filters("enforced", "NodeAffinity", `{addedAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: pool, operator: In, values: [own]}]}]}}}`),
		filters("blind", "NodeResourcesFit", `{ignoredResources: [example.com/foo], ignoredResourceGroups: [ignored.example]}`),
		scores("cpu-first", "NodeResourcesFit", `{scoringStrategy: {type: LeastAllocated, resources: [{name: cpu, weight: 3}, {name: memory, weight: 1}]}}`),
		scores("packed", "NodeResourcesFit", `{scoringStrategy: {type: MostAllocated}}`),
		scores("half-full", "NodeResourcesFit", `{scoringStrategy: {type: RequestedToCapacityRatio, resources: [{name: cpu, weight: 1}], requestedToCapacityRatio: {shape: [{utilization: 0, score: 0}, {utilization: 50, score: 10}, {utilization: 100, score: 0}]}}}`),
		scores("devices-packed", "NodeResourcesFit", `{scoringStrategy: {type: RequestedToCapacityRatio, resources: [{name: example.com/foo, weight: 1}], requestedToCapacityRatio: {shape: [{utilization: 0, score: 0}, {utilization: 100, score: 10}]}}}`),
		scores("balanced-devices", "NodeResourcesBalancedAllocation", `{resources: [{name: cpu, weight: 1}, {name: example.com/foo, weight: 1}]}`),
		scores("leaning", "NodeAffinity", `{addedAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 5, preference: {matchExpressions: [{key: pool, operator: Exists}]}}]}}`),
		scores("clingy", "InterPodAffinity", `{hardPodAffinityWeight: 100}`),
		scores("aloof", "InterPodAffinity", `{hardPodAffinityWeight: 0}`),
		scores("racks", "PodTopologySpread", `{defaultingType: List, defaultConstraints: [{topologyKey: rack, maxSkew: 1, whenUnsatisfiable: ScheduleAnyway}]}`),
	} {
		s.WriteString(p)
	}
	return s.String() + `
- schedulerName: deaf
  plugins:
    multiPoint: {disabled: [{name: "*"}], enabled: [{name: PrioritySort}, {name: DefaultBinder}]}
    preScore: {enabled: [{name: InterPodAffinity}, {name: NodeAffinity}]}
    score: {enabled: [{name: InterPodAffinity, weight: 9}, {name: NodeAffinity, weight: 1}]}
  pluginConfig: [{name: InterPodAffinity, args: {ignorePreferredTermsOfExistingPods: true}}]
- schedulerName: reweighted
  plugins:
    score: {enabled: [{name: NodeAffinity, weight: 50}]}
- schedulerName: careless
  plugins:
    filter: {disabled: [{name: TaintToleration}]}
    multiPoint: {disabled: [{name: DefaultPreemption}]}
`
}

// filters is a profile whose only rule is a plugin that filters.
func filters(name, plugin, args string) string {
	points := "    filter: {enabled: [{name: " + plugin + "}]}\n"
	if plugin != "NodeUnschedulable" && plugin != "TaintToleration" {
		points += "    preFilter: {enabled: [{name: " + plugin + "}]}\n"
	}
	return profile(name, plugin, args, points)
}

// scores is a profile whose only rule is a plugin that scores. No node is refused.
func scores(name, plugin, args string) string {
	points := "    score: {enabled: [{name: " + plugin + "}]}\n"
	if plugin != "ImageLocality" {
		points += "    preScore: {enabled: [{name: " + plugin + "}]}\n"
	}
	return profile(name, plugin, args, points)
}

func profile(name, plugin, args, points string) string {
	s := fmt.Sprintf(`
- schedulerName: %s
  plugins:
    multiPoint: {disabled: [{name: "*"}], enabled: [{name: PrioritySort}, {name: DefaultBinder}]}
%s`, name, points)
	if args != "" {
		s += fmt.Sprintf("  pluginConfig: [{name: %s, args: %s}]\n", plugin, args)
	}
	return s
}

// node has 4 CPUs and 8 GiB.
func node(name string) *build.NodeBuilder {
	return build.Node(name).CPU("4").Memory("8Gi").Label(v1.LabelHostname, name)
}

// cluster is a list of objects.
func cluster(objects ...runtime.Object) []runtime.Object { return objects }

// pods is a list of pods.
func pods(list ...*v1.Pod) []*v1.Pod { return list }

// one is a list of a pod named p.
func one(b *build.PodBuilder) []*v1.Pod { return pods(b.Obj()) }

// p starts the pod that cases are about.
func p() *build.PodBuilder { return build.Pod("p") }

// device requests some of an extended resource, which must be its limit too.
func device(b *build.PodBuilder, name, quantity string) *v1.Pod {
	pod := b.Request(name, quantity).Obj()
	for i := range pod.Spec.Containers {
		c := &pod.Spec.Containers[i].Resources
		if q, ok := c.Requests[v1.ResourceName(name)]; ok {
			if c.Limits == nil {
				c.Limits = v1.ResourceList{}
			}
			c.Limits[v1.ResourceName(name)] = q
		}
	}
	return pod
}

// many makes n pods on a node.
func many(n int, name string, each func(*build.PodBuilder) *build.PodBuilder) (out []runtime.Object) {
	for i := range n {
		out = append(out, each(build.Pod(fmt.Sprintf("%s-%d", name, i))).Obj())
	}
	return out
}
