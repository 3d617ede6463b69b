package conformance

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/shardsched/shardsched/bench/judge/oracle"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// judgement holds what a scheduler that observes made of another's decision against upstream: the node that it would have chosen, and
// what it makes of the other's. Nothing comes of it.
func (t *tracker) judgement(ctx context.Context, r *pb.RecordJudgement) error {
	d := decisionOf(r.GetDecision())
	pod := t.upstream.Pending(types.UID(d.UID))
	if pod == nil {
		return fmt.Errorf("pod %s is not pending", d.Pod)
	}
	v, err := t.upstream.Judge(ctx, pod)
	if err != nil {
		return err
	}
	t.out.Judgements++
	c := comparison{round: t.out.Terms, decision: d, verdict: v, preemption: &oracle.Preemption{}}
	c.decision.Nominated, c.decision.Victims = "", nil // its message has nothing of preemption
	if v.Nominated {                                   // no other node is looked at, and ours has its score among all
		differs(&c, d.Node, "nominated node", v.Feasible[d.Node] != nil, true)
		t.out.Differences = append(t.out.Differences, c.found...)
		return nil
	}
	c.decided()
	if r.GetPreempts() && v.Unfit() {
		if c.preemption, err = t.upstream.Preempt(ctx, v); err != nil {
			return err
		}
		c.decision = d
		if x := c.preemption.Candidates[d.Nominated]; x != nil && slices.Equal(slices.Sorted(slices.Values(d.Victims)),
			slices.Sorted(slices.Values(x.Victims))) {
			c.decision.Victims = x.Victims // pods that began in the same second may be in any order
		}
		c.postFilter()
	}
	if node := r.GetNode(); node != "" {
		theirs := v.Feasible[node]
		differs(&c, node, "whether it passes", r.GetPasses(), theirs != nil)
		best, scored := v.Best()
		if theirs != nil && scored {
			differs(&c, node, "score", r.GetScore(), theirs.Total)
		}
		if theirs == nil || scored && theirs.Total < best {
			t.out.Worse++
		}
	}
	t.out.Differences = append(t.out.Differences, c.found...)
	return nil
}
