package preempt

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/shardsched/shardsched/coordinator/answers"
	"github.com/shardsched/shardsched/coordinator/cache"
	"github.com/shardsched/shardsched/coordinator/cluster"
	"github.com/shardsched/shardsched/coordinator/compile"
	"github.com/shardsched/shardsched/coordinator/fanout"
	"github.com/shardsched/shardsched/coordinator/nominees"
	"github.com/shardsched/shardsched/coordinator/tracing"
	"github.com/shardsched/shardsched/scorer"
)

// Config is what a Finder works on.
type Config struct {
	Nodes    *cache.Cache
	Budgets  *cluster.Budgets
	Nominees *nominees.Cache
	Engine   *answers.Engine
	Workers  Workers
	// BatchSize is how many pods share a batch at the most.
	BatchSize int
	// Now is the queue's clock.
	Now func() time.Time
	// DryRuns counts the dry runs that workers were asked for, and Rows the rows that were tried, here and there.
	DryRuns, Rows prometheus.Counter
}

// Workers make dry runs.
type Workers interface {
	Preempt(context.Context, fanout.PreemptRequest) (*scorer.PreemptionResult, error)
	// PreemptHere is Preempt on the own tables.
	PreemptHere(context.Context, fanout.PreemptRequest) (*scorer.PreemptionResult, error)
	// Blame puts a worker into quarantine whose candidates are not those of the own tables.
	Blame(ctx context.Context, who uint32, why error)
}

// Finder finds the candidates of preemptors. It belongs to the loop.
type Finder struct {
	Config
	kept   map[dryRunKey]*dryRun // the dry runs that have served pods last
	served uint64                // how many pods dry runs have served
}

// NewFinder makes a Finder.
func NewFinder(c Config) *Finder { return &Finder{Config: c, kept: map[dryRunKey]*dryRun{}} }

// Forget drops the dry runs for a class.
func (f *Finder) Forget(class uint64) {
	for key := range f.kept {
		if key.class == class {
			delete(f.kept, key)
		}
	}
}

// Preemptor is a pod that no node takes.
type Preemptor struct {
	Pod *v1.Pod
	// Answer is the answer of its class, with reasons; nil: no row can be helped.
	Answer   *answers.Answer
	Nominees nominees.List
	// LeftOut is the pod's own nominated node, by its row and the class to try it with, where a PreFilter has narrowed the
	// nodes to others: it is tried all the same. nil: there is no such node.
	LeftOut *LeftOut
	// Plugins have a say in the candidates; nil: none has.
	Plugins Plugins
	Trace   *tracing.Attempt
}

// LeftOut is a row that a PreFilter has left out of a pod's nodes, and the pod's class without the narrowing.
type LeftOut struct {
	Row   cache.Row
	Class *scorer.Class
}

// Plugins are plugins compiled in that judge nodes for one attempt.
type Plugins interface {
	// Judged tells whether they have judged a node in this attempt already, and then whether victims may change that.
	Judged(row cache.Row, node string) (judged, helps bool)
	// TakePart has them judge a node in its dry run, by what the check asks and tells. failed tells afterwards what went
	// wrong.
	TakePart(ctx context.Context, node string, check *scorer.RowCheck) (failed func() error)
}

// Found is what a dry run has found for one pod.
type Found struct {
	// Best are the best candidates, best first: as many as were asked for, if there are so many.
	Best []*scorer.PreemptionCandidate
	// All tells how many rows were tried, and why rows are no candidates.
	All *scorer.PreemptionResult
	// Failed are why rows could not be tried.
	Failed []error
}

// Find finds the best candidates of a pod, n of them at the most.
func (f *Finder) Find(ctx context.Context, p *Preemptor, n int) (Found, error) {
	switch {
	case p.Answer == nil:
		return Found{All: &scorer.PreemptionResult{}}, nil
	case p.Plugins != nil:
		return f.tryAll(ctx, p, n), nil
	case p.LeftOut == nil && p.Answer.Diagnosed() && !f.Nodes.HasBelow(compile.Priority(p.Pod)):
		return f.nobodyBelow(p), nil
	}
	return f.findShared(ctx, p, n)
}

// nobodyBelow is what a dry run would find where no pod on a node is of lower priority, which takes no look at any row.
func (f *Finder) nobodyBelow(p *Preemptor) Found {
	all := &scorer.PreemptionResult{Tried: p.Answer.Resolvable(f.Nodes.Nodes())}
	all.AddReason(scorer.NoVictimsFound(), all.Tried)
	return Found{All: all}
}

// tryAll tries every row here, with plugins.
func (f *Finder) tryAll(ctx context.Context, p *Preemptor, n int) Found {
	x := f.rowByRow(p)
	found := Found{All: &scorer.PreemptionResult{}}
	found.All.Reset(p.Answer.Class().ID(), n)
	for shard := range f.Nodes.NumShards() {
		for index := range f.Nodes.Table(shard).All() {
			row := cache.Row{Shard: uint32(shard), Index: index}
			r, err := f.tryWithPlugins(ctx, x, row)
			found.All.Merge(&r.result)
			if err != nil {
				found.Failed = append(found.Failed, err)
			}
		}
	}
	for i := range found.All.Candidates {
		found.Best = append(found.Best, &found.All.Candidates[i])
	}
	return found
}

// rowByRow is what rows are tried with one by one, for one pod.
type rowByRow struct {
	*Preemptor
	question *scorer.Preemption
	promised map[cache.Row]*nominees.Nominee
}

func (f *Finder) rowByRow(p *Preemptor) *rowByRow {
	return &rowByRow{p, f.question(p, f.Budgets.Allowed()), p.Nominees.ByRow()}
}

// question is what is asked of rows for a pod.
func (f *Finder) question(p *Preemptor, budgets []scorer.Budget) *scorer.Preemption {
	return &scorer.Preemption{
		Priority: compile.Priority(p.Pod), NowMicros: f.Now().UnixMicro(), Budgets: budgets, Whole: p.Answer.Result(),
	}
}

// NoCandidate is what DefaultPreemption says where a dry run has found no candidate.
func (f *Finder) NoCandidate(found Found) (*fwk.PostFilterResult, *fwk.Status) {
	if len(found.Failed) > 0 {
		return nil, fwk.NewStatus(fwk.Error, Prefix+utilerrors.NewAggregate(found.Failed).Error())
	}
	counts := map[string]int{}
	for _, c := range found.All.Reasons {
		counts[c.Text] += c.Nodes
	}
	counts[notHelpful] += f.Nodes.Nodes() - found.All.Tried
	return Nominate(""), Refusal(answers.FitError(f.Nodes.Nodes(), counts))
}

// Victims are the pods that have to leave for a candidate, most important first.
func (f *Finder) Victims(by *v1.Pod, c *scorer.PreemptionCandidate) ([]*v1.Pod, error) {
	out := make([]*v1.Pod, 0, len(c.Victims))
	for _, number := range c.Victims {
		victim, _ := f.Nodes.PodNumbered(number)
		if victim == nil {
			return nil, fmt.Errorf("preempt for pod %s/%s on node %s: pod number %d is not known", by.Namespace, by.Name, c.Name, number)
		}
		out = append(out, victim)
	}
	return slices.Clip(out), nil
}
