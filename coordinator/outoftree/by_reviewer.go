package outoftree

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/shardsched/shardsched/coordinator/answers"
	"github.com/shardsched/shardsched/coordinator/framework"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// ByReviewer is what the plugins made of the nodes in this attempt, for people: what each refused, and what it added to the score of the
// chosen node; "": none is chosen. A plugin that did neither is left out.
func (r *Review) ByReviewer(chosen string) []*pb.Review {
	if r == nil {
		return nil
	}
	var refusals []pluginRefusals
	of := func(plugin string) *answers.Refusals {
		at := slices.IndexFunc(refusals, func(x pluginRefusals) bool { return x.plugin == plugin })
		if at < 0 {
			at = len(refusals)
			refusals = append(refusals, pluginRefusals{plugin: plugin})
		}
		return &refusals[at].Refusals
	}
	nodes := r.plugins.Cache.Nodes()
	switch {
	case r.rejected != nil && r.rejected.Plugin() != "":
		of(r.rejected.Plugin()).AddNodes(nodes, r.rejected.Message())
	case r.rejected != nil:
		of(strings.Join(sets.List(r.narrowedBy), " and ")).AddNodes(nodes, r.rejected.Message())
	case r.only != nil:
		left := 0
		for name := range r.only {
			if _, there := r.plugins.Cache.RowOf(name); there {
				left++
			}
		}
		if left < nodes {
			of(strings.Join(sets.List(r.narrowedBy), " and ")).AddNodes(nodes-left, framework.LeftOut(r.narrowedBy).Message())
		}
	}
	for _, row := range r.refused {
		status := r.asked[row]
		of(status.Plugin()).Add(r.plugins.Cache.Table(int(row.Shard)).Name(row.Index), status.Reasons()...)
	}
	var out []*pb.Review
	for i := range refusals {
		x := &pb.Review{Reviewer: "plugin " + refusals[i].plugin}
		refusals[i].Tell(x)
		out = append(out, x)
	}
	for _, s := range r.scoresOf(chosen) {
		reviewer := "plugin " + s.Name
		at := slices.IndexFunc(out, func(x *pb.Review) bool { return x.Reviewer == reviewer })
		if at < 0 {
			at = len(out)
			out = append(out, &pb.Review{Reviewer: reviewer})
		}
		out[at].Score = &s.Score
	}
	return out
}

// pluginRefusals are the refusals of one plugin, or of several that have narrowed the nodes together.
type pluginRefusals struct {
	plugin string
	answers.Refusals
}

// scoresOf are the plugins' scores of a node, times their weights.
func (r *Review) scoresOf(node string) []fwk.PluginScore {
	for i := range r.scores {
		if r.scores[i].Name == node {
			return r.scores[i].Scores
		}
	}
	return nil
}
