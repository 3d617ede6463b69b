package devices

import (
	"context"
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/shardsched/shardsched/internal/testkit/claims"
	"github.com/shardsched/shardsched/scorer/devices"
	"github.com/shardsched/shardsched/scorer/devices/selector"
)

var (
	verdicts = flag.Int("verdicts", 20_000, "how many nodes to judge")
	first    = flag.Uint64("first", 1, "the first seed")
)

// patience is what upstream gets for one node: its search has no other bound. Few random scenes use it up.
const patience = 250 * time.Millisecond

// tally is what a run has seen.
type tally struct {
	verdicts map[string]int
	// over counts the searches over our budget, and late those that upstream didn't finish.
	over, late int
	// took is how long each verdict took us, and theyTook how long upstream.
	took, theyTook []time.Duration
}

func (c *tally) judged() (n int) {
	for _, some := range c.verdicts {
		n += some
	}
	return n
}

// TestSameAsUpstream draws scenes, and has both judge each node: go test ./judge/devices -verdicts 1000000
func TestSameAsUpstream(t *testing.T) {
	p := &pair{theirs: newUpstream(), ours: selector.NewCompiler(), tally: tally{verdicts: map[string]int{}}}
	seed := *first
	for ; p.judged() < *verdicts && !t.Failed(); seed++ {
		scene := claims.Draw(seed)
		turned := scene.Turn(p.ours)
		for _, node := range scene.Nodes {
			if got, want := p.judge(t, scene, turned, node); got != want {
				t.Errorf("seed %d, node %s: got\n%swant\n%s", seed, node.Name, got, want)
			}
		}
	}
	t.Logf("%d verdicts of seeds %d to %d: %v; %d over budget, %d that upstream did not finish", p.judged(), *first, seed-1, p.verdicts, p.over, p.late)
	t.Logf("a verdict takes us %s, upstream %s", spread(p.took), spread(p.theyTook))
	for _, k := range []string{"none", "invalid", "fatal", "allocated"} {
		if p.verdicts[k] == 0 {
			t.Errorf("got no verdict %q, want some of each", k)
		}
	}
}

// spread tells the median and the mean of times. A few searches that try everything make most of the mean.
func spread(times []time.Duration) string {
	sum := time.Duration(0)
	for _, t := range times {
		sum += t
	}
	slices.Sort(times)
	return fmt.Sprintf("%v (median), %v (mean)", times[len(times)/2], sum/time.Duration(len(times)))
}

// pair is both allocators.
type pair struct {
	theirs   *upstream
	ours     *selector.Compiler
	searcher devices.Searcher
	tally
}

// judge has both judge a node. Where one of them gave up, both answers are empty.
func (p *pair) judge(t *testing.T, scene *claims.Scene, turned *claims.Turned, node *v1.Node) (got, want string) {
	began := time.Now()
	pools, use, err := turned.Gather(node)
	if err != nil {
		got = "fatal: " + err.Error() + "\n"
	} else {
		outcome := p.searcher.Search(pools, use, turned.Demand, devices.DefaultBudget)
		if outcome.Exhausted {
			p.over++
			return "", ""
		}
		got = turned.Answer(pools, outcome)
	}
	took := time.Since(began)
	began = time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	allocator, err := p.theirs.allocator(scene)
	if err != nil {
		t.Fatal(err)
	}
	result, err := allocator.Allocate(ctx, node, scene.Claims)
	if ctx.Err() != nil {
		p.late++
		return "", ""
	}
	p.theyTook = append(p.theyTook, time.Since(began))
	p.took = append(p.took, took)
	want = answer(scene, result, err)
	p.verdicts[kind(want)]++
	return got, want
}

func kind(answer string) string {
	for _, k := range []string{"none", "invalid", "fatal"} {
		if strings.HasPrefix(answer, k) {
			return k
		}
	}
	return "allocated"
}
