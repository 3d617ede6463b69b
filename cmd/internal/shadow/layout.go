package shadow

import (
	"maps"
	"math"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/shardsched/shardsched/coordinator/observe"
)

// layout is where the pods of one world are, and what that adds up to.
type layout struct {
	nodes map[string]*nodeUse
	// pending is how many pods of judged profiles wait, and waited for how long such pods did up to at, added up.
	pending int
	waited  time.Duration
	at      time.Time
	// preempted is how many pods had to leave for others.
	preempted int
}

// nodeUse is what the pods of a node take. It outlives the node while pods are there: another may come by its name.
type nodeUse struct {
	there    bool
	cordoned bool
	zone     string
	has      amounts
	used     amounts
	pods     map[*pod]struct{}
	// busy counts the pods for which a node is needed, which those of DaemonSets and static ones are not.
	busy int
}

func newLayout(now time.Time) *layout { return &layout{nodes: map[string]*nodeUse{}, at: now} }

// wait changes how many pods wait.
func (l *layout) wait(by int, now time.Time) {
	l.pass(now)
	l.pending += by
}

// pass takes in that time has gone by. A clock that went back adds nothing.
func (l *layout) pass(now time.Time) {
	if d := now.Sub(l.at); d > 0 {
		l.waited += time.Duration(l.pending) * d
		l.at = now
	}
}

func (l *layout) node(name string) *nodeUse {
	n := l.nodes[name]
	if n == nil {
		n = &nodeUse{pods: map[*pod]struct{}{}}
		l.nodes[name] = n
	}
	return n
}

func (l *layout) setNode(n *v1.Node, has amounts) {
	u := l.node(n.Name)
	u.there, u.cordoned, u.zone, u.has = true, n.Spec.Unschedulable, n.Labels[v1.LabelTopologyZone], has
}

func (l *layout) removeNode(name string) {
	if n := l.nodes[name]; n != nil {
		n.there = false
		l.tidy(name, n)
	}
}

func (l *layout) tidy(name string, n *nodeUse) {
	if !n.there && len(n.pods) == 0 {
		delete(l.nodes, name)
	}
}

// put puts a pod on a node; where that is "", nothing happens.
func (l *layout) put(p *pod, name string) {
	if name == "" {
		return
	}
	n := l.node(name)
	n.pods[p] = struct{}{}
	n.used.add(&p.needs, 1)
	if !p.daemon {
		n.busy++
	}
}

// take takes a pod off the node that it was put on.
func (l *layout) take(p *pod, name string) {
	n := l.nodes[name]
	if n == nil {
		return
	}
	if _, on := n.pods[p]; !on {
		return
	}
	delete(n.pods, p)
	n.used.add(&p.needs, -1)
	if !p.daemon {
		n.busy--
	}
	l.tidy(name, n)
}

// world adds all nodes up.
func (l *layout) world(r *resources, now time.Time) World {
	l.pass(now)
	w := World{Pending: l.pending, PendingMinutes: math.Round(100*l.waited.Minutes()) / 100, Preempted: l.preempted}
	var has, used, stranded, largest amounts
	zones := map[string]*[2]int64{}
	for _, n := range l.nodes {
		if !n.there {
			continue
		}
		if n.busy > 0 {
			w.NodesInUse++
		}
		gone := n.usedUp(r)
		for i, name := range r.names {
			left := max(n.has[i]-n.used[i], 0)
			has[i] += n.has[i]
			used[i] += n.used[i]
			if n.cordoned {
				continue // nothing of it is for pods
			}
			if largest[i] = max(largest[i], left); gone >= 0 && gone != i && observe.IsStranded(string(name), n.has[i], n.used[i]) {
				stranded[i] += left
			}
		}
		if n.zone != "" {
			z := zones[n.zone]
			if z == nil {
				z = &[2]int64{}
				zones[n.zone] = z
			}
			z[0] += n.used[atCPU]
			z[1] += n.has[atCPU]
		}
	}
	for i, name := range r.names {
		if has[i] > 0 {
			w.Resources = append(w.Resources, ResourceShare{Resource: string(name), Requested: share(used[i], has[i]),
				Stranded: share(stranded[i], has[i]), LargestFree: largest[i]})
		}
	}
	w.Skew = skew(slices.Collect(maps.Values(zones)))
	return w
}

// usedUp is the place of the resource that is used up, as the scheduler's own reads tell it; -1: none is.
func (n *nodeUse) usedUp(r *resources) int {
	for i, name := range r.names {
		if n.has[i] > 0 && observe.IsUsedUp(string(name), n.has[i], n.used[i]) {
			return i
		}
	}
	return -1
}

// skew is the share of the fullest zone less that of the emptiest.
func skew(zones []*[2]int64) float64 {
	low, high := math.Inf(1), math.Inf(-1)
	for _, z := range zones {
		if z[1] > 0 {
			low, high = min(low, share(z[0], z[1])), max(high, share(z[0], z[1]))
		}
	}
	if low > high {
		return 0
	}
	return math.Round(1e4*(high-low)) / 1e4
}

// share is in ten-thousandths, as nobody reads more of it.
func share(part, whole int64) float64 {
	if whole <= 0 {
		return 0
	}
	return math.Round(1e4*float64(part)/float64(whole)) / 1e4
}
