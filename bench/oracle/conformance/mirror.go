package conformance

import (
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/shardsched/shardsched/bench/oracle"
	"github.com/shardsched/shardsched/coordinator/cache"
	"github.com/shardsched/shardsched/coordinator/compile"
	"github.com/shardsched/shardsched/scorer"
)

// mirrorShards is how many tables a mirror has: more than one, so that none is special.
const mirrorShards = 3

// mirror is our own picture of the cluster, to ask for every node's verdict.
type mirror struct {
	cache    *cache.Cache
	compiler *compile.Compiler
	profiles map[string]*compile.Profile
	eval     *scorer.Evaluator
}

func newMirror(s *Scenario) (*mirror, error) {
	c, err := s.ours()
	if err != nil {
		return nil, err
	}
	p, err := c.Profiles()
	if err != nil {
		return nil, err
	}
	return &mirror{cache: cache.New(mirrorShards), compiler: compile.New(), profiles: p, eval: scorer.NewEvaluator(nil)}, nil
}

func (m *mirror) set(obj oracle.Object) (err error) {
	switch obj := obj.(type) {
	case *v1.Node:
		_, err = m.cache.SetNode(obj)
	case *v1.Pod:
		switch {
		case compile.IsTerminal(obj):
			return m.remove(obj)
		case obj.Spec.NodeName != "":
			_, err = m.cache.SetPod(obj)
		}
	}
	return err
}

func (m *mirror) remove(obj oracle.Object) (err error) {
	switch obj := obj.(type) {
	case *v1.Node:
		_, err = m.cache.RemoveNode(obj.Name)
	case *v1.Pod:
		_, _, err = m.cache.RemovePod(obj.UID)
	}
	return err
}

// row is a node as our scorer sees it.
type row struct {
	name    string
	verdict scorer.Verdict
	reasons []scorer.Reason
	scores  []scorer.PluginScore
}

// compare compares every node's verdict and returns how many there were.
func (m *mirror) compare(pod *v1.Pod, c *comparison) (int, error) {
	class, err := m.compiler.Class(pod, m.profiles[c.decision.Profile], compile.Alone(m.cache))
	if err != nil {
		return 0, err
	}
	if class.Rejected != nil {
		differs(c, "", "nodes looked at", 0, len(c.verdict.Feasible)+len(c.verdict.Refused))
		return 0, nil
	}
	differs(c, "", "error of scoring", text(class.ScoreError), c.scoreError(class.ScoreError))
	rows, extrema := m.rows(class.Scorer)
	for i := range rows {
		c.node(class.Scorer, &rows[i], extrema)
	}
	return len(rows), nil
}

// scoreError is upstream's error of scoring. Where no node was feasible upstream did not
// come to it, and ours stands unjudged.
func (c *comparison) scoreError(ours error) string {
	if len(c.verdict.Feasible) == 0 {
		return text(ours)
	}
	return text(c.verdict.ScoreErr)
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// rows judges every node, and finds the maxima over the feasible ones.
func (m *mirror) rows(class *scorer.Class) (rows []row, extrema []int64) {
	extrema = make([]int64, class.KeyLen())
	for shard := range m.cache.NumShards() {
		t := m.cache.Table(shard)
		for i := range uint32(t.Rows()) {
			if !t.HasNode(i) {
				continue
			}
			r := row{name: t.Name(i)}
			m.eval.Row(t, i, nil, class, false, &r.verdict)
			_, reasons := m.eval.Reasons(t, i, nil, class)
			r.reasons = slices.Clone(reasons)
			r.scores = slices.Clone(m.eval.Scores(t, i, nil, class))
			rows = append(rows, r)
			for k := range extrema {
				if r.verdict.Passed {
					extrema[k] = max(extrema[k], r.verdict.Key.Raw[k])
				}
			}
		}
	}
	return rows, extrema
}

// node compares one node.
func (c *comparison) node(class *scorer.Class, r *row, extrema []int64) {
	scored, feasible := c.verdict.Feasible[r.name]
	refused, judged := c.verdict.Refused[r.name]
	if !feasible && !judged {
		differs(c, r.name, "known to upstream", "no", "yes")
		return
	}
	differs(c, r.name, "reasons", spelt(r), upstreams(feasible, refused))
	if !feasible || !r.verdict.Passed || c.verdict.ScoreErr != nil {
		return
	}
	total := int64(0)
	for _, p := range r.scores {
		weighted := p.Weight * class.Normalise(p, extrema)
		total += weighted
		want := scored.Plugin(p.Name())
		differs(c, r.name, p.Name()+" raw", p.Raw, want.Raw)
		differs(c, r.name, p.Name()+" weighted", weighted, want.Weighted)
	}
	differs(c, r.name, "total", total, scored.Total)
	differs(c, r.name, "total of the row", r.verdict.Local+class.GroupScore(r.verdict.Key.Raw[:class.KeyLen()], extrema), scored.Total)
}

// ours spells a verdict, so that two can be compared.
func spelt(r *row) string {
	if r.verdict.Passed {
		return "feasible"
	}
	out := []string{}
	for _, x := range r.reasons {
		out = append(out, fmt.Sprintf("%s (unresolvable %t)", x.Text, x.Unresolvable))
	}
	return together(out)
}

func upstreams(feasible bool, refused oracle.Refusal) string {
	if feasible {
		return "feasible"
	}
	out := []string{}
	for _, x := range refused.Reasons {
		out = append(out, fmt.Sprintf("%s (unresolvable %t)", x, refused.Unresolvable))
	}
	return together(out)
}

// together sorts reasons: upstream goes through a pod's scalar resources in the order of a
// map, so theirs is any.
func together(reasons []string) string {
	slices.Sort(reasons)
	return strings.Join(reasons, ", ")
}
