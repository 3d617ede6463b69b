package framework

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
)

// script answers for all plugins of a run, the same for the same question, and notes each.
type script struct {
	seed  uint64
	nodes []string

	mu    sync.Mutex
	calls []string
}

// note keeps a call.
func (s *script) note(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = append(s.calls, fmt.Sprintf(format, args...))
}

// taken gives the calls so far and forgets them.
func (s *script) taken() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := strings.Join(s.calls, "\n")
	s.calls = nil
	return out
}

// draw is a number below n for a question.
func (s *script) draw(n int, question ...any) int {
	h := fnv.New64a()
	fmt.Fprintln(h, s.seed, question)
	x := h.Sum64()
	x ^= x >> 29
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 32
	return int(x % uint64(n))
}

// status draws one: mostly success, else one of the codes, with a reason or an error in it.
func (s *script) status(plugin, point, about string, codes ...fwk.Code) *fwk.Status {
	if s.draw(10, "ok", plugin, point, about) < 6 {
		return nil
	}
	code := codes[s.draw(len(codes), "code", plugin, point, about)]
	reason := fmt.Sprintf("%s of %s says %s", plugin, point, code)
	switch s.draw(3, "how", plugin, point, about) {
	case 0:
		return fwk.NewStatus(code, reason, "and that twice")
	case 1:
		return fwk.NewStatus(code, reason).WithError(errors.New("for a cause"))
	default:
		return fwk.NewStatus(code, reason)
	}
}

// every code but those that upstream crashes on at the point.
func every() []fwk.Code {
	return []fwk.Code{fwk.Success, fwk.Error, fwk.Unschedulable, fwk.UnschedulableAndUnresolvable, fwk.Wait, fwk.Skip, fwk.Pending}
}

// named is a plugin without any point.
type named string

func (n named) Name() string { return string(n) }

// scripted is a plugin of every point.
type scripted struct {
	named
	*script
	args string
}

// counter is what a plugin keeps: how many pods were added to what it has seen.
type counter struct{ n int }

func (c *counter) Clone() fwk.StateData { return &counter{c.n} }

func (p *scripted) counted(state fwk.CycleState) *counter {
	d, err := state.Read(fwk.StateKey(p.Name()))
	if err != nil {
		return &counter{-100}
	}
	return d.(*counter)
}

func (p *scripted) PreEnqueue(_ context.Context, pod *v1.Pod) *fwk.Status {
	p.note("PreEnqueue %s %s", p.Name(), pod.Name)
	return p.status(p.Name(), "PreEnqueue", pod.Name, every()...)
}

func (p *scripted) Less(a, b fwk.QueuedPodInfo) bool { return a.GetAttempts() < b.GetAttempts() }

func (p *scripted) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	return []fwk.ClusterEventWithHint{{Event: fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.Add}}}, nil
}

func (p *scripted) PreFilter(_ context.Context, state fwk.CycleState, pod *v1.Pod, nodes []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	p.note("PreFilter %s %s %d nodes", p.Name(), pod.Name, len(nodes))
	state.Write(fwk.StateKey(p.Name()), &counter{})
	var r *fwk.PreFilterResult
	if p.draw(3, "narrows", p.Name()) == 0 {
		r = &fwk.PreFilterResult{NodeNames: sets.New[string]()}
		for _, n := range p.nodes {
			if p.draw(3, "keeps", p.Name(), n) > 0 {
				r.NodeNames.Insert(n)
			}
		}
	}
	if p.draw(2, "kind", p.Name()) == 0 {
		return r, p.status(p.Name(), "PreFilter", pod.Name, fwk.Skip, fwk.Unschedulable)
	}
	return r, p.status(p.Name(), "PreFilter", pod.Name, every()...)
}

func (p *scripted) PreFilterExtensions() fwk.PreFilterExtensions {
	if p.draw(4, "extensions", p.Name()) == 0 {
		return nil
	}
	return p
}

func (p *scripted) AddPod(_ context.Context, state fwk.CycleState, pod *v1.Pod, other fwk.PodInfo, node fwk.NodeInfo) *fwk.Status {
	return p.moved(state, "AddPod", 1, other, node)
}

func (p *scripted) RemovePod(_ context.Context, state fwk.CycleState, pod *v1.Pod, other fwk.PodInfo, node fwk.NodeInfo) *fwk.Status {
	return p.moved(state, "RemovePod", -1, other, node)
}

func (p *scripted) moved(state fwk.CycleState, what string, by int, other fwk.PodInfo, node fwk.NodeInfo) *fwk.Status {
	c := p.counted(state)
	c.n += by
	p.note("%s %s %s on %s with %d", what, p.Name(), other.GetPod().Name, node.Node().Name, len(node.GetPods()))
	if p.draw(4, "moves", p.Name()) > 0 {
		return nil
	}
	return p.status(p.Name(), what, other.GetPod().Name, every()...)
}

func (p *scripted) Filter(_ context.Context, state fwk.CycleState, pod *v1.Pod, node fwk.NodeInfo) *fwk.Status {
	c := p.counted(state)
	p.note("Filter %s %s %s with %d, %d added, %dm", p.Name(), pod.Name, node.Node().Name, len(node.GetPods()), c.n, node.GetRequested().GetMilliCPU())
	codes := []fwk.Code{fwk.Unschedulable, fwk.UnschedulableAndUnresolvable, fwk.Pending}
	if p.draw(4, "odd", p.Name()) == 0 {
		codes = every()
	}
	return p.status(p.Name(), "Filter", fmt.Sprint(node.Node().Name, len(node.GetPods())), codes...)
}

func (p *scripted) PostFilter(_ context.Context, state fwk.CycleState, pod *v1.Pod, nodes fwk.NodeToStatusReader) (*fwk.PostFilterResult, *fwk.Status) {
	var saw []string
	for _, n := range p.nodes {
		saw = append(saw, nodes.Get(n).Code().String())
	}
	p.note("PostFilter %s %s %v", p.Name(), pod.Name, saw)
	var r *fwk.PostFilterResult
	switch p.draw(4, "result", p.Name()) {
	case 0:
		r = &fwk.PostFilterResult{NominatingInfo: &fwk.NominatingInfo{NominatedNodeName: p.nodes[0], NominatingMode: fwk.ModeOverride}}
	case 1:
		r = &fwk.PostFilterResult{NominatingInfo: &fwk.NominatingInfo{NominatingMode: fwk.ModeNoop}}
	case 2:
		r = &fwk.PostFilterResult{}
	}
	if p.draw(2, "helps", p.Name()) == 0 {
		return r, fwk.NewStatus(fwk.Unschedulable, "no use, says "+p.Name())
	}
	// Upstream crashes on Wait and Skip.
	return r, p.status(p.Name(), "PostFilter", "", fwk.Error, fwk.Unschedulable, fwk.UnschedulableAndUnresolvable, fwk.Pending)
}

func (p *scripted) PreScore(_ context.Context, _ fwk.CycleState, pod *v1.Pod, nodes []fwk.NodeInfo) *fwk.Status {
	p.note("PreScore %s %s %d nodes", p.Name(), pod.Name, len(nodes))
	if p.draw(3, "kind", p.Name()) > 0 {
		return p.status(p.Name(), "PreScore", "", fwk.Skip)
	}
	return p.status(p.Name(), "PreScore", "", every()...)
}

func (p *scripted) Score(_ context.Context, _ fwk.CycleState, pod *v1.Pod, node fwk.NodeInfo) (int64, *fwk.Status) {
	p.note("Score %s %s %s", p.Name(), pod.Name, node.Node().Name)
	score := int64(p.draw(101, "score", p.Name(), node.Node().Name))
	if p.draw(12, "scores", p.Name()) == 0 {
		return score - 20, nil
	}
	if p.draw(12, "fails", p.Name()) == 0 {
		return score, p.status(p.Name(), "Score", node.Node().Name, every()...)
	}
	return score, nil
}

func (p *scripted) ScoreExtensions() fwk.ScoreExtensions {
	if p.draw(2, "normalizes", p.Name()) == 0 {
		return nil
	}
	return p
}

func (p *scripted) NormalizeScore(_ context.Context, _ fwk.CycleState, pod *v1.Pod, scores fwk.NodeScoreList) *fwk.Status {
	p.note("Normalize %s %s %v", p.Name(), pod.Name, scores)
	for i := range scores {
		scores[i].Score = 100 - scores[i].Score
	}
	if p.draw(8, "normalize fails", p.Name()) == 0 {
		return p.status(p.Name(), "NormalizeScore", "", every()...)
	}
	return nil
}

func (p *scripted) Reserve(_ context.Context, _ fwk.CycleState, pod *v1.Pod, node string) *fwk.Status {
	p.note("Reserve %s %s %s", p.Name(), pod.Name, node)
	return p.status(p.Name(), "Reserve", node, every()...)
}

func (p *scripted) Unreserve(_ context.Context, _ fwk.CycleState, pod *v1.Pod, node string) {
	p.note("Unreserve %s %s %s", p.Name(), pod.Name, node)
}

func (p *scripted) Permit(_ context.Context, _ fwk.CycleState, pod *v1.Pod, node string) (*fwk.Status, time.Duration) {
	p.note("Permit %s %s %s", p.Name(), pod.Name, node)
	codes := []fwk.Code{fwk.Wait}
	if p.draw(3, "permits", p.Name()) == 0 {
		codes = every()
	}
	return p.status(p.Name(), "Permit", node, codes...), time.Duration(1+p.draw(30, "timeout", p.Name())) * time.Minute
}

func (p *scripted) PreBindPreFlight(_ context.Context, _ fwk.CycleState, pod *v1.Pod, node string) (*fwk.PreBindPreFlightResult, *fwk.Status) {
	p.note("PreBindPreFlight %s %s %s", p.Name(), pod.Name, node)
	var r *fwk.PreBindPreFlightResult
	if d := p.draw(3, "parallel", p.Name()); d > 0 {
		r = &fwk.PreBindPreFlightResult{AllowParallel: d == 1}
	}
	if p.draw(8, "preflights", p.Name()) == 0 {
		return r, p.status(p.Name(), "PreBindPreFlight", node, every()...)
	}
	return r, p.status(p.Name(), "PreBindPreFlight", node, fwk.Skip)
}

func (p *scripted) PreBind(ctx context.Context, _ fwk.CycleState, pod *v1.Pod, node string) *fwk.Status {
	p.note("PreBind %s %s %s", p.Name(), pod.Name, node)
	if ctx.Err() != nil {
		return fwk.AsStatus(ctx.Err())
	}
	if p.draw(3, "prebinds", p.Name()) > 0 {
		return nil
	}
	return p.status(p.Name(), "PreBind", node, every()...)
}

func (p *scripted) Bind(_ context.Context, _ fwk.CycleState, pod *v1.Pod, node string) *fwk.Status {
	p.note("Bind %s %s %s", p.Name(), pod.Name, node)
	if p.draw(2, "binds", p.Name()) == 0 {
		return fwk.NewStatus(fwk.Skip)
	}
	return p.status(p.Name(), "Bind", node, every()...)
}

func (p *scripted) PostBind(_ context.Context, _ fwk.CycleState, pod *v1.Pod, node string) {
	p.note("PostBind %s %s %s", p.Name(), pod.Name, node)
}

// onlyFilters, onlyScores, onlySorts and onlyBinds are plugins of one point.
type (
	onlyFilters struct {
		named
		p *scripted
	}
	onlyScores struct {
		named
		p *scripted
	}
	onlyBinds struct {
		named
		p *scripted
	}
	onlySorts struct{ named }
)

func (o onlyFilters) Filter(ctx context.Context, state fwk.CycleState, pod *v1.Pod, node fwk.NodeInfo) *fwk.Status {
	return o.p.Filter(ctx, state, pod, node)
}

func (o onlyScores) Score(ctx context.Context, state fwk.CycleState, pod *v1.Pod, node fwk.NodeInfo) (int64, *fwk.Status) {
	return o.p.Score(ctx, state, pod, node)
}
func (o onlyScores) ScoreExtensions() fwk.ScoreExtensions { return o.p.ScoreExtensions() }

func (o onlyBinds) Bind(ctx context.Context, state fwk.CycleState, pod *v1.Pod, node string) *fwk.Status {
	return o.p.Bind(ctx, state, pod, node)
}

func (o onlySorts) Less(a, b fwk.QueuedPodInfo) bool { return a.GetAttempts() > b.GetAttempts() }

// factories are those of the plugins that profiles are drawn of: A to E of every point, Filter,
// Score, Bind and Sort of one, and Broken, which can not be made.
func factories(s *script) map[string]func(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) {
	out := map[string]func(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error){}
	add := func(name string, make func(p *scripted) fwk.Plugin) {
		out[name] = func(_ context.Context, args runtime.Object, _ fwk.Handle) (fwk.Plugin, error) {
			p := &scripted{named: named(name), script: s}
			if u, ok := args.(*runtime.Unknown); ok {
				p.args = string(u.Raw)
			}
			return make(p), nil
		}
	}
	for _, name := range full() {
		add(name, func(p *scripted) fwk.Plugin { return p })
	}
	add("Filter", func(p *scripted) fwk.Plugin { return onlyFilters{p.named, p} })
	add("Score", func(p *scripted) fwk.Plugin { return onlyScores{p.named, p} })
	add("Bind", func(p *scripted) fwk.Plugin { return onlyBinds{p.named, p} })
	add("Sort", func(p *scripted) fwk.Plugin { return onlySorts{p.named} })
	add("Alias", func(p *scripted) fwk.Plugin { return onlyScores{"Other", p} })
	out["Broken"] = func(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) {
		return nil, errors.New("not today")
	}
	return out
}

func full() []string { return []string{"A", "B", "C", "D", "E"} }

// text is all that can be told of a status.
func text(s *fwk.Status) string {
	if s == nil {
		return "ok"
	}
	return fmt.Sprintf("%s by %q: %q, error %v", s.Code(), s.Plugin(), s.Reasons(), s.AsError())
}

func sorted(s sets.Set[string]) string {
	if s == nil {
		return "none"
	}
	list := s.UnsortedList()
	slices.Sort(list)
	return fmt.Sprint(list)
}
