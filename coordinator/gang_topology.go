package coordinator

import (
	"context"
	"fmt"
	"math"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/shardsched/shardsched/coordinator/answers"
	"github.com/shardsched/shardsched/coordinator/choice"
	"github.com/shardsched/shardsched/coordinator/groups"
	"github.com/shardsched/shardsched/coordinator/placement"
	"github.com/shardsched/shardsched/coordinator/rules"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// A pod group that names topology keys is placed in the domains of these keys. How many members each domain takes is known before any
// is tried, if the members are alike: then one try is enough.
//
//	no key ────────────────────────────────────────────────────> one try, anywhere
//	keys ─ tree of domains ─ the domain of scheduled members
//	   ├─ members alike: copies by domain ─ package placement ──> one try, where it says
//	   └─ others: a bound by domain ─ a try in each that may take enough, and undo ─ package placement ──> one more try, in the best
//
// Differs from upstream: if no domain takes enough members, their refusals are those of the domain that takes the most. Upstream tells
// those of the first that it has tried, in no order. PostFilter plugins are asked in that domain only.

// topology is a pod group's question about domains.
type topology struct {
	s        *Scheduler
	group    *groups.Group
	attempts []attempt
	asks     groups.Asks
	// required is the key of the domains of which one has to take the pod group; "": it has none.
	required string
	keys     []string // of the tree
	tree     *placement.Tree
	question placement.Question
	// simulated is what is known of members that are not alike, by steps of this attempt and others before.
	simulated *simulation
	steps     steps
	// scored are the resources that are scored.
	scored []scoredSums
	list   []placement.Resource // scratch
}

// scoredSums are what the domains of the required key have of a resource.
type scoredSums struct {
	resource string
	weight   int64
	of       func(value string) (allocatable, requested int64)
}

// placeInTopology is the outcome of the tries that a pod group gets where the gate of topology is on.
func (s *Scheduler) placeInTopology(ctx context.Context, g *groups.Group, attempts []attempt) *gangOutcome {
	t := s.topologyOf(g, attempts)
	if g.Spec() == nil && attempts[0].Profile.PodGroups().Proposes {
		return t.fails(missing(g))
	}
	if len(t.keys) == 0 {
		return t.words(s.tryGang(ctx, g, attempts, asked), 1)
	}
	o := s.newOutcome(g, attempts)
	for i := range o.members { // copies are those of classes as of now
		if !o.ready(&o.members[i]) {
			return o
		}
	}
	if err := t.prepare(); err != nil {
		return t.fails(err)
	}
	if t.placements() == 0 {
		o := t.leaveOut(t.untried(), attempts, placement.NoPlacements, rules.TopologyPlacementGenerator)
		o.status, o.waits = placement.NoPlacements, labelled(t.required)
		return o
	}
	alike, err := t.alike(ctx)
	switch {
	case err != nil:
		o.broken = err
		return o
	case alike == "":
		return t.placeAlike(ctx)
	case t.question.SliceSize > 0:
		return t.fails(fmt.Errorf("slices need pods that are alike: %s", alike))
	}
	return t.simulate(ctx)
}

// topologyOf is what a pod group asks.
func (s *Scheduler) topologyOf(g *groups.Group, attempts []attempt) *topology {
	t := &topology{s: s, group: g, attempts: attempts}
	spec := g.Spec()
	if spec == nil {
		return t
	}
	t.asks = spec.Asks
	if attempts[0].Profile.PodGroups().Proposes {
		t.required = spec.TopologyKey
	}
	for _, key := range slices.Concat(t.asks.Preferred, []string{t.required, t.asks.SliceKey}) {
		if key != "" && !slices.Contains(t.keys, key) {
			t.keys = append(t.keys, key)
		}
	}
	return t
}

// labelled is what a pod group waits for where no node has a label.
func labelled(key string) string { return "a node with the label " + key }

// fails is the outcome of an error of the pod group.
func (t *topology) fails(err error) *gangOutcome {
	o := t.s.newOutcome(t.group, t.attempts)
	o.err, o.code = err, gangFailed
	return o
}

// prepare makes the tree, and the question but for copies. An error is the status of the pod group.
func (t *topology) prepare() (err error) {
	if t.tree, err = t.s.domains.Tree(t.keys); err != nil {
		return err
	}
	plugins := t.attempts[0].Profile.PodGroups()
	t.question = placement.Question{
		Members: int64(len(t.attempts)), Need: int64(needOf(t.group, t.attempts)), Scheduled: int64(t.group.Scheduled()),
		Required: t.tree.Anywhere(), Fit: t.fit, Weights: placement.Weights{PodsCount: plugins.PodsCount, Fit: plugins.Fit},
	}
	q := &t.question
	for _, key := range t.asks.Preferred {
		q.Preferred = append(q.Preferred, slices.Index(t.keys, key))
	}
	if t.asks.SliceKey != "" {
		q.Slice, q.SliceSize = slices.Index(t.keys, t.asks.SliceKey), int64(t.asks.SliceSize)
		q.Held = make([]int64, len(t.tree.Values(q.Slice)))
	}
	if t.required != "" {
		q.Required = slices.Index(t.keys, t.required)
		t.score()
	}
	return t.pin()
}

// pin reads where the scheduled members are.
func (t *topology) pin() error {
	q := &t.question
	var there []placement.Member
	var rows []cellOf
	for _, m := range t.group.Members() {
		if m.Node == "" {
			continue
		}
		row, known := t.s.state.RowOf(m.Node)
		label := func(key string) (string, bool) {
			if !known {
				return "", false
			}
			return t.s.state.Table(int(row.Shard)).Label(row.Index, key)
		}
		rows = append(rows, label)
		at := placement.Member{Pod: m.Pod.Namespace + "/" + m.Pod.Name}
		if at.Value, at.Labelled = label(t.required); !known {
			at.Node = m.Node
		}
		there = append(there, at)
	}
	if len(there) == 0 {
		return nil
	}
	if t.required != "" {
		value, err := placement.Pin(there)
		if err != nil {
			return err
		}
		d, _ := t.tree.Find(q.Required, value)
		q.Pinned = &d
	}
	for _, key := range q.Preferred {
		q.Near = append(q.Near, t.common(key, rows))
	}
	for _, label := range rows {
		if value, has := label(t.asks.SliceKey); has && q.SliceSize > 0 {
			if d, found := t.tree.Find(q.Slice, value); found {
				q.Held[d.At]++
			}
		}
	}
	return nil
}

// cellOf is the value of a node's label.
type cellOf func(key string) (value string, has bool)

// common is the domain of a key in which all of some nodes are; nil: they are not in one.
func (t *topology) common(key int, nodes []cellOf) *placement.Domain {
	var all *placement.Domain
	for _, label := range nodes {
		value, has := label(t.keys[key])
		d, found := t.tree.Find(key, value)
		if !has || !found || all != nil && *all != d {
			return nil
		}
		all = &d
	}
	return all
}

// placements is how many domains upstream would try.
func (t *topology) placements() int {
	if t.question.Pinned != nil {
		return 1
	}
	return len(t.tree.Values(t.question.Required))
}

// score prepares NodeResourcesFit's score of domains.
func (t *topology) score() {
	for _, r := range t.attempts[0].Profile.ScoredResources() {
		sums := t.s.domains.Sums(t.required, r.GetName())
		t.scored = append(t.scored, scoredSums{r.GetName(), r.GetWeight(), func(value string) (int64, int64) {
			sum := sums(value)
			return sum.Allocatable, sum.Requested
		}})
	}
}

// fit is NodeResourcesFit's score of a scope with so many more members that are all like the first.
func (t *topology) fit(scope placement.Domain, members int64) int64 {
	return t.fitOf(scope, func(resource string) int64 {
		return times(requestOf(t.attempts[0].Class.Usage, resource), members)
	})
}

// fitOf is NodeResourcesFit's score of a scope with pods that request so much of each resource.
func (t *topology) fitOf(scope placement.Domain, requests func(resource string) int64) int64 {
	t.list = t.list[:0]
	for i := range t.scored {
		r := &t.scored[i]
		more := requests(r.resource)
		if more == 0 && isScalar(r.resource) {
			continue
		}
		all, requested := r.of(t.tree.Value(scope))
		t.list = append(t.list, placement.Resource{Weight: r.weight, Allocatable: all, Requested: placement.Sum(requested, more)})
	}
	return placement.MostAllocated(t.list)
}

func isScalar(resource string) bool {
	switch v1.ResourceName(resource) {
	case v1.ResourceCPU, v1.ResourceMemory, v1.ResourceEphemeralStorage:
		return false
	}
	return true
}

// requestOf is what a pod requests of a resource, as NodeResourcesFit scores it on nodes.
//
// Differs from upstream: what a pod itself requests, beside its containers, counts for domains, too. Upstream overlooks it there.
func requestOf(u *pb.PodUsage, resource string) int64 {
	switch v1.ResourceName(resource) {
	case v1.ResourceCPU:
		return u.GetNonZeroMilliCpu()
	case v1.ResourceMemory:
		return u.GetNonZeroMemoryBytes()
	case v1.ResourceEphemeralStorage:
		return u.GetRequests().GetEphemeralStorageBytes()
	}
	for _, s := range u.GetRequests().GetScalars() {
		if s.GetName() == resource {
			return s.GetQuantity()
		}
	}
	return 0
}

// times is a product of what is not less than 0; it ends at the largest number.
func times(a, b int64) int64 {
	if a > 0 && b > math.MaxInt64/a {
		return math.MaxInt64
	}
	return a * b
}

// domain is a domain as the engine knows it.
func (t *topology) domain(d placement.Domain) answers.Domain {
	if d.Key == t.tree.Anywhere() || d.At < 0 {
		return answers.Domain{}
	}
	return answers.Domain{Key: t.keys[d.Key], Value: t.tree.Value(d)}
}

// words has an outcome speak of so many placements.
func (t *topology) words(o *gangOutcome, placements int) *gangOutcome {
	o.status = placement.NoneAvailable(placements, unschedulableGroup)
	return o
}

// untried is an outcome without members.
func (t *topology) untried() *gangOutcome {
	o := t.s.newOutcome(t.group, t.attempts)
	o.members = o.members[:0]
	return o
}

// leaveOut adds attempts to an outcome that are not tried, why, and by which plugins: what these wait for may help.
func (t *topology) leaveOut(o *gangOutcome, attempts []attempt, why string, by ...string) *gangOutcome {
	for i := range attempts {
		m := o.member(&attempts[i], len(o.members))
		m.end = &choice.Ending{Message: why, By: by}
		o.members = append(o.members, m)
	}
	return o
}
