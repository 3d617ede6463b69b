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
	prof        *Profile
	nodeName    string
	tolerations []*pb.Toleration
	affinity    affinity
	hostPorts   []*pb.HostPort
	fit         *pb.FitQuery
	balanced    *pb.BalancedQuery
	images      podImages
	features    []string
	spread      spreading
	// nearby: pod affinity matters. near is the pod's own; nil: it has none. nearKeys are
	// its topology keys, nearShape is what the nodes make of them.
	nearby          bool
	near            *count.Affinity
	nearKeys        []string
	nearShape       count.Shape
	readsNamespaces bool
	usage           *pb.PodUsage
	claims          *Rejection // it has resource claims; nil: none, or its profile does not look at them
	cel             celPlan
	celErr          error
}

// newPlan runs what the PreFilter and PreScore of every plugin make of the spec.
func newPlan(p *v1.Pod, prof *Profile, counters *count.Registry) *plan {
	p = tamed(p)
	asked := requestsOf(p)
	pl := &plan{
		prof:        prof,
		nodeName:    p.Spec.NodeName,
		tolerations: tolerations(p.Spec.Tolerations),
		affinity:    compileAffinity(p, prof),
		hostPorts:   hostPorts(p),
		usage:       usage(p, asked),
	}
	if !usable(pl.nodeName) {
		pl.nodeName = noNode
	}
	if prof.uses(pb.Plugin_PLUGIN_NODE_RESOURCES_FIT) {
		pl.fit = compileFit(asked, prof)
	}
	if prof.scoresBy(pb.Plugin_PLUGIN_NODE_RESOURCES_BALANCED_ALLOCATION) {
		pl.balanced = compileBalanced(asked, prof)
	}
	if prof.scoresBy(pb.Plugin_PLUGIN_IMAGE_LOCALITY) {
		pl.images = imagesOf(p)
	}
	if prof.filtersBy(pb.Plugin_PLUGIN_NODE_DECLARED_FEATURES) {
		pl.features = requiredFeatures(p)
	}
	pl.spread = compileSpread(p, prof)
	pl.claims = refuseClaims(p, prof)
	pl.cel, pl.celErr = compileCEL(p, prof)
	pl.nearby = prof.uses(pb.Plugin_PLUGIN_INTER_POD_AFFINITY)
	if pl.nearby && count.HasAffinity(p) {
		pl.near = counters.ReadAffinity(p)
		pl.nearKeys, pl.readsNamespaces = keysOfTerms(pl.near.Required, pl.near.Anti, pl.near.Preferred), readsNamespaces(pl.near)
	}
	return pl
}

// class completes a plan with a setting. ready makes the query ready, and gives it its id.
func (pl *plan) class(s *setting, ready func(*pb.Query) (*scorer.Class, error)) (*Class, error) {
	if pl.celErr != nil {
		return nil, pl.celErr
	}
	c := &Class{Usage: pl.usage, Volatile: s.mounts.isVolatile(), ScoreError: pl.scoreError()}
	for _, f := range pl.prof.filters {
		if c.Rejected, c.failure = pl.refuses(f, s); c.Rejected != nil || c.failure != nil {
			return c, nil
		}
	}
	if c.Rejected = pl.claims; c.Rejected != nil {
		return c, nil
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

// refuses is the answer of a plugin's PreFilter where that is not success: a rejection
// or an error.
func (pl *plan) refuses(f pb.Plugin, s *setting) (*Rejection, error) {
	switch f {
	case pb.Plugin_PLUGIN_NODE_AFFINITY:
		return pl.affinity.rejected, nil
	case pb.Plugin_PLUGIN_CEL_FILTER:
		return pl.cel.rejected, nil
	case pb.Plugin_PLUGIN_POD_TOPOLOGY_SPREAD:
		if err := pl.spread.hardErr; err != nil {
			return nil, fmt.Errorf("running PreFilter plugin %q: %w", scorer.PluginName(f), err)
		}
		return nil, nil
	case pb.Plugin_PLUGIN_INTER_POD_AFFINITY:
		if pl.near != nil && pl.near.Err != nil {
			return &Rejection{Plugins: []string{scorer.PluginName(f)}, Message: fmt.Sprintf("parsing pod: %v", pl.near.Err), Unresolvable: true}, nil
		}
		return nil, nil
	}
	return s.mounts.refuses(f)
}

// scoreError is the error of the first PreScore that cannot be run.
func (pl *plan) scoreError() error {
	for _, s := range pl.prof.scores {
		var err error
		switch s.Plugin {
		case pb.Plugin_PLUGIN_NODE_AFFINITY:
			err = pl.affinity.err
		case pb.Plugin_PLUGIN_POD_TOPOLOGY_SPREAD:
			err = pl.spread.softErr
		case pb.Plugin_PLUGIN_INTER_POD_AFFINITY:
			err = pl.nearScoreError()
		}
		if err != nil {
			return fmt.Errorf("running PreScore plugin %q: %w", scorer.PluginName(s.Plugin), err)
		}
	}
	return nil
}

// nearScoreError is InterPodAffinity's, where its PreFilter did not run before.
func (pl *plan) nearScoreError() error {
	switch {
	case pl.near == nil || pl.near.Err == nil, pl.prof.filtersBy(pb.Plugin_PLUGIN_INTER_POD_AFFINITY):
		return nil
	case pl.prof.ignorePreferred && !pl.near.HasPreferred:
		return nil
	}
	return fmt.Errorf("failed to parse pod: %w", pl.near.Err)
}

// query is what the plugins ask of the nodes. A plugin that skips is left out of the
// filters or scores.
func (pl *plan) query(s *setting) (*pb.Query, error) {
	q := &pb.Query{
		Narrowed:         pl.affinity.narrowed,
		NodeName:         pl.nodeName,
		Tolerations:      pl.tolerations,
		NodeAffinity:     pl.affinity.query,
		HostPorts:        pl.hostPorts,
		Fit:              pl.fit,
		Balanced:         pl.balanced,
		RequiredFeatures: pl.features,
		Cel:              pl.cel.query,
	}
	if pl.images.containers > 0 {
		q.Images = pl.images.query(s.spreads)
	}
	if err := pl.fillGroups(q, s); err != nil {
		return nil, err
	}
	s.mounts.fill(q)
	for _, f := range pl.prof.filters {
		if !pl.skipsFilter(f, q) && !s.mounts.skips(f) {
			q.Filters = append(q.Filters, f)
		}
	}
	for _, w := range pl.prof.scores {
		if !pl.skipsScore(w.Plugin, q) {
			q.Scores = append(q.Scores, w)
		}
	}
	return q, nil
}

// fillGroups writes what PodTopologySpread and InterPodAffinity ask.
func (pl *plan) fillGroups(q *pb.Query, s *setting) error {
	s.hard = nil
	if len(pl.spread.keys) == 0 && pl.near == nil && s.match == nil {
		return nil
	}
	g := newGroups(q, s, pl)
	q.Spread = g.spread(&pl.spread)
	near := &pb.InterPodAffinityQuery{}
	if pl.prof.filtersBy(pb.Plugin_PLUGIN_INTER_POD_AFFINITY) {
		g.affinityFilter(near, pl.near)
	}
	if pl.prof.scoresBy(pb.Plugin_PLUGIN_INTER_POD_AFFINITY) {
		g.affinityScore(near, pl.near, pl.prof)
	}
	if asksFilter(near) || len(near.Preferred) > 0 {
		q.InterPodAffinity = near
	}
	if g.honours && q.NodeAffinity.GetNodeSelector() == nil && q.NodeAffinity.GetRequired() == nil {
		q.NodeAffinity = &pb.NodeAffinityQuery{
			Added:        q.NodeAffinity.GetAdded(),
			NodeSelector: pl.affinity.honoured.NodeSelector,
			Required:     pl.affinity.honoured.Required,
			Preferred:    q.NodeAffinity.GetPreferred(),
		}
	}
	return g.check()
}

func asksFilter(q *pb.InterPodAffinityQuery) bool {
	return len(q.GetRequired())+len(q.GetAnti())+len(q.GetExistingAnti()) > 0
}

// skipsFilter tells whether a plugin's PreFilter skips, or might as well.
func (pl *plan) skipsFilter(p pb.Plugin, q *pb.Query) bool {
	switch p {
	case pb.Plugin_PLUGIN_NODE_AFFINITY:
		return !pl.affinity.filters
	case pb.Plugin_PLUGIN_NODE_PORTS:
		return len(pl.hostPorts) == 0
	case pb.Plugin_PLUGIN_NODE_DECLARED_FEATURES:
		return len(pl.features) == 0
	case pb.Plugin_PLUGIN_CEL_FILTER:
		return len(q.GetCel().GetFilters()) == 0
	case pb.Plugin_PLUGIN_POD_TOPOLOGY_SPREAD:
		return len(q.GetSpread().GetHard()) == 0
	case pb.Plugin_PLUGIN_INTER_POD_AFFINITY:
		return !asksFilter(q.InterPodAffinity)
	}
	return false
}

// skipsScore tells whether a plugin's PreScore skips, or might as well.
func (pl *plan) skipsScore(p pb.Plugin, q *pb.Query) bool {
	switch p {
	case pb.Plugin_PLUGIN_NODE_AFFINITY:
		return !pl.affinity.scores
	case pb.Plugin_PLUGIN_NODE_RESOURCES_BALANCED_ALLOCATION:
		return pl.balanced == nil
	case pb.Plugin_PLUGIN_CEL_SCORE:
		return len(q.GetCel().GetScores()) == 0
	case pb.Plugin_PLUGIN_POD_TOPOLOGY_SPREAD:
		return len(q.GetSpread().GetSoft()) == 0
	case pb.Plugin_PLUGIN_INTER_POD_AFFINITY:
		return len(q.InterPodAffinity.GetPreferred()) == 0
	}
	return false
}
