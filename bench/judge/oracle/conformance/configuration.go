package conformance

import (
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime"
	configv1 "k8s.io/kube-scheduler/config/v1"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
	"k8s.io/utils/ptr"

	"github.com/shardsched/shardsched/coordinator/framework"
	"github.com/shardsched/shardsched/coordinator/groups"
	"github.com/shardsched/shardsched/coordinator/rules"
	"github.com/shardsched/shardsched/internal/testkit/build"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// names are the profiles' names.
func (c *Configuration) names() (out []string) {
	for i := range c.Profiles {
		out = append(out, ptr.Deref(c.Profiles[i].SchedulerName, v1.DefaultSchedulerName))
	}
	return out
}

// configuration is one that a file may have: of the arguments those of the rules that are
// in every scenario, and of the families.
func (g *generator) configuration(several bool, families []Family) *Configuration {
	c := newConfiguration()
	n := 1
	if several {
		n += g.IntN(3)
	}
	for i := range n {
		p := configv1.KubeSchedulerProfile{SchedulerName: ptr.To([]string{v1.DefaultSchedulerName, "second", "third"}[i])}
		if g.chance(70) {
			p.PluginConfig = g.arguments(families)
		}
		switch {
		case g.chance(35):
			p.Plugins = g.fewer(families)
		case several && g.chance(60):
			p.Plugins = g.points(families)
		}
		c.Profiles = append(c.Profiles, p)
	}
	return c
}

func (g *generator) arguments(families []Family) []configv1.PluginConfig {
	out := []configv1.PluginConfig{{Name: names.NodeResourcesFit, Args: runtime.RawExtension{Object: g.fit()}}}
	add := func(name string, args runtime.Object) {
		out = append(out, configv1.PluginConfig{Name: name, Args: runtime.RawExtension{Object: args}})
	}
	if g.chance(50) {
		add(names.NodeResourcesBalancedAllocation, &configv1.NodeResourcesBalancedAllocationArgs{Resources: g.resources(1)})
	}
	if g.chance(30) {
		add(names.NodeAffinity, &configv1.NodeAffinityArgs{AddedAffinity: g.added()})
	}
	if slices.Contains(families, Affinity) && g.chance(60) {
		add(names.InterPodAffinity, &configv1.InterPodAffinityArgs{
			HardPodAffinityWeight:              ptr.To(oneOf[int32](g.strange, 0, 1, 5, 100)),
			IgnorePreferredTermsOfExistingPods: g.chance(40),
		})
	}
	if slices.Contains(families, Defaults) && g.chance(60) {
		add(names.PodTopologySpread, g.spreadArgs())
	}
	return out
}

func (g *generator) fit() *configv1.NodeResourcesFitArgs {
	args := &configv1.NodeResourcesFitArgs{ScoringStrategy: &configv1.ScoringStrategy{
		Type: oneOf(g.strange, configv1.LeastAllocated, configv1.MostAllocated, configv1.RequestedToCapacityRatio),
	}}
	if args.ScoringStrategy.Type == configv1.RequestedToCapacityRatio {
		args.ScoringStrategy.RequestedToCapacityRatio = &configv1.RequestedToCapacityRatioParam{Shape: g.shape()}
	}
	if g.chance(70) {
		args.ScoringStrategy.Resources = g.resources(100)
	}
	if g.hasDevices() && g.chance(60) { // not for NodeResourcesBalancedAllocation, where upstream fails without a cache
		for _, name := range []string{accelerator, resourcev1.ResourceDeviceClassPrefix + classGPU} {
			args.ScoringStrategy.Resources = append(args.ScoringStrategy.Resources, configv1.ResourceSpec{Name: name, Weight: 1 + g.Int64N(100)})
		}
	}
	if g.chance(30) {
		args.IgnoredResources = []string{oneOf(g.strange, "nvidia.com/gpu", "example.com/foo")}
	}
	if g.chance(30) {
		args.IgnoredResourceGroups = []string{oneOf(g.strange, "nvidia.com", "example.com", "kubernetes.io")}
	}
	return args
}

// spreadArgs are default constraints: the system's, some, or none.
func (g *generator) spreadArgs() *configv1.PodTopologySpreadArgs {
	args := &configv1.PodTopologySpreadArgs{DefaultingType: oneOf(g.strange, configv1.ListDefaulting, configv1.ListDefaulting,
		configv1.SystemDefaulting)}
	if args.DefaultingType == configv1.SystemDefaulting {
		return args
	}
	for range g.IntN(4) {
		c := v1.TopologySpreadConstraint{
			MaxSkew: oneOf[int32](g.strange, 1, 2, 5), TopologyKey: g.topologyKey(),
			WhenUnsatisfiable: oneOf(g.strange, v1.DoNotSchedule, v1.ScheduleAnyway),
		}
		if !repeated(args.DefaultConstraints, &c) {
			args.DefaultConstraints = append(args.DefaultConstraints, c)
		}
	}
	return args
}

// rulesOf are upstream's plugins that filter or score nodes, or make room, with the weights of those that score. Those that tables do not
// evaluate come last, with those of pod groups.
func rulesOf(gates groups.Gates) []configv1.Plugin {
	var evaluated, others []configv1.Plugin
	for _, r := range rules.All() {
		p := configv1.Plugin{Name: r.Name}
		switch {
		case !r.InDefault(gates):
		case r.Plugin != pb.Plugin_PLUGIN_UNSPECIFIED:
			if r.Weight != 0 {
				p.Weight = ptr.To(r.Weight)
			}
			evaluated = append(evaluated, p)
		case r.At(framework.Filter) || r.At(framework.PostFilter) || !r.InDefault(groups.Gates{}):
			if r.Weight != 0 {
				p.Weight = ptr.To(r.Weight)
			}
			others = append(others, p)
		}
	}
	return append(evaluated, others...)
}

// kept tells whether a plugin must be in each profile.
func kept(p configv1.Plugin, families []Family) bool {
	return (p.Name == names.VolumeBinding || p.Name == names.DynamicResources) && whole(p, families)
}

// whole tells whether a plugin must be at all points or none: one of the volumes' that
// filters no more refuses pods as such still.
func whole(p configv1.Plugin, families []Family) bool {
	if p.Name == names.DynamicResources { // where it does not filter, upstream can't reserve
		return slices.Contains(families, Devices)
	}
	about := strings.HasPrefix(p.Name, "Volume") || p.Name == names.NodeVolumeLimits
	return about && slices.Contains(families, Volumes) && !slices.Contains(families, Partial)
}

// fewer leaves some out, in another order, with other weights.
func (g *generator) fewer(families []Family) *configv1.Plugins {
	list := rulesOf(g.groups.ours())
	g.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	out := g.IntN(4)
	list = slices.DeleteFunc(list, func(p configv1.Plugin) bool {
		out--
		return out >= 0 && !kept(p, families)
	})
	for i := range list {
		if list[i].Weight != nil {
			list[i].Weight = ptr.To(oneOf[int32](g.strange, 1, 1, 2, 3, 10, 1000))
		}
	}
	needed := []configv1.Plugin{{Name: names.PrioritySort}, {Name: names.DefaultBinder}}
	return &configv1.Plugins{MultiPoint: configv1.PluginSet{Enabled: append(needed, list...), Disabled: []configv1.Plugin{{Name: "*"}}}}
}

// points changes the default list at some points.
func (g *generator) points(families []Family) *configv1.Plugins {
	p := &configv1.Plugins{}
	list := rulesOf(groups.Gates{})
	g.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	for _, x := range list[:3] {
		switch {
		case x.Weight == nil && g.chance(50) && !whole(x, families):
			p.Filter.Disabled = append(p.Filter.Disabled, configv1.Plugin{Name: x.Name})
		case x.Weight != nil && g.chance(40):
			p.Score.Disabled = append(p.Score.Disabled, configv1.Plugin{Name: x.Name})
			// With its PreScore left in, upstream fails a pod whose terms can't be read.
			p.PreScore.Disabled = append(p.PreScore.Disabled, configv1.Plugin{Name: x.Name})
		case x.Weight != nil && g.chance(50):
			p.Score.Enabled = append(p.Score.Enabled, configv1.Plugin{Name: x.Name, Weight: ptr.To(oneOf[int32](g.strange, 1, 4, 7))})
		case x.Weight != nil:
			p.MultiPoint.Enabled = append(p.MultiPoint.Enabled,
				configv1.Plugin{Name: x.Name, Weight: ptr.To(oneOf[int32](g.strange, 1, 4, 7))})
		}
	}
	return p
}

func (r strange) shape() (out []configv1.UtilizationShapePoint) {
	for at := int32(r.IntN(50)); at <= 100; at += 1 + int32(r.IntN(60)) {
		out = append(out, configv1.UtilizationShapePoint{Utilization: at, Score: int32(r.IntN(11))})
	}
	return out
}

func (r strange) resources(maxWeight int) (out []configv1.ResourceSpec) {
	for _, name := range []string{"cpu", "memory", "ephemeral-storage", "nvidia.com/gpu", "example.com/foo", "hugepages-2Mi"} {
		if r.chance(50) {
			out = append(out, configv1.ResourceSpec{Name: name, Weight: 1 + r.Int64N(int64(maxWeight))})
		}
	}
	return out
}

// added is an affinity that validation lets through.
func (r strange) added() *v1.NodeAffinity {
	a := &v1.NodeAffinity{}
	if r.chance(60) {
		a.RequiredDuringSchedulingIgnoredDuringExecution = &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{
			build.Labels(build.Match("zone", v1.NodeSelectorOpNotIn, "a")), build.Labels(build.Match("disk", v1.NodeSelectorOpExists)),
		}}
	}
	for range r.IntN(3) {
		a.PreferredDuringSchedulingIgnoredDuringExecution = append(a.PreferredDuringSchedulingIgnoredDuringExecution,
			v1.PreferredSchedulingTerm{
				Weight: int32(1 + r.IntN(100)), Preference: build.Labels(build.Match("zone", v1.NodeSelectorOpIn, oneOf(r, "a", "b"))),
			})
	}
	return a
}
