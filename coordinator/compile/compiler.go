package compile

import (
	"bytes"
	"fmt"
	"hash/maphash"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/shardsched/shardsched/coordinator/count"
	"github.com/shardsched/shardsched/internal/lru"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
	"github.com/shardsched/shardsched/scorer"
	devices "github.com/shardsched/shardsched/scorer/devices/selector"
	"github.com/shardsched/shardsched/scorer/expression"
)

// keptPlans is how many plans a compiler keeps: more than a cluster has workloads that
// are scaled at the same time. A plan may have several classes.
const (
	keptPlans   = 8192
	keptClasses = 2 * keptPlans
	// keptQueries is how many queries are kept for pods that have claims of their own, each of
	// so many bytes at the most.
	keptQueries  = 2048
	maxKeptQuery = 8 << 10
)

// A pod's text makes what is kept of it large, so that has bounds in bytes too. They are
// far above what so many plans and classes of ordinary pods take.
const (
	planBudget    = 64 << 20
	outlineBudget = 32 << 20
	classBudget   = 128 << 20
	specBudget    = 32 << 20
	queryBudget   = 32 << 20
)

const (
	// maxKeptText is how long a signature or a query may be that is kept. Pods in use have a few hundred bytes, and
	// whoever has more takes longer to decide than to compile.
	maxKeptText = 64 << 10
	// keptPeriods is for how many calls of Age a plan or class is kept that no pod asks for: pods that wait are tried
	// again meanwhile. agedAtOnce is how many are dropped in a call.
	keptPeriods, agedAtOnce = 12, 1024
	// maxOriginalScalars is how many resources beside cpu and memory an original may list. Pods in use list one or two.
	maxOriginalScalars = 8
)

// planBytes is about what a plan or an outline takes whose signature has that many bytes.
func planBytes(signature []byte) int64 {
	const plan, text = 4 << 10, 8 // a value of ten bytes takes some eighty, with its place in lists and sets
	return plan + text*int64(len(signature))
}

// Compiler compiles pods to classes and keeps those of late. It is owned by one
// goroutine.
type Compiler struct {
	plans    *lru.Cache[planKey, *keptPlan]
	outlines *lru.Cache[planKey, *keptOutline]
	classes  *lru.Cache[classKey, *keptClass]
	// specs are the plans of pods that have claims, each often of its own: what the pods of a
	// workload have in common. queries are what such pods have led to.
	specs   *lru.Cache[planKey, *keptSpec]
	queries *lru.Cache[uint64, *scorer.Class]
	// bases are what classes have in common that differ in selectors.
	bases *lru.Cache[uint64, *Class]

	// period counts the calls of Age.
	period uint64

	identities identities
	// hash finds signatures and settings, which are then compared. It is seeded, so that nobody can
	// make pods push each other out.
	hash      func([]byte) uint64
	signature signature
	setting   setting
	// expressions are those that were compiled of late.
	expressions expression.Templates
	// selectors compiles those of devices.
	selectors *devices.Compiler
	// volumes are the node affinities of the cluster's volumes.
	volumes *affinities
}

// planKey finds a plan: the hash of a signature under a profile.
type planKey struct {
	hash    uint64
	profile *Profile
}

// keptPlan is a plan with the class that it was last asked for.
type keptPlan struct {
	signature []byte // guards against equal hashes; nil: the plan is not kept
	plan      *plan
	outline   *keptOutline // nil: no other plan shares the plan's outline
	recent    *keptClass
	// mounts is what the pod's volumes are at the moment; its revision counts how often that
	// was found out.
	mounts   *mounts
	revision uint64
}

// keptOutline is an outline with the class of it that was last compiled from scratch: the original of which the others are variants.
type keptOutline struct {
	signature []byte
	outline   *outline
	original  *keptClass // nil: none that may have variants is kept
	rest      digest     // of the original's query
}

// keptSpec is a plan whatever the pod's volumes are.
type keptSpec struct {
	signature []byte
	plan      *plan
}

// classKey finds a class of a plan: the hash of a setting.
type classKey struct {
	plan *keptPlan
	hash uint64
}

// keptClass is a class with what to check before it is used again.
type keptClass struct {
	setting  []byte
	class    *Class
	counters []uint32
	registry *count.Registry
	version  uint64
	// period is the last one in which a pod was of the class.
	period uint64
}

// New makes a compiler.
func New() *Compiler {
	seed := maphash.MakeSeed()
	return &Compiler{
		selectors:  devices.NewCompiler(),
		plans:      lru.New[planKey, *keptPlan](keptPlans, planBudget, nil),
		outlines:   lru.New[planKey, *keptOutline](keptPlans, outlineBudget, nil),
		classes:    lru.New(keptClasses, classBudget, forget),
		specs:      lru.New[planKey, *keptSpec](keptPlans, specBudget, nil),
		queries:    lru.New[uint64, *scorer.Class](keptQueries, queryBudget, nil),
		bases:      lru.New[uint64, *Class](keptQueries, queryBudget, nil),
		identities: newIdentities(),
		hash:       func(b []byte) uint64 { return maphash.Bytes(seed, b) },
		volumes:    newAffinities(),
	}
}

// Age is called every few seconds, and drops what no pod was compiled to for long: pods that are gone leave nothing.
func (c *Compiler) Age() {
	c.period++
	for _, kept := range []interface {
		Age(periods uint64, most int)
	}{c.plans, c.outlines, c.classes, c.specs, c.queries, c.bases} {
		kept.Age(keptPeriods, agedAtOnce)
	}
}

// Kept tells whether anything is left to drop.
func (c *Compiler) Kept() bool {
	return c.plans.Len()+c.outlines.Len()+c.classes.Len()+c.specs.Len()+c.queries.Len()+c.bases.Len() > 0
}

// forget has a plan and its outline not name a class that is kept no longer.
func forget(key classKey, k *keptClass) {
	if key.plan.recent == k {
		key.plan.recent = nil
	}
	if o := key.plan.outline; o != nil && o.original == k {
		o.original = nil
	}
}

// Class gives the class of a pod. Why the pod fits nowhere is in the class; the error is
// upstream's of a PreFilter or Filter, worded as upstream's, or a broken invariant of
// ours. The terms of the pods that may be placed before this one must be carried (count.Registry).
func (c *Compiler) Class(p *v1.Pod, prof *Profile, w ClusterState) (*Class, error) {
	e := c.plan(p, prof, w)
	c.setting.take(e, p, w)
	if e.mounts.isVolatile() || e.signature == nil || c.setting.claims.isRefused() {
		class, err := c.make(e, p)
		if err != nil {
			return nil, err
		}
		return class, class.failure
	}
	if k := e.recent; k != nil && bytes.Equal(k.setting, c.setting.bytes) && k.fresh(w.Counters()) {
		if k.period != c.period {
			k.period = c.period
			c.classes.Get(classKey{plan: e, hash: c.hash(k.setting)}) // it is in use
		}
		return k.class, k.class.failure
	}
	key := classKey{plan: e, hash: c.hash(c.setting.bytes)}
	k, ok := c.classes.Get(key)
	if !ok || !bytes.Equal(k.setting, c.setting.bytes) || !k.fresh(w.Counters()) {
		class, err := c.make(e, p)
		if err != nil {
			return nil, err
		}
		k = &keptClass{slices.Clone(c.setting.bytes), class, class.counters(), w.Counters(), w.Counters().Version(), c.period}
		c.classes.Add(key, k, int64(len(k.setting))+class.bytes())
		if err := c.share(e, k); err != nil {
			return nil, err
		}
	}
	e.recent = k
	return k.class, k.class.failure
}

// make makes a class of a plan and the setting.
func (c *Compiler) make(e *keptPlan, p *v1.Pod) (*Class, error) {
	if class, err := c.variant(e); class != nil || err != nil {
		return class, err
	}
	class, err := e.plan.class(&c.setting, c.ready)
	if err == nil && class.Scorer != nil && class.Scorer.HasGroups() && !class.Volatile {
		class.Base, err = c.base(class.Query)
	}
	if err != nil {
		return nil, fmt.Errorf("compile pod %s/%s: %w", p.Namespace, p.Name, err)
	}
	return class, nil
}

// share has the variants of an outline made of a class that is kept. Not of one that lists many resources: each variant would be held to
// take as much.
func (c *Compiler) share(e *keptPlan, k *keptClass) (err error) {
	ready := k.class.Scorer
	switch {
	case e.outline == nil || ready == nil, ready.Original() != nil || ready.HasGroups(),
		len(ready.Query().GetFit().GetRequests().GetScalars()) > maxOriginalScalars:
		return nil
	}
	e.outline.original = k
	e.outline.rest, _, err = c.identities.rest(k.class.Query, asAsked)
	return err
}

// variant makes the class of a plan and the setting as a variant of the outline's original; nil: it can not be one.
func (c *Compiler) variant(e *keptPlan) (*Class, error) {
	k := e.outline
	if k == nil || k.original == nil {
		return nil, nil
	}
	original := k.original.class
	if c.setting.claims.isAny() || // that claims are refused is no part of a setting's bytes
		!bytes.Equal(k.original.setting, c.setting.bytes) || !original.Query.CanVary(e.plan.fit, e.plan.balanced) {
		return nil, nil
	}
	q := original.Query.With(e.plan.fit, e.plan.balanced)
	if _, err := c.identities.number(q, k.rest); err != nil {
		return nil, err
	}
	class := &Class{Query: original.Query, Scorer: original.Scorer, Usage: e.plan.usage, ScoreError: original.ScoreError,
		Matched: original.Matched}
	if q.ClassId != original.ID() { // what pods request in other ways may come to the same
		class.Query, class.Scorer = q, original.Scorer.Vary(q)
	}
	return class, nil
}

// base finds or makes the class of a query without what it counts.
func (c *Compiler) base(q *pb.Query) (*Class, error) {
	b := scorer.BaseQuery(q)
	size, err := c.identities.identify(b, asBase)
	if err != nil {
		return nil, err
	}
	if kept, ok := c.bases.Get(b.ClassId); ok {
		return kept, nil
	}
	ready, err := scorer.NewClassWith(b, &c.expressions, c.selectors)
	if err != nil {
		return nil, err
	}
	class := &Class{Query: b, Scorer: ready}
	if size <= maxKeptText {
		c.bases.Add(b.ClassId, class, class.bytes())
	}
	return class, nil
}

// ready makes a query ready, or finds it where it was already. Only where the pod has claims
// are there queries that several of its plans lead to.
func (c *Compiler) ready(q *pb.Query) (*scorer.Class, error) {
	size, err := c.identities.identify(q, asAsked)
	if err != nil {
		return nil, err
	}
	if c.setting.mounts == nil || size > maxKeptQuery {
		return scorer.NewClassWith(q, &c.expressions, c.selectors)
	}
	if kept, ok := c.queries.Get(q.ClassId); ok {
		return kept, nil
	}
	class, err := scorer.NewClassWith(q, &c.expressions, c.selectors)
	if err == nil {
		c.queries.Add(q.ClassId, class, class.MemoryBytes())
	}
	return class, err
}

// spec finds or makes the plan of a pod with claims.
func (c *Compiler) spec(p *v1.Pod, prof *Profile, w ClusterState, sign []byte) *plan {
	key := planKey{hash: c.hash(sign), profile: prof}
	if k, ok := c.specs.Get(key); ok && bytes.Equal(k.signature, sign) {
		return k.plan
	}
	k := &keptSpec{slices.Clone(sign), newOutline(p, prof, w.Counters()).plan(p)}
	if len(sign) <= maxKeptText {
		c.specs.Add(key, k, planBytes(sign))
	}
	return k.plan
}

// outline finds or makes a pod's outline.
func (c *Compiler) outline(p *v1.Pod, prof *Profile, w ClusterState, sign []byte) *keptOutline {
	key := planKey{hash: c.hash(sign), profile: prof}
	if k, ok := c.outlines.Get(key); ok && bytes.Equal(k.signature, sign) {
		return k
	}
	k := &keptOutline{signature: slices.Clone(sign), outline: newOutline(p, prof, w.Counters())}
	if len(sign) <= maxKeptText {
		c.outlines.Add(key, k, planBytes(sign))
	}
	return k
}

// plan finds or makes a pod's plan. One of volatile mounts is not kept: it is for one pod,
// until the next one is placed, and may list thousands of volumes.
func (c *Compiler) plan(p *v1.Pod, prof *Profile, w ClusterState) *keptPlan {
	sign := c.signature.pod(p, prof)
	key := planKey{hash: c.hash(sign.bytes), profile: prof}
	e, ok := c.plans.Get(key)
	if !ok || !bytes.Equal(e.signature, sign.bytes) {
		e = &keptPlan{mounts: newMounts(p, prof, w, c.volumes)}
		if e.mounts == nil {
			e.outline = c.outline(p, prof, w, sign.bytes[:sign.outline])
			e.plan = e.outline.outline.plan(p)
		} else {
			e.plan = c.spec(p, prof, w, sign.bytes[:sign.plan])
		}
		if !e.mounts.isVolatile() && len(sign.bytes) <= maxKeptText {
			e.signature = slices.Clone(sign.bytes)
			c.plans.Add(key, e, planBytes(sign.bytes))
		}
	} else if !e.mounts.hold(w) {
		e.mounts = newMounts(p, prof, w, c.volumes)
		e.revision++
		if e.mounts.isVolatile() {
			c.plans.Remove(key)
		}
	}
	return e
}

// fresh tells whether the counters that the class refers to are still there, and that
// they are asked for.
func (k *keptClass) fresh(r *count.Registry) bool {
	if len(k.counters) == 0 || k.registry == r && k.version == r.Version() {
		return true
	}
	if k.registry != r || !r.Use(k.counters) {
		return false
	}
	k.version = r.Version()
	return true
}
