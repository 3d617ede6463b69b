package conformance

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/shardsched/shardsched/bench/judge/oracle"
	"github.com/shardsched/shardsched/internal/testkit/build"
)

// Random makes a scenario from a seed: a cluster, in every other one with strange objects, in
// every third with a configuration, with some of the families at work, and with up to four
// rounds of changes. Equal arguments give equal scenarios.
func Random(seed uint64, maxNodes int, families []Family) *Scenario {
	g := &generator{strange: strange{rand.New(rand.NewPCG(seed, seed))}, odd: seed%2 == 1, owned: map[types.UID]Round{}}
	nodes := 1 + g.IntN(maxNodes)
	var always Family
	if len(families) > 0 && families[0] == Groups {
		if always, families = Groups, families[1:]; len(families) == 0 {
			families, g.long = besideGroups(), true
		}
	}
	if len(families) == 1 {
		switch families[0] {
		case Devices, Pools:
			always = families[0]
		case DevicesBeside:
			always, families = Devices, Evaluated()
		}
	}
	if always == Groups {
		g.groups = &PodGroups{Topology: seed%4 > 0}
	}
	g.choose(families, always)
	if seed%7 == 0 && len(g.families) == 0 { // more keys than groups
		g.scattered, nodes = true, maxNodes
	}
	g.build(nodes)
	s := &Scenario{PodGroups: g.groups}
	if seed%3 == 0 {
		s.Config = g.configuration(slices.Contains(families, Profiles), families)
		g.profiles = s.Config.names()
	}
	s.Rounds = append(s.Rounds, g.first())
	if seed%29 == 0 { // the nodes come late
		i := slices.IndexFunc(s.Rounds[0], func(e Event) bool { _, ok := e.Object.(*v1.Pod); return ok })
		s.Rounds = []Round{s.Rounds[0][i:], s.Rounds[0][:i]}
	}
	changes := 5
	if g.long { // attempts cost less than the start of two schedulers
		changes = 30
	}
	for range g.IntN(changes) {
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
	// ample says that nodes have room and pods are small, so that other rules decide than
	// resources.
	ample bool
	// full says that nodes hold many pods, and have no room for more.
	full bool
	// scattered says that pods have many preferences, so that few nodes are alike.
	scattered bool
	families  []family
	profiles  []string // that pods may ask for; empty: the default one
	cluster   build.Cluster
	nodes     []*v1.Node // that there are
	gone      []*v1.Node // that there were
	pods      []*v1.Pod
	// owned are the objects that came with a pod.
	owned map[types.UID]Round
	made  int
	// long says that there are many rounds of changes, and that pod groups may preempt as a whole.
	long bool
	// groups are the gates of pod groups; nil: they are off.
	groups *PodGroups
	// started is how many pods have a time at which they started.
	started int
}

// choose puts some of the families to work, one always where that is wanted.
func (g *generator) choose(families []Family, always Family) {
	families = slices.Clone(families)
	g.Shuffle(len(families), func(i, j int) { families[i], families[j] = families[j], families[i] })
	families = families[:min(oneOf(g.strange, 0, 1, 1, 1, 2, 2, 3, 9), len(families))]
	if always == "" && slices.Contains(families, Devices) {
		always = Devices
	}
	if always != "" { // claims are in the namespace that the others gave a pod
		families = append(slices.DeleteFunc(families, func(f Family) bool { return f == always }), always)
	}
	if i := slices.Index(families, Devices); i >= 0 && always == Groups { // pod groups, too, and after all that makes objects of a pod's own
		families = append(slices.Delete(families, i, i+1), Devices, Groups)
		families = slices.Delete(families, slices.Index(families, Groups), slices.Index(families, Groups)+1)
	}
	if i := slices.Index(families, Nominated); i >= 0 { // it looks at what the others gave a pod
		families = append(slices.Delete(families, i, i+1), Nominated)
	}
	for _, f := range families {
		g.families = append(g.families, f.make(g))
	}
	g.ample = len(g.families) > 0 && g.chance(75)
	if slices.Contains(families, Preempting) {
		g.ample, g.full = true, true
	}
	if g.hasDevices() {
		g.ample = g.ample || g.chance(80)
	}
}

// build makes the nodes and pods.
func (g *generator) build(nodes int) {
	present, pending := g.IntN(2*nodes+1), 1+g.IntN(4*nodes+8)
	if g.hasDevices() { // enough for some to be left without
		present, pending = g.IntN(nodes+1), 1+g.IntN(2*nodes+4)
	}
	if g.full {
		present = 4 * nodes
	}
	g.cluster = build.Random(g.Rand, nodes, present, min(pending, 80))
	if !g.ample {
		return
	}
	g.odd = g.odd && g.chance(30)
	for i, n := range g.cluster.Nodes {
		g.cluster.Nodes[i] = g.ampleNode(n)
	}
	for _, list := range [][]*v1.Pod{g.cluster.Present, g.cluster.Pending} {
		for i, p := range list {
			list[i] = g.smallPod(p)
		}
	}
}

// ampleNode is a node with room, and mostly without taints.
func (g *generator) ampleNode(n *v1.Node) *v1.Node {
	b := build.Node(n.Name).CPU(oneOf(g.strange, "16", "32", "64")).Memory(oneOf(g.strange, "64Gi", "256Gi")).Pods(oneOf(g.strange, "5",
		"30", "110"))
	out := b.Obj()
	out.Labels = n.Labels
	if g.chance(15) {
		out.Spec.Taints, out.Spec.Unschedulable = n.Spec.Taints, n.Spec.Unschedulable
	}
	if g.chance(20) {
		out.Status.Images = n.Status.Images
	}
	return out
}

// smallPod is a pod that fits on most nodes.
func (g *generator) smallPod(p *v1.Pod) *v1.Pod {
	b := build.Pod(p.Name).Priority(*p.Spec.Priority).Container("c")
	if g.chance(80) {
		b.CPU(oneOf(g.strange, "50m", "100m", "250m", "1")).Memory(oneOf(g.strange, "64Mi", "500Mi", "1Gi"))
	}
	out := b.Obj()
	out.Spec.NodeName = p.Spec.NodeName
	if g.chance(12) {
		out.Spec.NodeSelector, out.Spec.Affinity = p.Spec.NodeSelector, p.Spec.Affinity
	}
	if g.chance(25) {
		out.Spec.Tolerations = p.Spec.Tolerations
	}
	return out
}

func set(obj oracle.Object) Event { return Event{Type: Set, Object: obj} }

func (g *generator) first() (out Round) {
	for _, f := range g.families {
		out = append(out, f.first()...)
	}
	for _, n := range g.cluster.Nodes {
		out = append(out, g.newNode(n))
	}
	for _, p := range append(g.cluster.Present, g.cluster.Pending...) {
		out = append(out, g.newPod(p)...)
	}
	return out
}

func (g *generator) newNode(n *v1.Node) Event {
	if g.odd {
		g.strange.node(n)
	}
	if n.Labels == nil {
		n.Labels = map[string]string{}
	}
	for _, f := range g.families {
		f.node(n)
	}
	g.nodes = append(g.nodes, n)
	return set(n)
}

// newPod makes a pod odd where that is wanted. Some are twins of an earlier one, so that
// pods share classes.
func (g *generator) newPod(p *v1.Pod) (out Round) {
	if len(g.pods) > 0 && g.chance(40) {
		first := oneOf(g.strange, g.pods...)
		p = g.twin(first, p)
		for _, f := range g.families {
			if f, ok := f.(twinned); ok {
				out = append(out, f.twin(first, p)...)
			}
		}
	} else {
		if g.odd {
			g.pod(p)
		}
		for _, f := range g.families {
			out = append(out, f.pod(p)...)
		}
		g.owned[p.UID] = out
	}
	if g.scattered && g.chance(30) {
		p.Spec.Affinity = &v1.Affinity{NodeAffinity: &v1.NodeAffinity{PreferredDuringSchedulingIgnoredDuringExecution: g.scatter()}}
	}
	if p.Spec.NodeName != "" && g.odd && g.chance(15) {
		g.resize(p)
	}
	if len(g.profiles) > 0 && p.Spec.NodeName == "" {
		p.Spec.SchedulerName = oneOf(g.strange, g.profiles...)
	}
	return append(out, g.add(p))
}

// add adds a pod. No two have started together: which of those goes first is not told anywhere.
func (g *generator) add(p *v1.Pod) Event {
	g.started++
	p.Status.StartTime = &metav1.Time{Time: time.Unix(epoch+int64(g.started*7919%10007), 0)}
	g.pods = append(g.pods, p)
	return set(p)
}

// epoch is when the first pod may have started.
const epoch = 1_700_000_000

// twin is a pod that is like an earlier one, but for where it is.
func (g *generator) twin(first, p *v1.Pod) *v1.Pod {
	twin := first.DeepCopy()
	twin.Name, twin.UID = p.Name, p.UID
	twin.DeletionTimestamp, twin.Status, twin.Spec.NodeName = nil, p.Status, p.Spec.NodeName
	if len(g.owned[first.UID]) > 0 {
		return twin // whose claims it shares
	}
	if len(g.families) == 0 {
		twin.Labels = p.Labels
		if g.chance(30) {
			g.vary(twin)
		}
	}
	return twin
}

// next is a round of changes.
func (g *generator) next() (out Round) {
	for range 1 + g.IntN(min(len(g.nodes), 12)+4) {
		out = append(out, g.change()...)
	}
	return out
}

func (g *generator) change() Round {
	if g.long && len(g.pods) > 3*len(g.nodes)+8 { // so that there is room again
		return g.removePod()
	}
	if len(g.families) > 0 && g.chance(35) {
		return oneOf(g.strange, g.families...).change()
	}
	switch g.IntN(13) {
	case 0:
		return g.removeNode()
	case 1, 2:
		return g.addNode()
	case 3, 4:
		return g.changeNode()
	case 5, 6:
		return g.removePod()
	case 7:
		return g.changePod()
	case 8:
		return g.terminate()
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
	return Round{{Type: Removed, Object: n}}
}

// addNode adds a new node, or one that was there before, with the pods that are still on
// it.
func (g *generator) addNode() Round {
	if len(g.gone) > 0 && g.chance(60) {
		n := g.gone[len(g.gone)-1]
		g.gone = g.gone[:len(g.gone)-1]
		g.nodes = append(g.nodes, n)
		return Round{set(n)}
	}
	n := oneOf(g.strange, g.cluster.Nodes...).DeepCopy()
	g.made++
	n.Name = fmt.Sprintf("new-%d", g.made)
	n.UID = types.UID(n.Name)
	if g.chance(80) && len(g.families) > 0 {
		n.Labels[v1.LabelHostname] = n.Name
	}
	return Round{g.newNode(n)}
}

// changeNode relabels, taints, cordons and resizes.
func (g *generator) changeNode() Round {
	if len(g.nodes) == 0 {
		return nil
	}
	i := g.IntN(len(g.nodes))
	n := g.nodes[i].DeepCopy()
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
	return Round{set(n)}
}

func (g *generator) removePod() Round {
	if len(g.pods) == 0 {
		return nil
	}
	i := g.IntN(len(g.pods))
	p := g.pods[i]
	g.pods = append(g.pods[:i:i], g.pods[i+1:]...)
	return Round{{Type: Removed, Object: p}}
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
		start := p.Status.StartTime
		if p.Status = (v1.PodStatus{}); g.groups != nil { // two without a start would be as two that have started together
			p.Status.StartTime = start
		}
		g.resize(p)
		g.pods[i] = p
	}
	return Round{set(p)}
}

// terminate lets a pod that is on its node, or that waits, be deleted, which takes its time.
func (g *generator) terminate() Round {
	if len(g.pods) == 0 {
		return nil
	}
	i := g.IntN(len(g.pods))
	p := g.pods[i].DeepCopy()
	g.terminating(p)
	g.pods[i] = p
	return Round{set(p)}
}

func (g *generator) addPod() (out Round) {
	for range 1 + g.IntN(4) {
		p := oneOf(g.strange, append(g.cluster.Present, g.cluster.Pending...)...).DeepCopy()
		g.made++
		p.Name = fmt.Sprintf("new-%d", g.made)
		p.UID = types.UID(p.Name)
		p.Spec.NodeName = ""
		p.Spec.Volumes, p.Spec.ResourceClaims = nil, nil
		p.DeletionTimestamp = nil
		p.Status = v1.PodStatus{}
		if g.chance(25) && len(g.nodes) > 0 {
			p.Spec.NodeName = oneOf(g.strange, g.nodes...).Name
		}
		if g.chance(3) {
			p.Spec.NodeName = "unknown"
		}
		out = append(out, g.newPod(p)...)
	}
	return out
}
