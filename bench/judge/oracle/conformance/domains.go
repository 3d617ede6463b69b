package conformance

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/shardsched/shardsched/bench/judge/oracle"
)

// otherTies is how often a placement is tried anew where ties between nodes may matter.
const otherTies = 12

// domain compares the domain that our picks are in with those that upstream could take, given what fits in each: where some do, the
// best; where ours is none, none. What fits in another domain than ours depends on how ties between nodes are broken there: ours is
// right where it is with some.
func (a *attempt) domain(ctx context.Context, all []*oracle.Placement) error {
	if len(all) == 1 || a.errs {
		return nil
	}
	ties := rand.New(rand.NewPCG(uint64(a.decisions[0].Seq), 0))
	want := ""
	for i := range otherTies {
		right, best, err := a.rightDomain(ctx, all, ties)
		if err != nil {
			return err
		}
		if right {
			if i > 0 {
				a.result.Ties++
			}
			return nil
		}
		want = best
	}
	got := "nobody is placed"
	if a.succeeded() {
		got = a.within.Name
	}
	a.differs(a.decisions[0], "domain", got, want)
	return nil
}

// rightDomain tells whether upstream could decide as we have, where it breaks ties so in the other placements, and what it would do.
func (a *attempt) rightDomain(ctx context.Context, all []*oracle.Placement, ties *rand.Rand) (right bool, best string, err error) {
	var proposals []*oracle.Proposal
	own := -1
	for _, p := range all {
		proposal := &oracle.Proposal{Placement: p, Nodes: map[types.UID]string{}}
		fits := a.succeeded()
		if p == a.within {
			own = len(proposals)
			for _, d := range a.decisions {
				proposal.Nodes[types.UID(d.UID)] = d.Node
			}
		} else if fits, err = a.simulate(ctx, proposal, ties); err != nil {
			return false, "", err
		}
		if fits {
			proposals = append(proposals, proposal)
		}
	}
	if len(proposals) == 0 {
		return true, "", nil
	}
	if !a.succeeded() {
		return false, "a quorum fits in " + proposals[0].Name, nil
	}
	if len(proposals) == 1 {
		return true, "", nil
	}
	totals, err := a.upstream.ScorePlacements(ctx, a.members, proposals)
	if err != nil {
		return false, "", err
	}
	most := slices.Max(totals)
	if totals[own] == most {
		return true, "", nil
	}
	var names []string
	for i, p := range proposals {
		names = append(names, fmt.Sprintf("%s %d", p.Name, totals[i]))
	}
	return false, strings.Join(names, ", "), nil
}

// simulate places the members in a placement as upstream's cycle does, and tells whether a quorum fits.
func (a *attempt) simulate(ctx context.Context, p *oracle.Proposal, ties *rand.Rand) (fits bool, err error) {
	var trials []*oracle.Trial
	defer func() {
		for _, t := range slices.Backward(trials) {
			err = errors.Join(err, t.Undo(ctx))
		}
	}()
	for _, pod := range a.members {
		v, err := a.upstream.JudgeWithin(ctx, pod, p.Placement)
		if err != nil {
			return false, err
		}
		node := anyBest(v, ties)
		if node == "" {
			continue
		}
		t, err := a.upstream.Try(ctx, v, node)
		if err != nil {
			return false, err
		}
		trials = append(trials, t)
		permitted, err := a.upstream.Permits(ctx, v, node)
		if err != nil {
			return false, err
		}
		fits = fits || permitted
		p.Nodes[pod.UID] = node
	}
	return fits, nil
}

// anyBest is one of the nodes with the highest total; "": none is feasible.
func anyBest(v *oracle.Verdict, ties *rand.Rand) string {
	if v.Err != nil {
		return ""
	}
	var best []string
	most := int64(0)
	for node, s := range v.Feasible {
		if len(best) == 0 || s.Total > most {
			best, most = best[:0], s.Total
		}
		if s.Total == most {
			best = append(best, node)
		}
	}
	slices.Sort(best)
	return best[ties.IntN(len(best))]
}
