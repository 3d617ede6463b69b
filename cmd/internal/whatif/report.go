package whatif

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	resourcehelper "k8s.io/component-helpers/resource"

	"github.com/shardsched/shardsched/coordinator/objects"
)

// Report is what a change has come to. Its JSON is a stable surface: fields are only ever added.
type Report struct {
	// Placed: all of the change has a place. False: something of it or of what it takes off nodes pends, a rollout is stuck, or a node is
	// not empty.
	Placed bool `json:"placed"`
	// Change are the workloads that the change names, and those that it takes off nodes.
	Change []Workload `json:"change"`
	// Others are those that gain, lose or move pods because of it.
	Others []Workload `json:"others,omitempty"`
	// Preempted are the pods that had to leave for others.
	Preempted []Preempted `json:"preempted,omitempty"`
	// Budgets are those that the change breaks.
	Budgets []Budget `json:"budgets,omitempty"`
	Drains  []Drain  `json:"drains,omitempty"`
	// StillPending are workloads that the change leaves as they are, and whose pods were pending before, most pods first.
	StillPending []StillPending `json:"stillPending,omitempty"`
	// Nodes are how many there are, and Room what of them is asked for.
	Nodes Pair     `json:"nodes"`
	Room  []Room   `json:"room"`
	Notes []string `json:"notes,omitempty"`
	// Diff is what sets this run apart from another, where it was compared with one.
	Diff *Diff `json:"diff,omitempty"`
	// Explanation is of one pod, as `shardsched explain -o json` writes it, where it was asked for.
	Explanation json.RawMessage `json:"explanation,omitempty"`
}

// Pair is a number before and after.
type Pair struct {
	Before int `json:"before"`
	After  int `json:"after"`
}

// Workload is what becomes of one.
type Workload struct {
	Key
	// What the change does to it: new, scaled, new template, "scaled, new template", renumbered, deleted, evicted, unchanged; empty:
	// nothing.
	What string `json:"what,omitempty"`
	// Wanted are its replicas, Placed those with a node, Pending those without.
	Wanted  Pair `json:"wanted"`
	Placed  Pair `json:"placed"`
	Pending Pair `json:"pending"`
	// OnNodes is how many nodes the placed ones are on, Zones how many of them each zone has.
	OnNodes int            `json:"onNodes"`
	Zones   map[string]int `json:"zones,omitempty"`
	// Reasons are why pods pend, most pods first.
	Reasons []Reason `json:"reasons,omitempty"`
	Rollout *Rollout `json:"rollout,omitempty"`
	// Waits is why the controller makes no other pod.
	Waits string `json:"waits,omitempty"`
	// Pods are those that were there before or are there now, by name.
	Pods []Pod `json:"pods,omitempty"`
}

// Reason is why so many pods find no node.
type Reason struct {
	Pods int    `json:"pods"`
	Why  string `json:"why"`
	// Help is what would help; empty: not known.
	Help string `json:"help,omitempty"`
}

// Rollout is how far a workload's pods are of its newest template.
type Rollout struct {
	// Steps are how many times pods were made or deleted for it.
	Steps int `json:"steps"`
	// Updated pods are of the new template and placed, Old ones are of another.
	Updated int `json:"updated"`
	Old     int `json:"old"`
	// Complete: no old pods are left, and all new ones are placed. Otherwise Stuck says why it goes no further.
	Complete bool   `json:"complete"`
	Stuck    string `json:"stuck,omitempty"`
	Note     string `json:"note,omitempty"`
}

// Pod is one pod's way. Without Was it was pending or not there, without Node it pends or is gone.
type Pod struct {
	Name string `json:"name"`
	Was  string `json:"was,omitempty"`
	Node string `json:"node,omitempty"`
	Zone string `json:"zone,omitempty"`
	// New: it was not there before. Gone: it is not there any more.
	New  bool `json:"new,omitempty"`
	Gone bool `json:"gone,omitempty"`
	// Why it pends.
	Why string `json:"why,omitempty"`
}

// Preempted are pods of one workload that had to leave for pods of another.
type Preempted struct {
	Key
	Pods     []string `json:"pods"`
	Priority int32    `json:"priority"`
	By       []string `json:"by"`
	// PlacedAgain are the pods that their workload has made instead and that found a node; Pending those that did not.
	PlacedAgain int `json:"placedAgain"`
	Pending     int `json:"pending"`
	// Why nobody makes them again, where it is known.
	Why string `json:"why,omitempty"`
}

// Budget is a PodDisruptionBudget that has fewer healthy pods than it asks for.
type Budget struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Desired is how many have to be healthy; Before were, Lowest were at the worst moment, After are in the end.
	Desired int `json:"desired"`
	Before  int `json:"before"`
	Lowest  int `json:"lowest"`
	After   int `json:"after"`
}

// StillPending is a workload with pods that were pending and are.
type StillPending struct {
	Key
	Pods    int      `json:"pods"`
	Reasons []Reason `json:"reasons,omitempty"`
}

// Room is how much of a resource is asked for, and the most of it that one node has left.
type Room struct {
	Resource string `json:"resource"`
	// Share is what is requested of all that nodes have, 0 to 1.
	ShareBefore float64 `json:"shareBefore"`
	ShareAfter  float64 `json:"shareAfter"`
	// Largest is the largest free slot, as Kubernetes writes quantities.
	LargestBefore string `json:"largestBefore"`
	LargestAfter  string `json:"largestAfter"`
}

// mark is a moment.
type mark struct {
	nodes   int
	places  map[*pod]place
	wanted  map[Key]int
	room    map[v1.ResourceName]room
	budgets map[objects.Ref]int // healthy pods
}

type place struct{ node, message string }

type room struct{ requested, allocatable, largest resource.Quantity }

// Mark has the report compare with now.
func (c *Cluster) Mark() {
	c.before = c.mark()
	c.preempted, c.broken = nil, map[objects.Ref]int{}
	placed := 0
	for _, p := range c.names {
		if p.obj.Spec.NodeName == "" && p.node != "" && p.number < c.there {
			placed++
		}
	}
	if made := c.made - c.there; made > 0 {
		c.notes = append(c.notes, fmt.Sprintf("before the change, the cluster's own workloads made %s that they lack", plural(made, "pod")))
	}
	if placed > 0 {
		c.notes = append(c.notes, fmt.Sprintf("before the change, %s of the cluster found a node", plural(placed, "pending pod")))
	}
}

func (c *Cluster) mark() *mark {
	m := &mark{nodes: len(c.nodes), places: map[*pod]place{}, wanted: map[Key]int{}, budgets: map[objects.Ref]int{}, room: c.room()}
	for _, p := range c.names {
		m.places[p] = place{p.node, p.message}
	}
	for key := range c.workloads {
		m.wanted[c.top(key)] += c.workloads[key].wants(c)
	}
	for _, p := range c.names {
		if p.owner.Kind == "Pod" {
			m.wanted[p.owner] = 1
		}
	}
	for b, s := range c.standings("") {
		m.budgets[b.ref] = s.healthy
	}
	return m
}

// room adds up what pods ask for.
func (c *Cluster) room() map[v1.ResourceName]room {
	used := map[string]v1.ResourceList{}
	for _, p := range c.names {
		if c.nodes[p.node] == nil {
			continue
		}
		if used[p.node] == nil {
			used[p.node] = v1.ResourceList{}
		}
		requests := resourcehelper.PodRequests(p.obj, resourcehelper.PodResourcesOptions{})
		requests[v1.ResourcePods] = *resource.NewQuantity(1, resource.DecimalSI)
		for name, q := range requests {
			sum := used[p.node][name]
			sum.Add(q)
			used[p.node][name] = sum
		}
	}
	all := map[v1.ResourceName]room{}
	for _, n := range c.nodes {
		for name, q := range n.Status.Allocatable {
			r := all[name]
			r.allocatable.Add(q)
			taken := used[n.Name][name]
			r.requested.Add(taken)
			free := q.DeepCopy()
			if free.Sub(taken); !n.Spec.Unschedulable && free.Cmp(r.largest) > 0 {
				r.largest = free
			}
			all[name] = r
		}
	}
	return all
}

// counted are the resources that a report tells of: CPU, memory, and extended ones that somebody asks for.
func counted(name v1.ResourceName, before, after room) bool {
	switch {
	case name == v1.ResourceCPU, name == v1.ResourceMemory:
		return true
	case name == v1.ResourcePods, name == v1.ResourceEphemeralStorage, strings.HasPrefix(string(name), v1.ResourceHugePagesPrefix),
		strings.HasPrefix(string(name), v1.ResourceAttachableVolumesPrefix):
		return false
	}
	return !before.requested.IsZero() || !after.requested.IsZero()
}

// Report compares what is now with what was at Mark.
func (c *Cluster) Report() *Report {
	after := c.mark()
	r := &Report{Placed: true, Change: []Workload{}, Room: []Room{}, Notes: slices.Clone(c.notes)}
	r.Nodes = Pair{c.before.nodes, after.nodes}
	byTop := map[Key][]*pod{}
	affected := map[Key]bool{}
	for _, p := range c.pods {
		was, wasThere := c.before.places[p]
		now, isThere := after.places[p]
		if !wasThere && !isThere {
			continue
		}
		key := c.top(p.owner)
		byTop[key] = append(byTop[key], p)
		if wasThere != isThere || was.node != now.node {
			affected[key] = true
		}
	}
	for key := range c.change.mine {
		affected[key] = true
	}
	for _, key := range slices.SortedFunc(maps.Keys(affected), compareKeys) {
		w := c.workload(key, byTop[key], after)
		if c.change.mine[key] == "" {
			r.Others = append(r.Others, w)
			r.Placed = r.Placed && !w.loses()
			continue
		}
		r.Change = append(r.Change, w)
		if w.What != isDeleted && (w.Pending.After > 0 || w.Placed.After < w.Wanted.After || w.Rollout != nil && !w.Rollout.Complete) {
			r.Placed = false
		}
	}
	r.Notes = append(r.Notes, c.autoscaled(after)...)
	for _, d := range c.drains {
		x := d.report()
		r.Placed = r.Placed && len(x.Left) == 0
		r.Drains = append(r.Drains, x)
	}
	r.Preempted = c.preemptions()
	for _, key := range slices.SortedFunc(maps.Keys(byTop), compareKeys) {
		if affected[key] {
			continue
		}
		if reasons, n := c.reasonsOf(key, byTop[key]); n > 0 {
			r.StillPending = append(r.StillPending, StillPending{key, n, reasons})
		}
	}
	slices.SortStableFunc(r.StillPending, func(a, b StillPending) int { return cmp.Compare(b.Pods, a.Pods) })
	r.Budgets = c.brokenBudgets()
	for _, name := range slices.Sorted(maps.Keys(merged(c.before.room, after.room))) {
		was, now := c.before.room[name], after.room[name]
		if counted(name, was, now) {
			r.Room = append(r.Room, Room{string(name), was.share(), now.share(), was.largest.String(), now.largest.String()})
		}
	}
	return r
}

// autoscaled tells of workloads of the change whose replicas an autoscaler sets.
func (c *Cluster) autoscaled(after *mark) (notes []string) {
	for _, a := range c.scalers {
		switch c.change.mine[a.Of] {
		case "", isDeleted, isEvicted:
			continue
		}
		notes = append(notes, fmt.Sprintf("HorizontalPodAutoscaler %s sets the replicas of %s, %d to %d; here they are %d, and stay so",
			a.Name, a.Of, a.Min, a.Max, after.wanted[a.Of]))
	}
	return notes
}

func merged(a, b map[v1.ResourceName]room) map[v1.ResourceName]room {
	all := maps.Clone(a)
	maps.Copy(all, b)
	return all
}

func (r room) share() float64 {
	if r.allocatable.IsZero() {
		return 0
	}
	return r.requested.AsApproximateFloat64() / r.allocatable.AsApproximateFloat64()
}

// workload tells what has become of one, by its pods of before and now.
func (c *Cluster) workload(key Key, pods []*pod, after *mark) Workload {
	w := Workload{Key: key, What: c.change.mine[key], Wanted: Pair{c.before.wanted[key], after.wanted[key]}}
	nodes := map[string]bool{}
	slices.SortFunc(pods, func(a, b *pod) int {
		return cmp.Or(cmp.Compare(a.obj.Name, b.obj.Name), cmp.Compare(a.number, b.number))
	})
	for _, p := range pods {
		was, wasThere := c.before.places[p]
		now, isThere := after.places[p]
		x := Pod{Name: p.obj.Name, Was: was.node, Node: now.node, New: !wasThere, Gone: !isThere}
		switch {
		case was.node != "":
			w.Placed.Before++
		case wasThere:
			w.Pending.Before++
		}
		switch {
		case now.node != "":
			w.Placed.After++
			nodes[now.node] = true
			if n := c.nodes[now.node]; n != nil {
				x.Zone = n.Labels[v1.LabelTopologyZone]
			}
			if w.Zones == nil {
				w.Zones = map[string]int{}
			}
			w.Zones[x.Zone]++
		case isThere:
			w.Pending.After++
			x.Why = c.why(p)
		}
		w.Pods = append(w.Pods, x)
	}
	if len(w.Zones) == 1 && w.Zones[""] > 0 {
		w.Zones = nil
	}
	w.OnNodes = len(nodes)
	w.Reasons, _ = c.reasonsOf(key, pods)
	if x := c.workloads[key]; x != nil && c.change.mine[key] != "" {
		w.Rollout = x.rollout(c)
		w.Waits = waits(x)
	}
	for _, p := range pods {
		w.Waits = cmp.Or(w.Waits, waits(c.workloads[p.owner])) // a CronJob's Job
	}
	return w
}

// waits is why a controller makes no other pod; empty: nothing keeps it from making one.
func waits(x controller) string {
	switch x := x.(type) {
	case *statefulSet:
		return x.waits
	case *deployment:
		if x.object.Spec.Paused {
			return isPaused
		}
	case *job:
		return x.failed
	}
	return ""
}

// loses tells whether pods pend that did not before.
func (w *Workload) loses() bool { return w.Pending.After > w.Pending.Before }

// Reword takes in, in words, why so many pods of an owner pend, and what would help. It is for the report that follows.
func (c *Cluster) Reword(owner Key, r Reason) {
	c.words[c.top(owner)] = append(c.words[c.top(owner)], r)
}

// reasonsOf counts why pods of a workload pend, and the pods: in words, where those are known of all of them.
func (c *Cluster) reasonsOf(key Key, pods []*pod) (reasons []Reason, n int) {
	count := map[Reason]int{}
	for _, p := range pods {
		if !p.gone && p.node == "" {
			count[Reason{Why: c.why(p)}]++
			n++
		}
	}
	worded := map[Reason]int{}
	for _, r := range c.words[key] {
		worded[Reason{Why: r.Why, Help: r.Help}] += r.Pods
		n -= r.Pods
	}
	if n == 0 {
		count = worded
	}
	n = 0
	for r, pods := range count {
		r.Pods = pods
		reasons = append(reasons, r)
		n += pods
	}
	slices.SortFunc(reasons, func(a, b Reason) int { return cmp.Or(cmp.Compare(b.Pods, a.Pods), cmp.Compare(a.Why, b.Why)) })
	return reasons, n
}

// boilerplate are the parts of a FitError that tell nothing.
var boilerplate = regexp.MustCompile(`^\d+/\d+ nodes are available: |,? ?no new claims to deallocate,?| preemption: .*$`)

// why tells why a pod pends.
func (c *Cluster) why(p *pod) string {
	if p.message != "" {
		return plain(p.message)
	}
	if name := p.obj.Spec.SchedulerName; !slices.Contains(c.served, name) {
		return fmt.Sprintf("its schedulerName is %s, and no profile of the scheduler has that name", name)
	}
	if gates := p.obj.Spec.SchedulingGates; len(gates) > 0 {
		return fmt.Sprintf("it has the scheduling gate %s, which whoever set it removes", gates[0].Name)
	}
	if words := c.words[c.top(p.owner)]; len(words) == 1 {
		return words[0].Why
	}
	return "the scheduler has not tried it"
}

// plain is a scheduler's message without what is the same in every one.
func plain(message string) string {
	if text := strings.TrimSuffix(strings.TrimSpace(boilerplate.ReplaceAllString(message, "")), "."); text != "" {
		return text
	}
	return "nodes are refused without a reason"
}

// preemptions adds up who had to leave, by workload.
func (c *Cluster) preemptions() (all []Preempted) {
	byKey := map[Key]*Preempted{}
	for _, x := range c.preempted {
		key := c.top(x.victim.owner)
		w := byKey[key]
		if w == nil {
			w = &Preempted{Key: key, Priority: or(x.victim.obj.Spec.Priority, 0), Why: waits(c.workloads[x.victim.owner])}
			byKey[key] = w
		}
		w.Pods = append(w.Pods, x.victim.obj.Name)
		if by := c.top(x.by).String(); !slices.Contains(w.By, by) {
			w.By = append(w.By, by)
		}
	}
	for _, key := range slices.SortedFunc(maps.Keys(byKey), compareKeys) {
		w := byKey[key]
		for _, p := range c.names {
			if _, before := c.before.places[p]; before || c.top(p.owner) != key {
				continue
			}
			if p.node != "" {
				w.PlacedAgain++
			} else {
				w.Pending++
			}
		}
		slices.Sort(w.Pods)
		slices.Sort(w.By)
		all = append(all, *w)
	}
	return all
}

// brokenBudgets are those that have too few healthy pods, or had for a moment, and fewer than before.
func (c *Cluster) brokenBudgets() (broken []Budget) {
	for b, s := range c.standings("") {
		if s.pods == 0 {
			continue // all its pods are gone, as somebody asked
		}
		now, desired := s.healthy, s.desired
		before, known := c.before.budgets[b.ref]
		lowest, was := c.broken[b.ref]
		if !was || lowest > now {
			lowest = now
		}
		if lowest < desired && known && lowest < before {
			broken = append(broken, Budget{b.ref.Namespace, b.ref.Name, desired, before, lowest, now})
		}
	}
	slices.SortFunc(broken, func(a, b Budget) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return broken
}
