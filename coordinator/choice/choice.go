package choice

import (
	"context"
	"time"

	"github.com/shardsched/shardsched/coordinator/answers"
	"github.com/shardsched/shardsched/coordinator/aside"
	"github.com/shardsched/shardsched/coordinator/compile"
	"github.com/shardsched/shardsched/coordinator/extenders"
	"github.com/shardsched/shardsched/coordinator/fanout"
	"github.com/shardsched/shardsched/coordinator/framework"
	"github.com/shardsched/shardsched/coordinator/nominees"
	"github.com/shardsched/shardsched/coordinator/outoftree"
	"github.com/shardsched/shardsched/coordinator/preempt"
	"github.com/shardsched/shardsched/coordinator/queue"
	"github.com/shardsched/shardsched/coordinator/state"
	"github.com/shardsched/shardsched/coordinator/tracing"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// Try is what a choice knows of an attempt.
type Try struct {
	Pod     *queue.Pod
	Profile *compile.Profile
	Class   *compile.Class
	Trace   *tracing.Attempt // nil: it has none
	// Plugins and Extenders are what they make of the pod; nil: they have no say in it.
	Plugins   *outoftree.Review
	Extenders *extenders.Review
	// Advice is what extenders have left of the candidates of its preemption; nil: they were not asked.
	Advice *preempt.Advice
	// Ineligible is why DefaultPreemption is not to find victims for it; empty: it may.
	Ineligible string
	// As is the priority that it preempts with; nil: its own.
	As *int32
	// Within is the domain whose nodes the pod may get; zero: any.
	Within answers.Domain

	question answers.Question
}

// Reviews are what the reviewers made of the nodes in the attempt, for people. chosen is the pod's node; empty: it has none.
func (t *Try) Reviews(chosen string) []*pb.Review {
	return append(t.Plugins.ByReviewer(chosen), t.Extenders.ByReviewer(chosen)...)
}

// Ending is how an attempt ends short of a node.
type Ending struct {
	// Answer is that of the pod's class, with reasons; nil: no node was looked at.
	Answer *answers.Answer
	// Message tells why, and By are the plugins that have refused the pod.
	Message string
	By      []string
	// Failed is an error instead.
	Failed error
	// Parked: it has not ended, but waits for a reviewer.
	Parked bool
}

// Config is what a Chooser is made of.
type Config struct {
	State     *state.State
	Engine    *answers.Engine
	Nominees  *nominees.Cache
	OutOfTree *outoftree.Plugins // nil: there are none
	Workers   *fanout.Fanout
	// Fetch gives the engine the answer that it needs. An error ends the loop.
	Fetch   func(context.Context, *Try, *answers.Need) error
	Aside   *aside.Aside
	Preempt *preempt.Finder
	// Charge notes how long it took to find a pod's victims.
	Charge func(*queue.Pod, time.Duration)
	Meter  framework.Meter
	Now    func() time.Time
}

// Chooser chooses rows. Only the loop calls it.
type Chooser struct{ Config }

// New makes a Chooser.
func New(cfg Config) *Chooser { return &Chooser{cfg} }

// Question is what a pod asks the decision engine, but for its nominees: to list them takes a look at each node with nominated pods.
func (c *Chooser) Question(t *Try) *answers.Question {
	plugins := c.OutOfTree.Of(t.Pod.Obj)
	t.question = answers.Question{
		Class: t.Class, Node: t.Pod.Nomination(), Within: t.Within,
		Alone: plugins != nil || t.Extenders != nil, Reviewed: t.Extenders != nil || plugins.FiltersOrScores(),
	}
	return &t.question
}

// Choose takes the best row, by the answer that the class has or shares: the pod's own nominated node before all others. Where
// nobody reviews the pod the engine chooses among groups, and never looks at single rows. An error ends the loop.
func (c *Chooser) Choose(ctx context.Context, t *Try) (best answers.Choice, reviewed bool, end *Ending, err error) {
	q := c.Question(t)
	q.Nominees = c.Nominees.Of(t.Pod.Obj, t.Class, t.Pod.Backfills).ForEngine()
	// Reviewers stand behind the rules' PreFilters, which the class has passed, and before the choice, for they need an answer of
	// the pod's own class, which may have to be asked for.
	reviewers, end, err := c.reviewers(ctx, t, q)
	switch {
	case err != nil || end != nil:
	case len(reviewers) > 0:
		reviewed = true
		best, end, err = c.chooseReviewed(ctx, t, q, reviewers)
	default:
		best, end, err = c.choose(ctx, t, q)
	}
	return best, reviewed, end, err
}

// choose takes the best row for a pod that nobody reviews.
func (c *Chooser) choose(ctx context.Context, t *Try, q *answers.Question) (answers.Choice, *Ending, error) {
	best, found, err := c.engineBest(ctx, t, q)
	switch {
	case err != nil:
		return best, nil, err
	case best.Fatal != nil:
		return best, &Ending{Failed: c.claimsFail(t.Pod.Obj, best.Fatal)}, nil
	case !found:
		own, _ := c.Engine.Own(q)
		message, by := c.refusal(own, t, answers.Reasons{})
		return best, &Ending{Answer: own, Message: message, By: by}, nil
	case best.Feasible > 1 && t.Class.ScoreError != nil:
		// A single node is not scored, so nothing is wrong with it.
		return best, &Ending{Failed: t.Class.ScoreError}, nil
	}
	return best, nil, nil
}

// engineBest is what the engine chooses, once it lacks nothing.
func (c *Chooser) engineBest(ctx context.Context, t *Try, q *answers.Question) (best answers.Choice, found bool, err error) {
	t.Trace.Begin(tracing.Merge)
	defer t.Trace.End(tracing.Merge)
	for {
		best, found, need := c.Engine.Best(q)
		if need == nil {
			return best, found, nil
		}
		if err := c.Fetch(ctx, t, need); err != nil {
			return best, false, err
		}
	}
}

// Copies are how many pods like one nodes take, and the domains of label keys. An error ends the loop.
func (c *Chooser) Copies(ctx context.Context, t *Try, keys []string) (answers.Copies, error) {
	t.Within = answers.Domain{}
	q := c.Question(t)
	q.Nominees = c.Nominees.Of(t.Pod.Obj, t.Class, t.Pod.Backfills).ForEngine()
	for {
		copies, need := c.Engine.Copies(q, keys...)
		if need == nil {
			return copies, nil
		}
		if err := c.Fetch(ctx, t, need); err != nil {
			return copies, err
		}
	}
}

// Rejected is the end of a pod that a PreFilter has rejected on all nodes.
func (c *Chooser) Rejected(r *compile.Rejection, within answers.Domain) *Ending {
	return &Ending{Message: answers.FitError(c.Engine.NodesWithin(within), nil) + " " + r.Message + ".", By: r.Plugins}
}

// refusal words why no node takes the pod, and names the plugins that refuse it. more is counted besides.
func (c *Chooser) refusal(answer *answers.Answer, t *Try, more answers.Reasons) (string, []string) {
	if own := c.Engine.LeftOut(t.Class, t.Pod.Nomination()); own != nil {
		with, instead := own.Reasons(answer, c.Nominees.Of(t.Pod.Obj, t.Class, t.Pod.Backfills).ByRow()[own.Row].ForEngine())
		more.Add(with, -1)
		more.Add(instead, +1)
	}
	return answer.Message(c.Engine.NodesWithin(t.Within), more)
}
