package preempt

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/shardsched/shardsched/coordinator/answers"
	"github.com/shardsched/shardsched/coordinator/cache"
	"github.com/shardsched/shardsched/coordinator/cluster"
	"github.com/shardsched/shardsched/coordinator/compile"
	"github.com/shardsched/shardsched/coordinator/extenders"
	"github.com/shardsched/shardsched/coordinator/fanout"
	"github.com/shardsched/shardsched/coordinator/groups"
	"github.com/shardsched/shardsched/coordinator/nominees"
	"github.com/shardsched/shardsched/coordinator/queue"
	"github.com/shardsched/shardsched/coordinator/tracing"
	"github.com/shardsched/shardsched/scorer"
)

// Config is what a Finder works on.
type Config struct {
	Nodes    *cache.Cache
	Budgets  *cluster.Budgets
	Nominees *nominees.Cache
	Groups   *groups.Groups // nil: there are no pod groups
	// WholeGangs has the pods of a PodGroup with disruptionMode PodGroup leave together for single pods, too.
	WholeGangs bool
	Engine     *answers.Engine
	Workers    Workers
	// BatchSize is how many pods share a batch at the most.
	BatchSize int
	// Now is the queue's clock.
	Now func() time.Time
	// Steps is how many steps searches for devices may take in a dry run of workers (scorer.Options).
	Steps func() int64
	// Lanes ask extenders about candidates.
	Lanes *extenders.Lanes
	// Attempts counts the attempts of pods for which victims were looked for, DryRuns the dry runs that workers were asked for, and
	// Rows the rows that were tried, here and there.
	Attempts, DryRuns, Rows prometheus.Counter
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
	wholes wholeGangs
}

// NewFinder makes a Finder.
func NewFinder(c Config) *Finder {
	return &Finder{Config: c, kept: map[dryRunKey]*dryRun{}, wholes: wholeGangs{
		units: map[*groups.Group]*gangUnit{}, late: map[*groups.Group]struct{}{},
	}}
}

// Forget drops the dry runs for a class.
func (f *Finder) Forget(class uint64) {
	for key := range f.kept {
		if key.class == class {
			delete(f.kept, key)
		}
	}
}

// Preemptor is a pod that no node takes, in one attempt.
type Preemptor struct {
	Pod   *queue.Pod
	Class *compile.Class
	// Answer is the answer of its class, with reasons; nil: a PreFilter has rejected the pod.
	Answer  *answers.Answer
	Plugins Plugins
	// Extenders tell why they have refused nodes that pass all else.
	Extenders *extenders.Review
	// Advice is Outcome.Asking of this attempt; nil: extenders were not asked about candidates.
	Advice *Advice
	// Shown is how many candidates extenders are shown, of so many nodes.
	Shown func(nodes int) int
	// Fails tells why a row fails the pod, whatever the other rows say; nil: it does not.
	Fails func(cache.Row) error
	// Ineligible is why nobody is to leave for it, for a reason of its pod group; empty: there is none.
	Ineligible string
	// As is the priority that it preempts with; nil: its own.
	As    *int32
	Trace *tracing.Attempt

	// The Finder's, once it has an answer:
	nominees nominees.List
	leftOut  *answers.LeftOut
}

// priority is what it preempts with.
func (p *Preemptor) priority() int32 {
	if p.As != nil {
		return *p.As
	}
	return compile.Priority(p.Pod.Obj)
}

// Plugins are plugins compiled in, for one attempt.
type Plugins interface {
	// Rejected is the status of all nodes where a PreFilter has rejected the pod; nil: none has.
	Rejected() *fwk.Status
	// Judges tells whether plugins have a say in which nodes can have the pod, and so in its candidates.
	Judges() bool
	// Status is what plugins have said of a node in this attempt, and whether they have said anything.
	Status(row cache.Row, node string) (status *fwk.Status, said bool)
	// TakePart has them judge a node in its dry run, by what the check asks and tells. failed tells afterwards what went
	// wrong.
	TakePart(ctx context.Context, node string, check *scorer.RowCheck) (failed func() error)
}

// found is what a dry run has found for one pod.
type found struct {
	// best are the best candidates, best first: as many as were asked for, if there are so many.
	best []*scorer.PreemptionCandidate
	// all tells how many rows were tried, and why rows are no candidates.
	all *scorer.PreemptionResult
	// failed are why rows could not be tried.
	failed []error
}

// find finds the best candidates of a pod, n of them at the most.
func (f *Finder) find(ctx context.Context, p *Preemptor, n int) (found, error) {
	out, err := f.search(ctx, p, n)
	if err != nil || len(out.best) > 0 {
		return out, err
	}
	for _, x := range out.all.Failing {
		if why := p.Fails(cache.Row{Shard: x.Shard, Index: x.Row}); why != nil {
			out.failed = append(out.failed, why)
		}
	}
	return out, nil
}

func (f *Finder) search(ctx context.Context, p *Preemptor, n int) (found, error) {
	switch {
	case p.Answer == nil:
		return found{all: &scorer.PreemptionResult{}}, nil
	case p.Plugins.Judges():
		return f.tryAll(ctx, p, n), nil
	case p.leftOut == nil && p.Answer.Diagnosed() && !f.hasBelow(p.priority()):
		return f.nobodyBelow(p), nil
	}
	return f.findShared(ctx, p, n)
}

// hasBelow tells whether a pod on a node may leave for a priority, on some row.
func (f *Finder) hasBelow(priority int32) bool {
	return f.Nodes.HasBelow(priority) || f.WholeGangs && f.Groups.WholeBelow(priority)
}

// nobodyBelow is what a dry run would find where no pod on a node is of lower priority, which takes no look at any row.
func (f *Finder) nobodyBelow(p *Preemptor) found {
	all := &scorer.PreemptionResult{Tried: p.Answer.Resolvable(f.Nodes.Nodes())}
	all.AddReason(scorer.NoVictimsFound(), all.Tried)
	return found{all: all}
}

// tryAll tries every row here, with plugins.
func (f *Finder) tryAll(ctx context.Context, p *Preemptor, n int) found {
	x := f.rowByRow(p)
	out := found{all: &scorer.PreemptionResult{}}
	out.all.Reset(p.Answer.Class().ID(), n)
	for shard := range f.Nodes.NumShards() {
		for index := range f.Nodes.Table(shard).All() {
			row := cache.Row{Shard: uint32(shard), Index: index}
			r, err := f.tryWithPlugins(ctx, x, row)
			out.all.Merge(&r.result)
			if err != nil {
				out.failed = append(out.failed, err)
			}
		}
	}
	for i := range out.all.Candidates {
		out.best = append(out.best, &out.all.Candidates[i])
	}
	return out
}

// rowByRow is what rows are tried with one by one, for one pod.
type rowByRow struct {
	*Preemptor
	question *scorer.Preemption
	promised map[cache.Row]*nominees.Nominee
}

func (f *Finder) rowByRow(p *Preemptor) *rowByRow {
	return &rowByRow{p, f.question(p, f.Budgets.Allowed()), p.nominees.ByRow()}
}

// question is what is asked of rows for a pod.
func (f *Finder) question(p *Preemptor, budgets []scorer.Budget) *scorer.Preemption {
	return &scorer.Preemption{
		Priority: p.priority(), NowMicros: f.Now().UnixMicro(), Budgets: budgets, Whole: p.Answer.Result(),
		Units: f.unitsFor(p.Pod.Obj),
	}
}

// victims are the pods that have to leave the candidate's node, most important first.
func (f *Finder) victims(by *v1.Pod, c *scorer.PreemptionCandidate) ([]*v1.Pod, error) {
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
