package compile

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/cespare/xxhash/v2"
	"github.com/hashicorp/golang-lru/v2/simplelru"
	"google.golang.org/protobuf/proto"
	v1 "k8s.io/api/core/v1"

	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
	"github.com/shardsched/shardsched/scorer"
)

// keptClasses is how many classes a compiler keeps: more than a cluster has
// workloads that are scaled at the same time.
const keptClasses = 8192

// Compiler compiles pods to classes and keeps those of late. It is owned by one
// goroutine.
type Compiler struct {
	kept      *simplelru.LRU[key, *entry]
	signature signature
	spreads   []int64 // scratch
}

// key finds a class: the hash of a signature under a profile.
type key struct {
	hash    uint64
	profile *Profile
}

// entry is a class that is kept, with what to check before it is used again.
type entry struct {
	signature []byte // guards against equal hashes
	plan      *plan
	spreads   []int64
	class     *Class
}

// New makes a compiler.
func New() *Compiler {
	kept, err := simplelru.NewLRU[key, *entry](keptClasses, nil)
	if err != nil {
		panic(err) // the size is ours and above zero
	}
	return &Compiler{kept: kept}
}

// Class gives the class of a pod. What upstream has against the pod is in the
// class; the error is a broken invariant of ours.
func (c *Compiler) Class(p *v1.Pod, prof *Profile, images World) (*Class, error) {
	sign := c.signature.pod(p)
	k := key{hash: xxhash.Sum64(sign), profile: prof}
	e, ok := c.kept.Get(k)
	if ok && bytes.Equal(e.signature, sign) {
		c.spreads = e.plan.images.spreads(images, c.spreads[:0])
		if slices.Equal(c.spreads, e.spreads) {
			return e.class, nil
		}
	} else {
		e = &entry{signature: slices.Clone(sign), plan: newPlan(p, prof)}
		c.spreads = e.plan.images.spreads(images, c.spreads[:0])
	}
	class, err := e.plan.class(c.spreads)
	if err != nil {
		return nil, fmt.Errorf("compile pod %s/%s: %w", p.Namespace, p.Name, err)
	}
	// A new entry in any case: an old one stays as it is until the class is made.
	c.kept.Add(k, &entry{signature: e.signature, plan: e.plan, spreads: slices.Clone(c.spreads), class: class})
	return class, nil
}

// plan is a class without what depends on the cluster: its parts are shared by
// the queries that the class has over time.
type plan struct {
	filters     []pb.Plugin
	scores      []*pb.ScoreWeight
	nodeName    string
	tolerations []*pb.Toleration
	affinity    affinity
	hostPorts   []*pb.HostPort
	fit         *pb.FitQuery
	balanced    *pb.BalancedQuery
	images      podImages
	usage       *pb.PodUsage
}

// newPlan runs the PreFilter and PreScore of every plugin. A plugin that skips is
// left out of the filters or scores.
func newPlan(p *v1.Pod, prof *Profile) *plan {
	p = tamed(p)
	pl := &plan{
		nodeName:    p.Spec.NodeName,
		tolerations: tolerations(p.Spec.Tolerations),
		hostPorts:   hostPorts(p),
		usage:       usage(p),
	}
	if !usable(pl.nodeName) {
		pl.nodeName = noNode
	}
	pl.affinity = compileAffinity(p, prof)
	if fit := pb.Plugin_PLUGIN_NODE_RESOURCES_FIT; prof.filtersBy(fit) || prof.scoresBy(fit) {
		pl.fit = compileFit(p, prof)
	}
	if prof.scoresBy(pb.Plugin_PLUGIN_NODE_RESOURCES_BALANCED_ALLOCATION) {
		pl.balanced = compileBalanced(p, prof)
	}
	if prof.scoresBy(pb.Plugin_PLUGIN_IMAGE_LOCALITY) {
		pl.images = imagesOf(p)
	}
	for _, f := range prof.filters {
		if !pl.skipsFilter(f) {
			pl.filters = append(pl.filters, f)
		}
	}
	for _, s := range prof.scores {
		if !pl.skipsScore(s.Plugin) {
			pl.scores = append(pl.scores, s)
		}
	}
	return pl
}

// skipsFilter tells whether a plugin's PreFilter skips.
func (pl *plan) skipsFilter(p pb.Plugin) bool {
	switch p {
	case pb.Plugin_PLUGIN_NODE_AFFINITY:
		return !pl.affinity.filters
	case pb.Plugin_PLUGIN_NODE_PORTS:
		return len(pl.hostPorts) == 0
	}
	return false
}

// skipsScore tells whether a plugin's PreScore skips.
func (pl *plan) skipsScore(p pb.Plugin) bool {
	switch p {
	case pb.Plugin_PLUGIN_NODE_AFFINITY:
		return !pl.affinity.scores
	case pb.Plugin_PLUGIN_NODE_RESOURCES_BALANCED_ALLOCATION:
		return pl.balanced == nil
	}
	return false
}

// class completes a plan with the images' spread.
func (pl *plan) class(spreads []int64) (*Class, error) {
	c := &Class{Usage: pl.usage, Rejected: pl.affinity.rejected, ScoreError: pl.affinity.err}
	if c.Rejected != nil {
		return c, nil
	}
	q := &pb.Query{
		Filters:      pl.filters,
		Scores:       pl.scores,
		Narrowed:     pl.affinity.narrowed,
		NodeName:     pl.nodeName,
		Tolerations:  pl.tolerations,
		NodeAffinity: pl.affinity.query,
		HostPorts:    pl.hostPorts,
		Fit:          pl.fit,
		Balanced:     pl.balanced,
	}
	if pl.images.containers > 0 {
		q.Images = pl.images.query(spreads)
	}
	id, err := identify(q)
	if err != nil {
		return nil, err
	}
	q.ClassId = id
	c.Query = q
	c.Scorer, err = scorer.NewClass(q)
	return c, err
}

// identify hashes a query without an id.
func identify(q *pb.Query) (uint64, error) {
	encoded, err := proto.MarshalOptions{Deterministic: true}.Marshal(q)
	if err != nil {
		return 0, fmt.Errorf("encode query: %w", err)
	}
	return max(1, xxhash.Sum64(encoded)), nil // 0 stands for no id
}
