package coordinator

import (
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"github.com/shardsched/shardsched/coordinator/cache"
	"github.com/shardsched/shardsched/coordinator/compile"
	"github.com/shardsched/shardsched/scorer"
)

// oneByOne decides pods as upstream does: one at a time, each on every node as it is then.
// It shares the judgement of a single row with the scheduler, and nothing else: no
// batches, groups, candidates, shards or repairs.
type oneByOne struct {
	t        rapid.TB
	cache    *cache.Cache
	compiler *compile.Compiler
	eval     *scorer.Evaluator
	profile  *compile.Profile
	seq      uint64
}

func newOneByOne(t rapid.TB, nodes []*v1.Node, present []*v1.Pod) *oneByOne {
	o := &oneByOne{
		t: t, cache: cache.New(1), compiler: compile.New(), eval: scorer.NewEvaluator(nil),
		profile: compile.DefaultProfile(v1.DefaultSchedulerName),
	}
	for _, n := range nodes {
		if _, err := o.cache.SetNode(n); err != nil {
			t.Fatal(err)
		}
	}
	for _, p := range present {
		if _, err := o.cache.SetPod(p); err != nil {
			t.Fatal(err)
		}
	}
	return o
}

// decide decides one pod and promises it its node.
func (o *oneByOne) decide(p *v1.Pod) decisionLine {
	o.seq++
	d := decisionLine{
		Seq: o.seq, Pod: p.Namespace + "/" + p.Name, UID: string(p.UID),
		Profile: p.Spec.SchedulerName, Nodes: uint32(o.cache.Nodes()),
	}
	class, err := o.compiler.Class(p, o.profile, compile.Alone(o.cache))
	switch {
	case err != nil:
		o.t.Fatalf("compile %s: %v", p.Name, err)
	case d.Nodes == 0:
		d.Message = "no nodes available to schedule pods"
		return d
	case class.Rejected != nil:
		d.Message = fmt.Sprintf("0/%d nodes are available: %s.", d.Nodes, class.Rejected.Message)
		return d
	}
	best, ok := o.best(class, &d)
	if !ok {
		return d
	}
	if d.Feasible > 1 && class.ScoreError != nil {
		d.Message = class.ScoreError.Error()
		return d
	}
	d.Node, d.Score = best.Name, best.Score
	if err := o.cache.Assume(p, d.Node, class.Usage, d.Seq); err != nil {
		o.t.Fatal(err)
	}
	return d
}

// best looks at all rows and counts what it sees.
func (o *oneByOne) best(class *compile.Class, d *decisionLine) (scorer.Candidate, bool) {
	table := o.cache.Table(0)
	extrema := make([]int64, class.Scorer.KeyLen())
	verdicts := map[uint32]scorer.Verdict{}
	reasons := map[string]int{}
	for row := range table.All() {
		var v scorer.Verdict
		o.eval.Row(table, row, nil, class.Scorer, false, &v)
		if !v.Passed {
			_, why := o.eval.Reasons(table, row, nil, class.Scorer)
			for _, r := range why {
				reasons[r.Text]++
			}
			continue
		}
		verdicts[row] = v
		for i := range extrema {
			extrema[i] = max(extrema[i], v.Key.Raw[i])
		}
	}
	if d.Feasible = uint32(len(verdicts)); d.Feasible == 0 {
		var parts []string
		for text, n := range reasons {
			parts = append(parts, fmt.Sprintf("%d %s", n, text))
		}
		slices.Sort(parts)
		d.Message = fmt.Sprintf("0/%d nodes are available: %s.", d.Nodes, strings.Join(parts, ", "))
		return scorer.Candidate{}, false
	}
	var best scorer.Candidate
	found := false
	for row, v := range verdicts {
		c := table.Candidate(row, v.Local+class.Scorer.GroupScore(v.Key.Raw[:len(extrema)], extrema))
		if !found || scorer.Before(c, best) {
			best, found = c, true
		}
	}
	return best, true
}
