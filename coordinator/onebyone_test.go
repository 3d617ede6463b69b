package coordinator

import (
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"github.com/shardsched/shardsched/coordinator/compile"
	"github.com/shardsched/shardsched/scorer"
)

// oneByOne decides pods as upstream does: one at a time, each on every node as it is then.
// It shares the judgement of a single row with the scheduler, and nothing else: no
// batches, groups, candidates, shards or repairs.
type oneByOne struct {
	t        rapid.TB
	cache    *picture
	compiler *compile.Compiler
	eval     *scorer.Evaluator
	profile  *compile.Profile
	seq      uint64
}

func newOneByOne(t rapid.TB, nodes []*v1.Node, present []*v1.Pod) *oneByOne {
	o := &oneByOne{
		t: t, cache: newPicture(1), compiler: compile.New(), eval: scorer.NewEvaluator(nil),
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
	class, err := o.compiler.Class(p, o.profile, o.cache)
	if err == nil {
		err = o.cache.settle()
	}
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
	o.cache.counters.Observe(p)
	if _, err := o.cache.Assume(p, d.Node, class.Usage, d.Seq); err != nil {
		o.t.Fatal(err)
	}
	return d
}

// best looks at all rows and counts what it sees.
func (o *oneByOne) best(class *compile.Class, d *decisionLine) (scorer.Candidate, bool) {
	table := o.cache.Table(0)
	var all scorer.Result
	all.Reset(class.ID(), 0)
	groups, locals := map[uint32]int{}, map[uint32]int64{}
	reasons := map[string]int{}
	for row := range table.All() {
		var v scorer.Verdict
		o.eval.Row(table, row, nil, class.Scorer, true, &v)
		if groups[row] = all.Move(class.Scorer, &v, +1); groups[row] >= 0 {
			locals[row] = v.Local
			continue
		}
		_, why := o.eval.Reasons(table, row, nil, class.Scorer)
		for _, r := range why {
			reasons[r.Text]++
		}
	}
	var s scorer.Standing
	class.Scorer.Settle(&all, &s)
	var best scorer.Candidate
	found := false
	for row, group := range groups {
		switch {
		case group < 0:
			continue
		case s.Groups[group].Feasible:
			c := table.Candidate(row, locals[row]+s.Groups[group].Score)
			if !found || scorer.Before(c, best) {
				best, found = c, true
			}
			continue
		}
		_, why := class.Scorer.GroupReasons(&all, &s, group)
		for _, r := range why {
			reasons[r.Text]++
		}
	}
	d.Feasible = uint32(s.Feasible)
	if found {
		return best, true
	}
	var parts []string
	for text, n := range reasons {
		parts = append(parts, fmt.Sprintf("%d %s", n, text))
	}
	slices.Sort(parts)
	d.Message = fmt.Sprintf("0/%d nodes are available: %s.", d.Nodes, strings.Join(parts, ", "))
	return scorer.Candidate{}, false
}
