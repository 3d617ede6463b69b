package conformance

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

// gateFamily makes pods that wait for gates.
type gateFamily struct {
	calm
	g *generator
}

func (f *gateFamily) pod(p *v1.Pod) Round {
	if p.Spec.NodeName == "" && f.g.chance(25) {
		for range 1 + f.g.IntN(2) {
			p.Spec.SchedulingGates = append(p.Spec.SchedulingGates, v1.PodSchedulingGate{Name: oneOf(f.g.strange, "a", "b")})
		}
	}
	return nil
}

// change opens a gate.
func (f *gateFamily) change() Round {
	i := slices.IndexFunc(f.g.pods, func(p *v1.Pod) bool { return len(p.Spec.SchedulingGates) > 0 })
	if i < 0 {
		return nil
	}
	p := f.g.pods[i].DeepCopy()
	p.Spec.SchedulingGates = p.Spec.SchedulingGates[1:]
	f.g.pods[i] = p
	return Round{set(p)}
}

// featureFamily makes nodes that declare features and pods that need some.
type featureFamily struct {
	calm
	g *generator
}

const (
	restartAll     = "RestartAllContainersOnContainerExits"
	userNamespaces = "UserNamespacesHostNetworkSupport"
)

func (f *featureFamily) node(n *v1.Node) {
	n.Status.DeclaredFeatures = nil
	for _, name := range []string{"InPlacePodLevelResourcesVerticalScaling", restartAll, userNamespaces, "Unknown"} {
		if f.g.chance(50) {
			n.Status.DeclaredFeatures = append(n.Status.DeclaredFeatures, name)
		}
	}
}

func (f *featureFamily) pod(p *v1.Pod) Round {
	if f.g.chance(25) {
		p.Spec.HostNetwork, p.Spec.HostUsers = f.g.chance(80), ptr.To(f.g.chance(20))
	}
	rule := []v1.ContainerRestartRule{{
		Action:    oneOf(f.g.strange, v1.ContainerRestartRuleActionRestartAllContainers, v1.ContainerRestartRuleActionRestart),
		ExitCodes: &v1.ContainerRestartRuleOnExitCodes{Operator: v1.ContainerRestartRuleOnExitCodesOpIn, Values: []int32{42}},
	}}
	for _, list := range [][]v1.Container{p.Spec.InitContainers, p.Spec.Containers} {
		for i := range list {
			if f.g.chance(20) {
				list[i].RestartPolicyRules = rule
			}
		}
	}
	return nil
}

func (f *featureFamily) change() Round {
	if len(f.g.nodes) == 0 {
		return nil
	}
	i := f.g.IntN(len(f.g.nodes))
	n := f.g.nodes[i].DeepCopy()
	f.node(n)
	f.g.nodes[i] = n
	return Round{set(n)}
}

// nominatedFamily nominates pods to nodes.
type nominatedFamily struct {
	calm
	g *generator
}

func (f *nominatedFamily) pod(p *v1.Pod) Round {
	if p.Spec.NodeName == "" && f.g.chance(25) {
		f.nominate(p)
	}
	return nil
}

func (f *nominatedFamily) nominate(p *v1.Pod) {
	if slices.ContainsFunc(p.Spec.Volumes, func(v v1.Volume) bool { return v.Ephemeral != nil }) {
		return // where its claim is another pod's, upstream fails every pod that looks at the node
	}
	p.Status.NominatedNodeName = oneOf(f.g.strange, f.g.cluster.Nodes...).Name
	if f.g.chance(5) {
		p.Status.NominatedNodeName = "unknown"
	}
}

// change nominates a pod that waits elsewhere, or nowhere.
func (f *nominatedFamily) change() Round {
	i := slices.IndexFunc(f.g.pods, func(p *v1.Pod) bool { return p.Spec.NodeName == "" && p.DeletionTimestamp == nil && f.g.chance(30) })
	if i < 0 {
		return nil
	}
	p := f.g.pods[i].DeepCopy()
	p.Status.NominatedNodeName = ""
	if f.g.chance(60) {
		f.nominate(p)
	}
	f.g.pods[i] = p
	return Round{set(p)}
}
