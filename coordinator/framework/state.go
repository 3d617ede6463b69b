package framework

import (
	"sync"
	"sync/atomic"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
)

// CycleState is what plugins keep of one pod's cycle. Any goroutine may use it.
type CycleState struct {
	data sync.Map // fwk.StateKey → fwk.StateData
	mu   sync.Mutex
	// marks is replaced under mu, and never written to.
	marks atomic.Pointer[marks]
}

var _ fwk.CycleState = (*CycleState)(nil)

// marks are the framework's own notes.
type marks struct {
	skipFilter, skipScore, skipPreBind, parallelPreBind sets.Set[string]
	skipPostFilter                                      bool
	podGroup                                            fwk.PodGroupCycleState
}

// NewCycleState is an empty state.
func NewCycleState() *CycleState {
	s := &CycleState{}
	s.marks.Store(&marks{})
	return s
}

// mark changes the notes.
func (s *CycleState) mark(change func(*marks)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := *s.marks.Load()
	change(&m)
	s.marks.Store(&m)
}

// ShouldRecordPluginMetrics is part of fwk.CycleState: always.
func (s *CycleState) ShouldRecordPluginMetrics() bool { return s != nil }

// GetSkipFilterPlugins is part of fwk.CycleState.
func (s *CycleState) GetSkipFilterPlugins() sets.Set[string] { return s.marks.Load().skipFilter }

// SetSkipFilterPlugins is part of fwk.CycleState.
func (s *CycleState) SetSkipFilterPlugins(plugins sets.Set[string]) {
	s.mark(func(m *marks) { m.skipFilter = plugins })
}

// GetSkipScorePlugins is part of fwk.CycleState.
func (s *CycleState) GetSkipScorePlugins() sets.Set[string] { return s.marks.Load().skipScore }

// SetSkipScorePlugins is part of fwk.CycleState.
func (s *CycleState) SetSkipScorePlugins(plugins sets.Set[string]) {
	s.mark(func(m *marks) { m.skipScore = plugins })
}

// GetSkipPreBindPlugins is part of fwk.CycleState.
func (s *CycleState) GetSkipPreBindPlugins() sets.Set[string] { return s.marks.Load().skipPreBind }

// SetSkipPreBindPlugins is part of fwk.CycleState.
func (s *CycleState) SetSkipPreBindPlugins(plugins sets.Set[string]) {
	s.mark(func(m *marks) { m.skipPreBind = plugins })
}

// GetParallelPreBindPlugins is part of fwk.CycleState.
func (s *CycleState) GetParallelPreBindPlugins() sets.Set[string] {
	return s.marks.Load().parallelPreBind
}

// SetParallelPreBindPlugins is part of fwk.CycleState.
func (s *CycleState) SetParallelPreBindPlugins(plugins sets.Set[string]) {
	s.mark(func(m *marks) { m.parallelPreBind = plugins })
}

// ShouldSkipAllPostFilterPlugins is part of fwk.CycleState.
func (s *CycleState) ShouldSkipAllPostFilterPlugins() bool { return s.marks.Load().skipPostFilter }

// SetSkipAllPostFilterPlugins sets what ShouldSkipAllPostFilterPlugins tells.
func (s *CycleState) SetSkipAllPostFilterPlugins(skip bool) {
	s.mark(func(m *marks) { m.skipPostFilter = skip })
}

// IsPodGroupSchedulingCycle is part of fwk.CycleState.
func (s *CycleState) IsPodGroupSchedulingCycle() bool { return s.marks.Load().podGroup != nil }

// GetPodGroupSchedulingCycle is part of fwk.CycleState.
func (s *CycleState) GetPodGroupSchedulingCycle() fwk.PodGroupCycleState {
	return s.marks.Load().podGroup
}

// SetPodGroupSchedulingCycle is part of fwk.CycleState.
func (s *CycleState) SetPodGroupSchedulingCycle(g fwk.PodGroupCycleState) {
	s.mark(func(m *marks) { m.podGroup = g })
}

// Read is part of fwk.CycleState.
func (s *CycleState) Read(key fwk.StateKey) (fwk.StateData, error) {
	if v, ok := s.data.Load(key); ok {
		return v.(fwk.StateData), nil
	}
	return nil, fwk.ErrNotFound
}

// Write is part of fwk.CycleState.
func (s *CycleState) Write(key fwk.StateKey, val fwk.StateData) { s.data.Store(key, val) }

// Delete is part of fwk.CycleState.
func (s *CycleState) Delete(key fwk.StateKey) { s.data.Delete(key) }

// Clone is part of fwk.CycleState: what plugins keep is cloned by its own Clone.
func (s *CycleState) Clone() fwk.CycleState {
	if s == nil {
		return nil
	}
	return s.clone()
}

func (s *CycleState) clone() *CycleState {
	c := &CycleState{}
	s.data.Range(func(key, value any) bool {
		c.data.Store(key, value.(fwk.StateData).Clone())
		return true
	})
	c.marks.Store(s.marks.Load())
	return c
}

// PodsToActivateKey is where each cycle's state has a *PodsToActivate.
const PodsToActivateKey fwk.StateKey = "kubernetes.io/pods-to-activate"

// PodsToActivate are pods that a plugin wants tried at once, if this cycle, or the binding that
// follows, ends well.
type PodsToActivate struct {
	sync.Mutex
	// Map is by namespace/name.
	Map map[string]*v1.Pod
}

// Clone is part of fwk.StateData: clones share the pods.
func (p *PodsToActivate) Clone() fwk.StateData { return p }

// take gives the pods and forgets them; nil: there are none.
func (p *PodsToActivate) take() map[string]*v1.Pod {
	p.Lock()
	defer p.Unlock()
	if len(p.Map) == 0 {
		return nil
	}
	taken := p.Map
	p.Map = map[string]*v1.Pod{}
	return taken
}
