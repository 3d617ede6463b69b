package conformance

import (
	"fmt"
	"math/rand/v2"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	configv1 "k8s.io/kube-scheduler/config/v1"

	"github.com/shardsched/shardsched/coordinator/build"
)

// Random makes a scenario from a seed: a cluster of package build's, in every other one with
// strange objects, in every third with other settings, and with up to four rounds of
// changes. Equal seeds give equal scenarios.
func Random(seed uint64, maxNodes int) *Scenario {
	r := strange{rand.New(rand.NewPCG(seed, seed))}
	nodes := 1 + r.IntN(maxNodes)
	g := generator{strange: r, odd: seed%2 == 1}
	if seed%7 == 0 { // more keys than groups
		g.scattered, nodes = true, maxNodes
	}
	g.cluster = build.Random(r.Rand, nodes, r.IntN(2*nodes+1), 1+r.IntN(4*nodes+8))
	s := &Scenario{}
	if seed%3 == 0 {
		s.Settings = r.settings()
	}
	s.Rounds = append(s.Rounds, g.first())
	if seed%29 == 0 { // the nodes come late
		i := slices.IndexFunc(s.Rounds[0], func(e Event) bool { return e.Pod != nil })
		s.Rounds = []Round{s.Rounds[0][i:], s.Rounds[0][:i]}
	}
	for range r.IntN(5) {
		s.Rounds = append(s.Rounds, g.next())
	}
	return s
}

// SplitOf is how the work of a seed's scenario is cut up.
func SplitOf(seed uint64) Split {
	return Split{Shards: 1 + int(seed%5), Batch: []int{512, 7, 1, 64}[seed%4]}
}

// generator makes rounds.
type generator struct {
	strange
	odd bool
	// scattered says that pods have many preferences, so that few nodes are alike.
	scattered bool
	cluster   build.Cluster
	nodes     []*v1.Node // that there are
	gone      []*v1.Node // that there were
	pods      []*v1.Pod
	made      int
}

func (g *generator) first() Round {
	var out Round
	for _, n := range g.cluster.Nodes {
		if g.odd {
			g.node(n)
		}
		g.nodes = append(g.nodes, n)
		out = append(out, Event{Type: Set, Node: n})
	}
	for _, p := range append(g.cluster.Present, g.cluster.Pending...) {
		out = append(out, g.podEvent(p))
	}
	return out
}

// podEvent makes a pod odd where that is wanted. Some are twins of an earlier one, so that
// pods share classes.
func (g *generator) podEvent(p *v1.Pod) Event {
	if len(g.pods) > 0 && g.chance(50) {
		twin := oneOf(g.strange, g.pods...).DeepCopy()
		twin.ObjectMeta, twin.Spec.NodeName = p.ObjectMeta, p.Spec.NodeName
		p = twin
		if g.chance(30) {
			g.vary(p)
		}
	} else if g.odd {
		g.pod(p)
	}
	if g.scattered && g.chance(30) {
		p.Spec.Affinity = &v1.Affinity{NodeAffinity: &v1.NodeAffinity{PreferredDuringSchedulingIgnoredDuringExecution: g.scatter()}}
	}
	if p.Spec.NodeName != "" && g.odd && g.chance(15) {
		g.resize(p)
	}
	g.pods = append(g.pods, p)
	return Event{Type: Set, Pod: p}
}

// next is a round of changes.
func (g *generator) next() Round {
	var out Round
	for range 1 + g.IntN(len(g.nodes)+4) {
		out = append(out, g.change()...)
	}
	return out
}

func (g *generator) change() Round {
	switch g.IntN(11) {
	case 10:
		return g.changePod()
	case 0:
		return g.removeNode()
	case 1, 2:
		return g.addNode()
	case 3, 4:
		return g.changeNode()
	case 5, 6:
		return g.removePod()
	default:
		return g.addPod()
	}
}

func (g *generator) removeNode() Round {
	if len(g.nodes) == 0 {
		return nil
	}
	i := g.IntN(len(g.nodes))
	n := g.nodes[i]
	g.nodes = append(g.nodes[:i:i], g.nodes[i+1:]...)
	g.gone = append(g.gone, n)
	return Round{{Type: Removed, Node: n}}
}

// addNode adds a new node, or one that was there before, with the pods that are still on
// it.
func (g *generator) addNode() Round {
	var n *v1.Node
	if len(g.gone) > 0 && g.chance(60) {
		n, g.gone = g.gone[len(g.gone)-1], g.gone[:len(g.gone)-1]
	} else {
		n = oneOf(g.strange, g.cluster.Nodes...).DeepCopy()
		g.made++
		n.Name = fmt.Sprintf("new-%d", g.made)
		n.UID = types.UID(n.Name)
	}
	g.nodes = append(g.nodes, n)
	return Round{{Type: Set, Node: n}}
}

// changeNode relabels, taints, cordons and resizes.
func (g *generator) changeNode() Round {
	if len(g.nodes) == 0 {
		return nil
	}
	i := g.IntN(len(g.nodes))
	n := g.nodes[i].DeepCopy()
	if n.Labels == nil {
		n.Labels = map[string]string{}
	}
	switch g.IntN(7) {
	case 0:
		n.Labels["zone"] = oneOf(g.strange, "a", "b", "c")
	case 1:
		delete(n.Labels, "disk")
	case 2:
		n.Spec.Taints = append(n.Spec.Taints[:len(n.Spec.Taints):len(n.Spec.Taints)], g.taint())
	case 3:
		n.Spec.Unschedulable = !n.Spec.Unschedulable
	case 4:
		n.Status.Images = append(n.Status.Images, g.image())
	case 5:
		n.Status.Images = nil
		for range g.IntN(4) {
			n.Status.Images = append(n.Status.Images, g.image())
		}
	case 6:
		name := oneOf(g.strange, v1.ResourceCPU, v1.ResourceMemory, v1.ResourcePods, "nvidia.com/gpu")
		n.Status.Allocatable[name] = g.quantity(name)
	}
	g.nodes[i] = n
	return Round{{Type: Set, Node: n}}
}

func (g *generator) removePod() Round {
	if len(g.pods) == 0 {
		return nil
	}
	i := g.IntN(len(g.pods))
	p := g.pods[i]
	g.pods = append(g.pods[:i:i], g.pods[i+1:]...)
	return Round{{Type: Removed, Pod: p}}
}

// changePod resizes a pod that is on its node, or ends it.
func (g *generator) changePod() Round {
	i := slices.IndexFunc(g.pods, func(p *v1.Pod) bool { return p.Spec.NodeName != "" && g.chance(20) })
	if i < 0 {
		return nil
	}
	p := g.pods[i].DeepCopy()
	if g.chance(30) {
		p.Status.Phase = oneOf(g.strange, v1.PodSucceeded, v1.PodFailed)
		g.pods = slices.Delete(g.pods, i, i+1)
	} else {
		p.Status = v1.PodStatus{}
		g.resize(p)
		g.pods[i] = p
	}
	return Round{{Type: Set, Pod: p}}
}

func (g *generator) addPod() Round {
	var out Round
	for range 1 + g.IntN(4) {
		p := oneOf(g.strange, append(g.cluster.Present, g.cluster.Pending...)...).DeepCopy()
		g.made++
		p.Name = fmt.Sprintf("new-%d", g.made)
		p.UID = types.UID(p.Name)
		p.Spec.NodeName = ""
		p.Status = v1.PodStatus{}
		if g.chance(25) && len(g.nodes) > 0 {
			p.Spec.NodeName = oneOf(g.strange, g.nodes...).Name
		}
		out = append(out, g.podEvent(p))
	}
	return out
}

// settings are arguments that a configuration file may have.
func (r strange) settings() Settings {
	var s Settings
	s.Fit.ScoringStrategy = &configv1.ScoringStrategy{
		Type: oneOf(r, configv1.LeastAllocated, configv1.MostAllocated, configv1.RequestedToCapacityRatio),
	}
	if s.Fit.ScoringStrategy.Type == configv1.RequestedToCapacityRatio {
		s.Fit.ScoringStrategy.RequestedToCapacityRatio = &configv1.RequestedToCapacityRatioParam{Shape: r.shape()}
	}
	if r.chance(50) {
		s.Plugins = r.plugins()
	}
	if r.chance(70) {
		s.Fit.ScoringStrategy.Resources = r.resources(100)
	}
	if r.chance(50) {
		s.Balanced.Resources = r.resources(1)
	}
	if r.chance(30) {
		s.Fit.IgnoredResources = []string{oneOf(r, "nvidia.com/gpu", "example.com/foo")}
	}
	if r.chance(30) {
		s.Fit.IgnoredResourceGroups = []string{oneOf(r, "nvidia.com", "example.com", "kubernetes.io")}
	}
	if r.chance(30) {
		s.Affinity.AddedAffinity = r.added()
	}
	return s
}

// plugins leaves some out, in another order, with other weights.
func (r strange) plugins() []Plugin {
	out := slices.Clone(defaultPlugins())
	r.Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
	out = out[:len(out)-r.IntN(3)]
	for i := range out {
		if out[i].Weight > 0 {
			out[i].Weight = oneOf[int32](r, 1, 1, 2, 3, 10, 1000)
		}
	}
	return out
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
		a.PreferredDuringSchedulingIgnoredDuringExecution = append(a.PreferredDuringSchedulingIgnoredDuringExecution, v1.PreferredSchedulingTerm{
			Weight: int32(1 + r.IntN(100)), Preference: build.Labels(build.Match("zone", v1.NodeSelectorOpIn, oneOf(r, "a", "b"))),
		})
	}
	return a
}
