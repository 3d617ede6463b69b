package audit

import (
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	schedcorev1 "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"
)

// node is a node with what its pods take.
type node struct {
	object      *v1.Node
	allocatable amounts
	used        amounts
	ports       map[string][]port // by pod
}

func newNode() *node { return &node{used: amounts{}, ports: map[string][]port{}} }

// put counts a pod on the node and returns what is wrong from then on.
func (n *node) put(name string, p *pod) []string {
	wrong := n.conflicts(p)
	n.used.add(p.demand, 1)
	if len(p.ports) > 0 {
		n.ports[name] = p.ports
	}
	return append(wrong, n.over(p.demand)...)
}

// conflicts lists the pod's host ports that others have.
func (n *node) conflicts(p *pod) (wrong []string) {
	for other, taken := range n.ports {
		for _, a := range taken {
			if i := slices.IndexFunc(p.ports, a.conflicts); i >= 0 {
				wrong = append(wrong, fmt.Sprintf("host port %s is taken by %s", p.ports[i], other))
			}
		}
	}
	return wrong
}

func (n *node) remove(name string, p *pod) {
	n.used.add(p.demand, -1)
	delete(n.ports, name)
}

// over lists the resources, of those in among, of which more is used than there is.
func (n *node) over(among amounts) []string {
	var wrong []string
	for name, wanted := range among {
		if used, there := n.used[name], n.allocatable[name]; wanted > 0 && used > there {
			wrong = append(wrong, fmt.Sprintf("%s: %d used of %d allocatable", name, used, there))
		}
	}
	slices.Sort(wrong)
	return wrong
}

// room tells whether the pod would fit beside those that are there.
func (n *node) room(p *pod) bool {
	for name, wanted := range p.demand {
		if wanted > 0 && n.used[name]+wanted > n.allocatable[name] {
			return false
		}
	}
	return len(n.conflicts(p)) == 0
}

// admits tells why the node may not have the pod whatever room it has; empty: it may.
func (n *node) admits(p *v1.Pod) string {
	if n.object == nil {
		return "it is not there"
	}
	if n.object.Spec.Unschedulable && !toleratesUnschedulable(p) {
		return "it is unschedulable"
	}
	admitted := func(t *v1.Taint) bool {
		return t.Effect == v1.TaintEffectNoSchedule || t.Effect == v1.TaintEffectNoExecute
	}
	if t, found := schedcorev1.FindMatchingUntoleratedTaint(klog.Background(), n.object.Spec.Taints, p.Spec.Tolerations, admitted,
		false); found {
		return fmt.Sprintf("its taint %s is not tolerated", t.ToString())
	}
	match, err := nodeaffinity.GetRequiredNodeAffinity(p).Match(n.object)
	switch {
	case err != nil:
		return fmt.Sprintf("the pod's node affinity can't be read: %v", err)
	case !match:
		return "the pod's node selector or affinity refuses it"
	}
	return ""
}

func toleratesUnschedulable(p *v1.Pod) bool {
	taint := v1.Taint{Key: v1.TaintNodeUnschedulable, Effect: v1.TaintEffectNoSchedule}
	return schedcorev1.TolerationsTolerateTaint(klog.Background(), p.Spec.Tolerations, &taint, false)
}
