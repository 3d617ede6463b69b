package whatif

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/shardsched/shardsched/cmd/internal/workload"
)

// daemonSet plays the DaemonSet controller (k8s.io/kubernetes/pkg/controller/daemon).
type daemonSet struct {
	key     Key
	object  *appsv1.DaemonSet
	daemons *workload.Daemons
	atOnce  bool
	steps   int // of the rollout
	rolled  bool
}

func (c *Cluster) newDaemonSet(obj *appsv1.DaemonSet) *daemonSet {
	d := &daemonSet{key: keyOf(obj), object: obj, daemons: workload.NewDaemons(obj)}
	c.workloads[d.key] = d
	return d
}

func (d *daemonSet) wants(c *Cluster) (n int) {
	for _, node := range c.nodes {
		if d.daemons.MayRun(node) {
			n++
		}
	}
	return n
}

func (d *daemonSet) lost(*Cluster, *pod) {}

func (d *daemonSet) sync(c *Cluster) bool {
	on := map[string][]*pod{}
	for _, p := range c.of(d.key) {
		node := cmp.Or(p.node, workload.TargetNode(p.obj))
		on[node] = append(on[node], p)
	}
	did := false
	var wanted []string
	for _, name := range slices.Sorted(maps.Keys(c.nodes)) {
		pods := on[name]
		switch n := c.nodes[name]; {
		case d.daemons.MayRun(n):
			wanted = append(wanted, name)
			if len(pods) == 0 {
				c.create(d.daemons.Pod(name, c.taken(d.key.Namespace)))
				did = true
			}
		case !d.mayStay(n):
			for _, p := range pods {
				c.remove(p)
				did = true
			}
		}
		delete(on, name)
	}
	for _, pods := range on { // of nodes that are gone
		for _, p := range pods {
			c.remove(p)
			did = true
		}
	}
	return did || d.roll(c, wanted)
}

// mayStay tells whether pods that are on a node may stay there: a taint NoSchedule keeps off new ones only.
func (d *daemonSet) mayStay(n *v1.Node) bool {
	bare := *n
	bare.Spec.Taints = slices.DeleteFunc(slices.Clone(n.Spec.Taints), func(t v1.Taint) bool { return t.Effect != v1.TaintEffectNoExecute })
	return d.daemons.MayRun(&bare)
}

// roll replaces pods of an old template, as far as maxUnavailable and maxSurge allow, in the order of their nodes' names.
func (d *daemonSet) roll(c *Cluster, wanted []string) bool {
	if d.onDelete() {
		return false
	}
	surge, most := d.bounds(len(wanted))
	if d.atOnce {
		surge, most = 0, len(wanted)
	}
	old, fresh := map[string]*pod{}, map[string]*pod{}
	for _, p := range c.of(d.key) {
		node := cmp.Or(p.node, workload.TargetNode(p.obj))
		if p.stale {
			old[node] = p
		} else {
			fresh[node] = p
		}
	}
	did := false
	if surge > 0 {
		for _, node := range wanted {
			if fresh[node] != nil && !fresh[node].ready {
				surge--
			}
		}
		for _, node := range wanted {
			switch {
			case old[node] == nil:
			case fresh[node] != nil && fresh[node].ready, !old[node].ready:
				c.remove(old[node])
				did = true
			case fresh[node] == nil && surge > 0:
				c.create(d.daemons.Pod(node, c.taken(d.key.Namespace)))
				surge--
				did = true
			}
		}
	} else {
		for _, node := range wanted {
			if o, f := old[node], fresh[node]; !(o != nil && o.ready) && !(f != nil && f.ready) {
				most--
			}
		}
		for _, node := range wanted {
			switch o := old[node]; {
			case o == nil:
			case !o.ready:
				c.remove(o)
				did = true
			case most > 0:
				c.remove(o)
				most--
				did = true
			}
		}
	}
	if did {
		d.steps++
	}
	return did
}

// onDelete tells whether pods keep an old template until somebody deletes them.
func (d *daemonSet) onDelete() bool {
	return d.object.Spec.UpdateStrategy.Type == appsv1.OnDeleteDaemonSetStrategyType && !d.atOnce
}

// bounds are maxSurge and maxUnavailable, both rounded up; one of them is 0.
func (d *daemonSet) bounds(nodes int) (surge, unavailable int) {
	one := intstr.FromInt32(1)
	r := d.object.Spec.UpdateStrategy.RollingUpdate
	if r == nil {
		return 0, 1
	}
	if r.MaxSurge != nil {
		surge = scaled(r.MaxSurge, nodes, true)
	}
	unavailable = scaled(orPointer(r.MaxUnavailable, &one), nodes, true)
	if surge == 0 && unavailable == 0 {
		unavailable = 1
	}
	return surge, unavailable
}

func (d *daemonSet) rollout(c *Cluster) *Rollout {
	if !d.rolled {
		return nil
	}
	x := &Rollout{Steps: d.steps}
	pending := 0
	for _, p := range c.of(d.key) {
		switch {
		case p.stale:
			x.Old++
		case p.ready:
			x.Updated++
		default:
			pending++
		}
	}
	x.Complete = x.Old == 0 && pending == 0
	switch {
	case x.Complete:
	case x.Old == 0:
		x.Stuck = notPlaced(pending)
	case d.onDelete():
		x.Stuck = "its update strategy is OnDelete: pods that are there keep the old template until somebody deletes them"
	default:
		surge, most := d.bounds(d.wants(c))
		x.Stuck = fmt.Sprintf("%s, and maxUnavailable %d lets no more old pods go (maxSurge %d)", notPlaced(pending), most, surge)
	}
	return x
}
