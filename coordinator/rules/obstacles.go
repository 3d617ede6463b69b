package rules

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"github.com/shardsched/shardsched/coordinator/census"
	"github.com/shardsched/shardsched/coordinator/compile"
	"github.com/shardsched/shardsched/coordinator/queue"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// remedy is what helps against an obstacle: by itself, and in a few words beside others.
type remedy struct {
	against     census.Obstacles
	help, short string
}

func remedies() []remedy {
	return []remedy{
		{census.Cordoned, "kubectl uncordon", "kubectl uncordon"},
		{census.Tainted, "a toleration, or nodes without the taint", "a toleration"},
		{census.Unmatched, "label a node, or change the pod's selector or affinity", "another selector or affinity"},
		{census.Enforced, "label a node, or change the profile's addedAffinity", "another addedAffinity of the profile"},
		{census.Small, "larger nodes, or smaller requests", "smaller requests"},
	}
}

// help is what would help a pod on the nodes that an obstacle keeps it off. It has to help against all obstacles of such a node; of these
// nodes those count that have the fewest obstacles. "": nodes without this obstacle have fewer.
func (a *Asked) help(o census.Obstacles) string {
	all := o
	d := a.demand()
	if set, found := d.Fewest(o); found {
		if other, _ := d.Fewest(0); other.Len() < set.Len() && set != o {
			return ""
		}
		all = set
	}
	var words []string
	for _, r := range remedies() {
		switch {
		case all == r.against:
			return r.help
		case all&r.against != 0:
			words = append(words, r.short)
		}
	}
	return strings.Join(words, " and ")
}

// demand is what was counted of the nodes for the pod; nil: nothing was.
func (a *Asked) demand() *census.Demand {
	if a.Profile == nil {
		return nil
	}
	key, _, _ := demandOf(a.Pod, a.Profile)
	return a.Nodes.Demand(key)
}

// watchDemand has a census count what keeps a pod off nodes.
func watchDemand(c *census.Census, p *v1.Pod, prof *compile.Profile) {
	if key, list, parts := demandOf(p, prof); key != "" {
		c.WatchDemand(key, parts, list, obstacles(p, prof))
	}
}

// demandOf is what a pod requests, and a key that is the same for pods that nodes are counted for alike; "": its demand has more parts
// than are counted.
func demandOf(p *v1.Pod, prof *compile.Profile) (key string, list v1.ResourceList, parts int) {
	list = demanded(p, prof)
	if parts = len(list) + len(p.Spec.NodeSelector) + len(p.Spec.Tolerations) + termParts(requiredAffinity(p)); parts > census.MaxDemandParts {
		return "", nil, parts
	}
	var b strings.Builder
	b.WriteString(p.Spec.SchedulerName)
	for _, name := range slices.Sorted(maps.Keys(list)) {
		q := list[name]
		fmt.Fprintf(&b, ";%s=%s", name, q.String())
	}
	for _, key := range slices.Sorted(maps.Keys(p.Spec.NodeSelector)) {
		fmt.Fprintf(&b, ";%s:%s", key, p.Spec.NodeSelector[key])
	}
	if required := requiredAffinity(p); required != nil {
		b.WriteString(required.String())
	}
	for i := range p.Spec.Tolerations {
		b.WriteString(p.Spec.Tolerations[i].String())
	}
	return b.String(), list, parts
}

// termParts is how many parts required terms, which may be nil, have: each term and each requirement is one, and so many values are.
func termParts(required *v1.NodeSelector) (n int) {
	const valuesInPart = 64
	if required == nil {
		return 0
	}
	for i := range required.NodeSelectorTerms {
		t := &required.NodeSelectorTerms[i]
		n += 1 + len(t.MatchExpressions) + len(t.MatchFields)
		for _, list := range [][]v1.NodeSelectorRequirement{t.MatchExpressions, t.MatchFields} {
			for j := range list {
				n += len(list[j].Values) / valuesInPart
			}
		}
	}
	return n
}

// demanded is what a pod requests, as far as its profile looks at it.
func demanded(p *v1.Pod, prof *compile.Profile) v1.ResourceList {
	list := compile.Requests(p)
	fits := prof.FiltersBy(pb.Plugin_PLUGIN_NODE_RESOURCES_FIT)
	maps.DeleteFunc(list, func(name v1.ResourceName, _ resource.Quantity) bool {
		return !fits || prof.IgnoresResource(string(name))
	})
	return list
}

// obstacles tells what keeps a pod off a node, as the filters of its profile have it, but for the node's size.
func obstacles(p *v1.Pod, prof *compile.Profile) func(*v1.Node) census.Obstacles {
	uncordoned := !prof.FiltersBy(pb.Plugin_PLUGIN_NODE_UNSCHEDULABLE) || toleratesCordon(p)
	tolerates := !prof.FiltersBy(pb.Plugin_PLUGIN_TAINT_TOLERATION)
	matches := !prof.FiltersBy(pb.Plugin_PLUGIN_NODE_AFFINITY)
	required := nodeaffinity.GetRequiredNodeAffinity(p)
	return func(n *v1.Node) (o census.Obstacles) {
		cordoned := n.Spec.Unschedulable && !uncordoned
		if cordoned {
			o |= census.Cordoned
		}
		if !tolerates && slices.ContainsFunc(n.Spec.Taints, func(t v1.Taint) bool {
			return keepsOff(p, &t) && !(cordoned && t.Key == v1.TaintNodeUnschedulable) // this taint goes with the cordon
		}) {
			o |= census.Tainted
		}
		if matches {
			return o
		}
		if ok, _ := required.Match(n); !ok {
			o |= census.Unmatched
		}
		if added := prof.AddedAffinity(); added != nil && !added.Match(n) {
			o |= census.Enforced
		}
		return o
	}
}

// toleratesCordon tells whether a pod may be on cordoned nodes: it tolerates their taint.
func toleratesCordon(p *v1.Pod) bool {
	return queue.Tolerates(p, &v1.Taint{Key: v1.TaintNodeUnschedulable, Effect: v1.TaintEffectNoSchedule})
}
