package framework

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	configv1 "k8s.io/kube-scheduler/config/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/shardsched/shardsched/scorer/scan"
)

// ProfileConfig is one profile of a configuration.
type ProfileConfig struct {
	// Name is the scheduler name.
	Name string
	// Plugins are the sets of the file with the defaults already merged in. A plugin of the
	// multi-point is at each point that it implements, as upstream expands it.
	Plugins configv1.Plugins
	// Args are the arguments of plugins, each once.
	Args []PluginArgs
}

// PluginArgs are what one plugin's factory gets.
type PluginArgs struct {
	Name string
	Args runtime.Object
}

// Profile is the plugins of one profile, each made once, and what they run in. Any goroutine may
// use it.
type Profile struct {
	name string
	env  *Environment
	// plugins are by their names in the configuration, made in the order of names.
	plugins map[string]fwk.Plugin
	names   []string
	// lists are the plugins of each point in order, built-in ones included, by the names of the
	// configuration.
	lists   [NumPoints][]string
	weights map[string]int64
	events  []fwk.EnqueueExtensions

	preEnqueue []fwk.PreEnqueuePlugin
	queueSort  fwk.QueueSortPlugin // nil: it is built in
	preFilter  []fwk.PreFilterPlugin
	filter     []fwk.FilterPlugin
	preScore   []fwk.PreScorePlugin
	score      []fwk.ScorePlugin
	reserve    []fwk.ReservePlugin
	permit     []fwk.PermitPlugin
	preBind    []fwk.PreBindPlugin
	bind       []fwk.BindPlugin
	postBind   []fwk.PostBindPlugin

	handle *handle
}

// NewProfile makes the plugins of a profile and puts them into order. The texts of its errors are
// upstream's. env is completed, and must stay as it is from then on; profiles of one scheduler
// share it.
func NewProfile(ctx context.Context, c ProfileConfig, r Registry, env *Environment) (*Profile, error) {
	env.complete()
	p := &Profile{name: c.Name, env: env, plugins: map[string]fwk.Plugin{}}
	p.handle = newHandle(p)
	args, err := c.args()
	if err != nil {
		return nil, err
	}
	if err := p.make(ctx, c.needed(), args, r); err != nil {
		return nil, errors.Join(err, p.Close())
	}
	if err := p.arrange(&c); err != nil {
		return nil, errors.Join(err, p.Close())
	}
	p.resolve()
	return p, nil
}

// args are the arguments by plugin.
func (c *ProfileConfig) args() (map[string]runtime.Object, error) {
	out := make(map[string]runtime.Object, len(c.Args))
	for _, a := range c.Args {
		if _, twice := out[a.Name]; twice {
			return nil, fmt.Errorf("repeated config for plugin %s", a.Name)
		}
		out[a.Name] = a.Args
	}
	return out, nil
}

// needed names the plugins that any set enables, each once: the multi-point's come first.
func (c *ProfileConfig) needed() []string {
	var names []string
	add := func(set *configv1.PluginSet) {
		for _, e := range set.Enabled {
			if !slices.Contains(names, e.Name) {
				names = append(names, e.Name)
			}
		}
	}
	add(&c.Plugins.MultiPoint)
	for at := range NumPoints {
		add(at.Of(&c.Plugins))
	}
	return names
}

// make makes the plugins that there are of those needed.
func (p *Profile) make(ctx context.Context, needed []string, args map[string]runtime.Object, r Registry) error {
	for _, name := range needed {
		factory, ok := r[name]
		if !ok {
			continue // where it is enabled tells which error that is
		}
		made, err := factory(ctx, args[name], p.handle)
		if err != nil {
			return fmt.Errorf("initializing plugin %q: %w", name, err)
		}
		if made == nil {
			return fmt.Errorf("initializing plugin %q: the factory made none", name)
		}
		p.plugins[name], p.names = made, append(p.names, name)
		if e := eventsOf(made); e != nil {
			p.events = append(p.events, e)
		}
	}
	return nil
}

// resolve finds what runs at each point.
func (p *Profile) resolve() {
	p.preFilter = list[fwk.PreFilterPlugin](p, PreFilter)
	p.filter = list[fwk.FilterPlugin](p, Filter)
	p.reserve = list[fwk.ReservePlugin](p, Reserve)
	p.preScore = list[fwk.PreScorePlugin](p, PreScore)
	p.score = list[fwk.ScorePlugin](p, Score)
	p.preBind = list[fwk.PreBindPlugin](p, PreBind)
	p.bind = list[fwk.BindPlugin](p, Bind)
	p.postBind = list[fwk.PostBindPlugin](p, PostBind)
	p.permit = list[fwk.PermitPlugin](p, Permit)
	p.preEnqueue = list[fwk.PreEnqueuePlugin](p, PreEnqueue)
	if sort := list[fwk.QueueSortPlugin](p, QueueSort); len(sort) > 0 {
		p.queueSort = sort[0]
	}
}

// list is what runs at a point.
func list[T fwk.Plugin](p *Profile, at Point) []T {
	var out []T
	for _, name := range p.lists[at] {
		if a := acting(p.plugins[name], at); a != nil {
			out = append(out, a.(T))
		}
	}
	return out
}

// Name is the scheduler name.
func (p *Profile) Name() string { return p.name }

// Handle is what the profile's plugins have.
func (p *Profile) Handle() fwk.Handle { return p.handle }

// Plugins names the plugins of a point in order, built-in ones included.
func (p *Profile) Plugins(at Point) []string { return slices.Clone(p.lists[at]) }

// Weight is that of a plugin of Score; 0: it is none.
func (p *Profile) Weight(plugin string) int64 { return p.weights[plugin] }

// Runs tells whether anything runs here at a point: an out-of-tree plugin, or a built-in plugin that acts.
func (p *Profile) Runs(at Point) bool {
	return slices.ContainsFunc(p.lists[at], func(name string) bool { return acting(p.plugins[name], at) != nil })
}

// OutOfTree tells whether any plugin of a point is not built in.
func (p *Profile) OutOfTree(at Point) bool {
	return slices.ContainsFunc(p.lists[at], func(name string) bool {
		_, ours := p.plugins[name].(*builtIn)
		return !ours
	})
}

// PreEnqueue asks whether a pod may enter the queue. gated is the plugin that held it back before,
// which is asked first; empty: none did. It gives the plugin that holds the pod back and its
// status; a success, and no plugin, where none does.
func (p *Profile) PreEnqueue(ctx context.Context, pod *v1.Pod, gated string) (plugin string, status *fwk.Status) {
	start := p.env.Clock.Now()
	// As upstream's, whose status is always this one.
	defer func() { p.pointRan(PreEnqueue.String(), nil, start) }()
	for _, first := range []bool{true, false} {
		for _, pl := range p.preEnqueue {
			if (pl.Name() == gated) != first {
				continue
			}
			s := p.call(pl, PreEnqueue.String(), func() *fwk.Status { return pl.PreEnqueue(p.named(ctx, PreEnqueue, pl), pod) })
			if !s.IsSuccess() {
				return pl.Name(), s
			}
		}
	}
	return "", nil
}

// Less orders the queue; nil: the built-in PrioritySort does. Where it panics, neither pod is before the other.
func (p *Profile) Less() fwk.LessFunc {
	if p.queueSort == nil {
		return nil
	}
	return func(a, b fwk.QueuedPodInfo) (before bool) {
		defer func() {
			if v := recover(); v != nil {
				before = false
				p.env.Met(p.queueSort.Name(), QueueSort.String(), scan.Recovered(v))
			}
		}()
		return p.queueSort.Less(a, b)
	}
}

// Events are the plugins that wait for events, one for each out-of-tree plugin that may turn a pod away: with
// what it registers, or every event where it says nothing. Built-in plugins are left out.
func (p *Profile) Events() []fwk.EnqueueExtensions { return slices.Clone(p.events) }

// Close closes each plugin that is an io.Closer.
func (p *Profile) Close() error {
	var errs []error
	for _, name := range p.names {
		plugin := p.plugins[name]
		if b, ok := plugin.(*builtIn); ok {
			plugin = b.acts
		}
		if c, ok := plugin.(io.Closer); ok {
			if err := c.Close(); err != nil {
				errs = append(errs, fmt.Errorf("%s failed to close: %w", name, err))
			}
		}
	}
	return errors.Join(errs...)
}

// pointRan measures a point.
func (p *Profile) pointRan(point string, s *fwk.Status, start time.Time) {
	p.env.Meter.Point(p.name, point, s.Code().String(), p.env.Clock.Since(start))
}

// call calls a plugin, and measures it. A panic is an error of the plugin's: it ends one attempt, not the process.
func (p *Profile) call(pl fwk.Plugin, point string, do func() *fwk.Status) (s *fwk.Status) {
	start := p.env.Clock.Now()
	defer func() {
		if v := recover(); v != nil {
			why := scan.Recovered(v)
			s = fwk.AsStatus(why)
			p.env.Met(pl.Name(), point, why)
		}
		p.pluginRan(pl, point, s, start)
	}()
	return do()
}

// pluginRan measures a plugin.
func (p *Profile) pluginRan(pl fwk.Plugin, point string, s *fwk.Status, start time.Time) {
	p.env.Meter.Plugin(pl.Name(), point, s.Code().String(), p.env.Clock.Since(start))
}
