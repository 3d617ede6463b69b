package compile

import (
	"fmt"

	v1 "k8s.io/api/core/v1"

	"github.com/shardsched/shardsched/coordinator/count"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
	"github.com/shardsched/shardsched/scorer"
)

// plan is what a pod's spec alone says: its parts are shared by the queries that it
// leads to over time, and by the pods of all namespaces and labels.
type plan struct {
	*outline
	fit      *pb.FitQuery
	balanced *pb.BalancedQuery
	usage    *pb.PodUsage
}

// outline is a plan without what the pod requests: pods that request other amounts share it.
type outline struct {
	prof        *Profile
	nodeName    string
	tolerations []*pb.Toleration
	affinity    affinity
	hostPorts   []*pb.HostPort
	images      podImages
	spread      spreading
	// nearby: pod affinity matters. near is the pod's own; nil: it has none. nearKeys are
	// its topology keys, nearShape is what the nodes make of them.
	nearby          bool
	near            *count.Affinity
	nearKeys        []string
	nearShape       count.Shape
	readsNamespaces bool
	// refusals are those of PreFilters, and scoreErrors those of PreScores.
	refusals, scoreErrors []refusal
	allocates             bool // its profile has DynamicResources
	cel                   celPlan
	celErr                error
}

// newOutline runs what the PreFilter and PreScore of every plugin make of the spec without its requests.
func newOutline(p *v1.Pod, prof *Profile, counters *count.Registry) *outline {
	o := &outline{
		prof:        prof,
		nodeName:    p.Spec.NodeName,
		tolerations: tolerations(p.Spec.Tolerations),
		hostPorts:   hostPorts(p),
		images:      imagesOf(p, prof),
		allocates:   prof.AllocatesDevices(),
	}
	if !usable(o.nodeName) {
		o.nodeName = noNode
	}
	o.planAffinity(p)
	o.planSpread(p)
	o.planCEL(tamed(p))
	o.planNear(p, counters)
	return o
}

// plan adds what a pod of the outline requests.
func (o *outline) plan(p *v1.Pod) *plan {
	asked := requestsOf(tamed(p))
	return &plan{outline: o, fit: compileFit(asked, o.prof), balanced: compileBalanced(asked, o.prof), usage: usage(asked, o.hostPorts)}
}

// class completes a plan with a setting. ready makes the query ready, and gives it its id.
func (pl *plan) class(s *setting, ready func(*pb.Query) (*scorer.Class, error)) (*Class, error) {
	if pl.celErr != nil {
		return nil, pl.celErr
	}
	c := &Class{Usage: pl.usage, Volatile: s.mounts.isVolatile(), Claims: s.claims.isAny(), ScoreError: pl.scoreError(),
		Matched: string(s.matched)}
	for _, f := range pl.prof.filters {
		if c.Rejected, c.failure = pl.refuses(f, s); c.Rejected != nil || c.failure != nil {
			return c, nil
		}
	}
	if c.failure = s.mounts.filterError(); c.failure != nil {
		return c, nil
	}
	if c.failure = pl.excess(s); c.failure != nil {
		return c, nil
	}
	q, err := pl.query(s)
	if err != nil {
		return nil, err
	}
	if c.Scorer, err = ready(q); err != nil {
		return nil, err
	}
	c.Query, c.HardSelectors = c.Scorer.Query(), s.hard
	return c, nil
}

// refusal is what the PreFilter of a plugin answers where that is no success, or the error of its PreScore.
type refusal struct {
	plugin   pb.Plugin
	rejected *Rejection
	err      error
}

// refuse keeps what a plugin's PreFilter answers; nil and nil: success.
func (o *outline) refuse(plugin pb.Plugin, rejected *Rejection, err error) {
	if rejected != nil || err != nil {
		o.refusals = append(o.refusals, refusal{plugin, rejected, err})
	}
}

// refuseScore keeps the error of a plugin's PreScore; nil: it has none.
func (o *outline) refuseScore(plugin pb.Plugin, err error) {
	if err != nil {
		o.scoreErrors = append(o.scoreErrors, refusal{plugin: plugin, err: err})
	}
}

// refuses is the answer of a plugin's PreFilter where that is no success: a rejection or an error.
func (pl *plan) refuses(f pb.Plugin, s *setting) (*Rejection, error) {
	for i := range pl.refusals {
		r := &pl.refusals[i]
		switch {
		case r.plugin != f:
		case r.err != nil:
			return nil, fmt.Errorf("running PreFilter plugin %q: %w", scorer.PluginName(f), r.err)
		default:
			return r.rejected, nil
		}
	}
	if f == pb.Plugin_PLUGIN_DYNAMIC_RESOURCES {
		return s.claims.refuse()
	}
	return s.mounts.refuses(f)
}

// scoreError is the error of the first PreScore that cannot be run.
func (pl *plan) scoreError() error {
	for _, s := range pl.prof.scores {
		for i := range pl.scoreErrors {
			if e := &pl.scoreErrors[i]; e.plugin == s.Plugin {
				return fmt.Errorf("running PreScore plugin %q: %w", scorer.PluginName(s.Plugin), e.err)
			}
		}
	}
	return nil
}

// query is what the plugins ask of the nodes. A plugin that skips is left out of the
// filters or scores.
func (pl *plan) query(s *setting) (*pb.Query, error) {
	q := &pb.Query{
		Narrowed:     pl.affinity.narrowed,
		NodeName:     pl.nodeName,
		Tolerations:  pl.tolerations,
		NodeAffinity: pl.affinity.query,
		HostPorts:    pl.hostPorts,
		Fit:          pl.fit,
		Balanced:     pl.balanced,
		Cel:          pl.cel.query,
		// of DynamicResources
		ResourceClaims: s.claims.Query,
	}
	if pl.images.containers > 0 {
		q.Images = pl.images.query(s.spreads)
	}
	if err := pl.fillGroups(q, s); err != nil {
		return nil, err
	}
	s.mounts.fill(q)
	for _, part := range pl.prof.written {
		part.Write(q, tamed(s.pod), part.args)
	}
	for _, f := range pl.prof.filters {
		if pl.prof.filterAsks(f, q) {
			q.Filters = append(q.Filters, f)
		}
	}
	for _, w := range pl.prof.scores {
		if pl.prof.scoreAsks(w.Plugin, q) {
			q.Scores = append(q.Scores, w)
		}
	}
	return q, nil
}
