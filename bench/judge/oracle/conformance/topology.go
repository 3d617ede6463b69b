package conformance

import (
	"fmt"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// rack is a label that many nodes have with many values, unique one that no two share.
const (
	rack   = "example.com/rack"
	unique = "example.com/unique"
)

// topologyKey is a label that domains are made by; some nodes lack it.
func (g *generator) topologyKey() string {
	return oneOf(g.strange, v1.LabelHostname, v1.LabelHostname, v1.LabelHostname, v1.LabelTopologyZone, v1.LabelTopologyZone,
		v1.LabelTopologyZone,
		v1.LabelTopologyZone, v1.LabelTopologyRegion, v1.LabelTopologyRegion, rack, rack, rack, unique, "zone", "tier", oneOf(g.strange,
			rack, rack, "example.com/nowhere"))
}

// zone is one of a few.
func (g *generator) zone() string {
	return oneOf(g.strange, "eu-north1-a", "eu-north1-b", "eu-south1-a", "eu-south1-b")
}

func regionOf(zone string) string { return zone[:strings.LastIndexByte(zone, '-')] }

// place says where a node is. It may be called for a node that has been told already.
func (g *generator) place(n *v1.Node) {
	if _, placed := n.Labels["example.com/placed"]; placed {
		return
	}
	n.Labels["example.com/placed"] = ""
	zone := g.zone()
	if g.chance(90) {
		n.Labels[v1.LabelTopologyZone] = zone
	}
	if g.chance(80) {
		n.Labels[v1.LabelTopologyRegion] = regionOf(zone)
	}
	if g.chance(75) {
		n.Labels[rack] = fmt.Sprintf("rack-%d", g.IntN(1+len(g.cluster.Nodes)/2))
	}
	if g.chance(50) {
		n.Labels[unique] = n.Name
	}
	switch g.IntN(25) {
	case 0:
		delete(n.Labels, v1.LabelHostname)
	case 1:
		n.Labels[v1.LabelHostname] = oneOf(g.strange, g.cluster.Nodes...).Name
	}
}

// move takes a node elsewhere.
func (g *generator) move() Round {
	if len(g.nodes) == 0 {
		return nil
	}
	i := g.IntN(len(g.nodes))
	n := g.nodes[i].DeepCopy()
	key := g.topologyKey()
	switch {
	case g.chance(25):
		delete(n.Labels, key)
	case key == v1.LabelHostname || key == unique:
		n.Labels[key] = oneOf(g.strange, n.Name, n.Name, oneOf(g.strange, g.nodes...).Name)
	case key == v1.LabelTopologyZone:
		n.Labels[key] = g.zone()
	default:
		n.Labels[key] = oneOf(g.strange, "rack-0", "rack-1", "eu-north1", "eu-south1", "a")
	}
	g.nodes[i] = n
	return Round{set(n)}
}

// namespaces are those that pods are in; of the last there is no object.
func (g *generator) namespace() string {
	return oneOf(g.strange, "default", "default", "default", "team-a", "team-a", "team-b", "lost")
}

// namespaceObject is a namespace with some labels.
func (g *generator) namespaceObject(name string) *v1.Namespace {
	ns := &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{v1.LabelMetadataName: name}}}
	if g.chance(70) {
		ns.Labels["team"] = oneOf(g.strange, "a", "b")
	}
	if g.chance(40) {
		ns.Labels["env"] = oneOf(g.strange, "prod", "test")
	}
	return ns
}

func (g *generator) namespaceObjects() (out Round) {
	for _, name := range []string{"default", "team-a", "team-b"} {
		out = append(out, set(g.namespaceObject(name)))
	}
	return out
}

// identify gives a pod a namespace and labels, so that selectors tell pods apart. It may be
// called for a pod that has some already.
func (g *generator) identify(p *v1.Pod) {
	if p.Labels["app"] != "" {
		return
	}
	p.Namespace = g.namespace()
	p.Labels = map[string]string{"app": oneOf(g.strange, "web", "web", "web", "db", "cache")}
	if g.chance(50) {
		p.Labels["tier"] = oneOf(g.strange, "front", "back")
	}
	if g.chance(30) {
		p.Labels["version"] = oneOf(g.strange, "1", "2", "3")
	}
	if g.chance(15) {
		p.Labels["statefulset.kubernetes.io/pod-name"] = p.Name
	}
	if p.Spec.NodeName != "" && g.chance(12) {
		g.terminating(p)
	}
	if p.Spec.NodeName != "" && g.chance(3) {
		p.Spec.NodeName = "unknown"
	}
}

// terminating marks a pod as one that is being deleted. Upstream takes one that waits out of
// its queue, and a nomination of it counts as that of a pod without a spec then.
func (g *generator) terminating(p *v1.Pod) {
	p.DeletionTimestamp = &metav1.Time{Time: time.Unix(1_800_000_000, 0)}
	p.DeletionGracePeriodSeconds = new(int64)
	p.Status.NominatedNodeName = ""
}

// relabel gives a pod other labels.
func (g *generator) relabel() Round {
	if len(g.pods) == 0 {
		return nil
	}
	i := g.IntN(len(g.pods))
	p := g.pods[i].DeepCopy()
	if p.Labels == nil {
		p.Labels = map[string]string{}
	}
	switch g.IntN(3) {
	case 0:
		p.Labels["app"] = oneOf(g.strange, "web", "db", "cache")
	case 1:
		p.Labels["tier"] = oneOf(g.strange, "front", "back")
	default:
		delete(p.Labels, "version")
	}
	g.pods[i] = p
	return Round{set(p)}
}

// labelSelector selects among the labels that identify gives; own are the labels of the
// pod that has the selector.
func (g *generator) labelSelector(own map[string]string) *metav1.LabelSelector {
	if g.chance(4) {
		return nil
	}
	if g.chance(4) {
		return &metav1.LabelSelector{}
	}
	s := &metav1.LabelSelector{}
	if g.chance(75) {
		s.MatchLabels = map[string]string{"app": own["app"]}
		if g.chance(20) {
			s.MatchLabels = map[string]string{"app": oneOf(g.strange, "web", "db", "cache", "nobody")}
		}
	}
	for range oneOf(g.strange, 0, 0, 0, 1, 1, 2) {
		s.MatchExpressions = append(s.MatchExpressions, g.labelRequirement())
	}
	return s
}

func (g *generator) labelRequirement() metav1.LabelSelectorRequirement {
	q := metav1.LabelSelectorRequirement{
		Key: oneOf(g.strange, "app", "tier", "version"),
		Operator: oneOf(g.strange, metav1.LabelSelectorOpIn, metav1.LabelSelectorOpNotIn, metav1.LabelSelectorOpExists,
			metav1.LabelSelectorOpDoesNotExist),
	}
	if q.Operator == metav1.LabelSelectorOpIn || q.Operator == metav1.LabelSelectorOpNotIn {
		for range 1 + g.IntN(2) {
			q.Values = append(q.Values, oneOf(g.strange, "web", "db", "front", "back", "1", "2"))
		}
	}
	return q
}
