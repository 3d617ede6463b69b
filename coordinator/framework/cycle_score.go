package framework

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
)

// PreScore runs the PreScore plugins over the nodes that the pod fits.
func (c *Cycle) PreScore(ctx context.Context, nodes []fwk.NodeInfo) *fwk.Status {
	return c.profile.runPreScore(ctx, c.state, c.pod, nodes)
}

// Score gives, for each node, the score of each plugin times its weight, and their sum.
func (c *Cycle) Score(ctx context.Context, nodes []fwk.NodeInfo) ([]fwk.NodePluginScores, *fwk.Status) {
	return c.runner().runScore(ctx, c.state, c.pod, nodes)
}

func (p *Profile) runPreScore(ctx context.Context, state fwk.CycleState, pod *v1.Pod, nodes []fwk.NodeInfo) (s *fwk.Status) {
	start, skip := p.env.Clock.Now(), sets.New[string]()
	defer func() {
		state.SetSkipScorePlugins(skip)
		p.pointRan(PreScore.String(), s, start)
	}()
	for _, pl := range p.preScore {
		s := p.call(pl, PreScore.String(), func() *fwk.Status { return pl.PreScore(p.named(ctx, PreScore, pl), state, pod, nodes) })
		if s.IsSkip() {
			skip.Insert(pl.Name())
			continue
		}
		p.env.Meter.Evaluated(p.name, pl.Name(), PreScore.String())
		if !s.IsSuccess() {
			return fwk.AsStatus(fmt.Errorf("running PreScore plugin %q: %w", pl.Name(), s.AsError()))
		}
	}
	return nil
}

// scoring is one run of the Score plugins.
type scoring struct {
	runner
	state   fwk.CycleState
	pod     *v1.Pod
	nodes   []fwk.NodeInfo
	plugins []fwk.ScorePlugin
	// scores are by plugin and node.
	scores []fwk.NodeScoreList
}

func (r runner) runScore(ctx context.Context, state fwk.CycleState, pod *v1.Pod,
	nodes []fwk.NodeInfo) (out []fwk.NodePluginScores, s *fwk.Status) {
	start := r.env.Clock.Now()
	defer func() { r.pointRan(Score.String(), s, start) }()
	run := scoring{runner: r, state: state, pod: pod, nodes: nodes}
	skip := state.GetSkipScorePlugins()
	for _, pl := range r.Profile.score {
		if !skip.Has(pl.Name()) {
			run.plugins = append(run.plugins, pl)
			run.scores = append(run.scores, make(fwk.NodeScoreList, len(nodes)))
		}
	}
	var builtIn [][]fwk.PluginScore
	if r.builtIn != nil {
		if builtIn, s = r.builtIn.Score(ctx, state, pod, nodes); !s.IsSuccess() {
			return nil, s
		}
	}
	if len(run.plugins) > 0 {
		if err := run.each(ctx, len(nodes), run.score); err != nil {
			return nil, fwk.AsStatus(fmt.Errorf("running Score plugins: %w", err))
		}
		if err := run.each(ctx, len(run.plugins), run.normalize); err != nil {
			return nil, fwk.AsStatus(fmt.Errorf("running Normalize on Score plugins: %w", err))
		}
	}
	out, err := run.weigh(builtIn)
	if err != nil {
		return nil, fwk.AsStatus(fmt.Errorf("applying score defaultWeights on Score plugins: %w", err))
	}
	return out, nil
}

// each does pieces of work, several at once. The first error ends it, and so does the context.
func (r *scoring) each(ctx context.Context, pieces int, do func(ctx context.Context, piece int) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var failed failure[error]
	parallelizer(r.env.Parallelism).Until(ctx, pieces, func(piece int) {
		if err := do(ctx, piece); err != nil {
			failed.note(piece, err)
			cancel()
		}
	}, Score.String())
	if err, ok := failed.get(); ok {
		return err
	}
	return context.Cause(ctx)
}

// score scores a node.
func (r *scoring) score(ctx context.Context, i int) error {
	node := r.nodes[i]
	for k, pl := range r.plugins {
		r.env.Meter.Evaluated(r.name, pl.Name(), Score.String())
		var score int64
		s := r.call(pl, Score.String(), func() (s *fwk.Status) {
			score, s = pl.Score(r.named(ctx, Score, pl), r.state, r.pod, node)
			return s
		})
		if !s.IsSuccess() {
			return fmt.Errorf("plugin %q failed with: %w", pl.Name(), s.AsError())
		}
		r.scores[k][i] = fwk.NodeScore{Name: node.Node().Name, Score: score}
	}
	return nil
}

// normalize normalizes the scores of a plugin.
func (r *scoring) normalize(ctx context.Context, k int) error {
	pl := r.plugins[k]
	extensions := pl.ScoreExtensions()
	if extensions == nil {
		return nil
	}
	s := r.call(pl, scoreNormalize, func() *fwk.Status {
		return extensions.NormalizeScore(r.named(ctx, Score, pl), r.state, r.pod, r.scores[k])
	})
	if !s.IsSuccess() {
		return fmt.Errorf("plugin %q failed with: %w", pl.Name(), s.AsError())
	}
	return nil
}

// weigh adds up the scores of each node, after those of built-in plugins.
func (r *scoring) weigh(builtIn [][]fwk.PluginScore) ([]fwk.NodePluginScores, error) {
	out := make([]fwk.NodePluginScores, len(r.nodes))
	for i, node := range r.nodes {
		o := fwk.NodePluginScores{Name: node.Node().Name, Scores: make([]fwk.PluginScore, 0, len(r.plugins))}
		if builtIn != nil {
			o.Scores = append(o.Scores, builtIn[i]...)
		}
		for k, pl := range r.plugins {
			score := r.scores[k][i].Score
			if score > fwk.MaxScore || score < fwk.MinScore {
				return nil, fmt.Errorf("plugin %q returns an invalid score %v, it should in the range of [%v, %v] after normalizing",
					pl.Name(), score, fwk.MinScore, fwk.MaxScore)
			}
			o.Scores = append(o.Scores, fwk.PluginScore{Name: pl.Name(), Score: score * r.weights[pl.Name()]})
		}
		for _, s := range o.Scores {
			o.TotalScore += s.Score
		}
		out[i] = o
	}
	return out, nil
}
