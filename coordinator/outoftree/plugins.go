package outoftree

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/shardsched/shardsched/coordinator/cache"
	"github.com/shardsched/shardsched/coordinator/compile"
	"github.com/shardsched/shardsched/coordinator/framework"
	"github.com/shardsched/shardsched/coordinator/metrics"
	"github.com/shardsched/shardsched/coordinator/objects"
	"github.com/shardsched/shardsched/coordinator/queue"
	"github.com/shardsched/shardsched/coordinator/rules"
	"github.com/shardsched/shardsched/scorer"
	"github.com/shardsched/shardsched/scorer/scan"
)

// Config is what a term's plugins are made of.
type Config struct {
	// Registry has the plugins by name, and Profiles are those that use any.
	Registry framework.Registry
	Profiles []framework.ProfileConfig
	// Environment is the template of what they get by their Handle. What the loop itself gives,
	// from Snapshot on, is filled in.
	Environment framework.Environment
	// Start runs the informers that plugins have asked for until ctx ends, and returns when they have
	// what there is; nil: nobody does that.
	Start func(ctx context.Context) error
	// Watch has changes of resources told that nothing but plugins waits for, by the names that
	// they register; nil: nobody does that. old is nil where the object is new, and now where it
	// is gone.
	Watch func(resources []string, tell func(resource string, old, now any)) error
}

// Loop is what plugins need of the scheduling loop.
type Loop interface {
	// Later runs a function on the loop's goroutine, in a turn to come. Any goroutine may call it.
	Later(do func())
	// Activate has pods that wait tried at once.
	Activate(pods ...types.UID)
	// Nominated yields the pods that wait and are nominated to a node, node by node.
	Nominated(yield func(node string, p *v1.Pod) bool)
	// Nominate has a pod that waits nominated to a node, or to none; another is left alone.
	Nominate(pod types.UID, node string)
	// Joining is what tables do not know of a node's row when some pods have joined it, and others left, for a pod of a class.
	Joining(row cache.Row, node string, joined, left []*v1.Pod, pod *v1.Pod, class *compile.Class) *scorer.RowCheck
}

// Options are what the loop gives to a term's plugins.
type Options struct {
	Loop    Loop
	Cache   *cache.Cache
	Metrics *metrics.Set
	Meter   framework.Meter
	Now     func() time.Time
	// Extenders are those of the configuration.
	Extenders []fwk.Extender
	// Acts gives what runs of a built-in plugin that acts on one pod; nil: its part is done elsewhere.
	Acts func(name string) framework.PluginFactory
	// PreBinding are the pods whose PreBind is at work.
	PreBinding *framework.PodsInPreBind
	// Met is told where a plugin has panicked, on any goroutine.
	Met func(plugin, point string, why *scan.Panic)
}

// Plugins are the out-of-tree plugins of a term. A nil one stands for none.
type Plugins struct {
	Options
	cfg       *Config
	env       *framework.Environment
	snapshot  *framework.Snapshot
	nominator *nominator
	profiles  map[string]*Profile
	// local are the informers that the loop feeds; nil: there is an API server.
	local *localInformers
}

// Profile is a profile with out-of-tree plugins.
type Profile struct {
	*framework.Profile
	// filters and scores tell whether they look at single nodes.
	filters, scores bool
	// cycles tells whether they take part in attempts at all.
	cycles bool
	// filterNames are the out-of-tree plugins of Filter.
	filterNames []string
}

// New makes the plugins of all profiles; nil: there are none. They live as long as ctx.
func New(ctx context.Context, cfg *Config, o Options) (*Plugins, error) {
	if cfg == nil || len(cfg.Profiles) == 0 {
		return nil, nil
	}
	registry, err := cfg.registry(o.Acts)
	if err != nil {
		return nil, err
	}
	env := cfg.Environment
	var local *localInformers
	if env.Informers == nil {
		if env.ClientSet, local, err = newLocal(); err != nil {
			return nil, err
		}
		env.Informers = local
	}
	g := &Plugins{Options: o, cfg: cfg, local: local, env: &env, profiles: map[string]*Profile{}, nominator: &nominator{loop: o.Loop}}
	g.snapshot = framework.NewSnapshot(shown{o.Cache})
	env.Snapshot, env.Nominator, env.Activator = g.snapshot, g.nominator, activator{o.Loop}
	env.Met, env.PreBinding = o.Met, o.PreBinding
	env.Meter, env.Extenders = o.Meter, o.Extenders
	env.BuiltIn = func(string) framework.BuiltInRunner { return builtIns{} }
	for _, c := range cfg.Profiles {
		p, err := framework.NewProfile(ctx, c, registry, &env)
		if err != nil {
			return nil, errors.Join(notMade(c.Name, err), g.Close())
		}
		g.profiles[c.Name] = &Profile{
			Profile: p, cycles: takesPart(p), filters: p.OutOfTree(framework.Filter),
			scores:      p.OutOfTree(framework.Score) || p.OutOfTree(framework.PreScore),
			filterNames: slices.DeleteFunc(p.Plugins(framework.Filter), func(name string) bool { return cfg.Registry[name] == nil }),
		}
	}
	return g, nil
}

// Check makes the plugins of all profiles and closes them again: what is wrong with one, or with its
// arguments, is told as a process starts, and not when it comes to lead. They get informers that
// nobody starts. nil will do.
func (c *Config) Check(ctx context.Context) error {
	if c == nil {
		return nil
	}
	registry, err := c.registry(func(string) framework.PluginFactory { return nil })
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	env := c.Environment
	if env.ClientSet != nil {
		env.Informers = informers.NewSharedInformerFactory(env.ClientSet, 0)
	} else if env.ClientSet, env.Informers, err = newLocal(); err != nil {
		return err
	}
	made := &Plugins{profiles: map[string]*Profile{}}
	for _, of := range c.Profiles {
		p, err := framework.NewProfile(ctx, of, registry, &env)
		if err != nil {
			return errors.Join(notMade(of.Name, err), made.Close())
		}
		made.profiles[of.Name] = &Profile{Profile: p}
	}
	return made.Close()
}

// notMade is upstream's error of a profile.
func notMade(profile string, err error) error {
	return fmt.Errorf("initializing profiles: creating profile for scheduler name %s: %w", profile, err)
}

// takesPart tells whether out-of-tree plugins of a profile are called from PreFilter on.
func takesPart(p *framework.Profile) bool {
	return slices.ContainsFunc([]framework.Point{
		framework.PreFilter, framework.Filter, framework.PostFilter, framework.PreScore, framework.Score, framework.Reserve,
		framework.Permit, framework.PreBind, framework.Bind, framework.PostBind,
	}, p.OutOfTree)
}

// registry is the out-of-tree plugins with the built-in ones, those that act on one pod among them.
func (c *Config) registry(acts func(name string) framework.PluginFactory) (framework.Registry, error) {
	r := framework.Registry{}
	if err := r.Merge(c.Registry); err != nil {
		return nil, err
	}
	var errs []error
	for _, built := range rules.All() {
		errs = append(errs, r.Register(built.Name, framework.BuiltIn(built.Name, acts(built.Name), built.Points...)))
	}
	return r, errors.Join(errs...)
}

// Close closes the plugins.
func (g *Plugins) Close() error {
	if g == nil {
		return nil
	}
	var errs []error
	for _, p := range g.profiles {
		errs = append(errs, p.Close())
	}
	return errors.Join(errs...)
}

// Of is a pod's profile; nil: out-of-tree plugins take no part in its attempts.
func (g *Plugins) Of(p *v1.Pod) *Profile {
	if g == nil {
		return nil
	}
	if of := g.profiles[p.Spec.SchedulerName]; of != nil && of.cycles {
		return of
	}
	return nil
}

// Changed notes that a node's view is out of date.
func (g *Plugins) Changed(node string) {
	if g != nil {
		g.snapshot.Changed(node)
	}
}

// shown is what plugins are shown of the loop's state.
type shown struct{ *cache.Cache }

// Nodes is part of framework.Source.
func (s shown) Nodes() iter.Seq[*v1.Node] { return s.Objects() }

// PodsOn is part of framework.Source: by namespace and name.
func (s shown) PodsOn(node string) iter.Seq[*v1.Pod] {
	return slices.Values(slices.SortedFunc(s.Cache.PodsOn(node), func(a, b *v1.Pod) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	}))
}

var _ framework.Source = shown{}

// activator has pods tried at once.
type activator struct{ loop Loop }

// Activate is part of fwk.PodActivator. It takes effect in the loop's next turn.
func (a activator) Activate(_ klog.Logger, pods map[string]*v1.Pod) {
	uids := make([]types.UID, 0, len(pods))
	for _, p := range pods {
		uids = append(uids, p.UID)
	}
	a.loop.Later(func() { a.loop.Activate(uids...) })
}

// nominator shows the queue's nominations. Those that it has are as of the beginning of the
// newest cycle; what it is told takes effect in the loop's next turn.
type nominator struct {
	loop  Loop
	nodes atomic.Pointer[map[string][]fwk.PodInfo]
	views map[*v1.Pod]fwk.PodInfo // the loop's
}

var _ fwk.PodNominator = (*nominator)(nil)

// refresh takes the queue's nominations in.
func (n *nominator) refresh() {
	views, out := map[*v1.Pod]fwk.PodInfo{}, map[string][]fwk.PodInfo{}
	for node, p := range n.loop.Nominated {
		v := n.views[p]
		if v == nil {
			v, _ = framework.NewPodInfo(p) // terms that can not be read are left out
		}
		views[p] = v
		out[node] = append(out[node], v)
	}
	if len(out) == 0 {
		n.nodes.Store(nil)
		n.views = nil
		return
	}
	n.views = views
	n.nodes.Store(&out)
}

// NominatedPodsForNode is part of fwk.PodNominator.
func (n *nominator) NominatedPodsForNode(node string) []fwk.PodInfo {
	if m := n.nodes.Load(); m != nil {
		return (*m)[node]
	}
	return nil
}

// AddNominatedPod is part of fwk.PodNominator.
func (n *nominator) AddNominatedPod(_ klog.Logger, pod fwk.PodInfo, info *fwk.NominatingInfo) {
	node := pod.GetPod().Status.NominatedNodeName
	if info != nil && info.Mode() == fwk.ModeOverride {
		node = info.NominatedNodeName
	}
	n.nominate(pod.GetPod().UID, node)
}

// DeleteNominatedPodIfExists is part of fwk.PodNominator.
func (n *nominator) DeleteNominatedPodIfExists(pod *v1.Pod) { n.nominate(pod.UID, "") }

// UpdateNominatedPod is part of fwk.PodNominator.
func (n *nominator) UpdateNominatedPod(_ klog.Logger, _ *v1.Pod, pod fwk.PodInfo) {
	n.nominate(pod.GetPod().UID, pod.GetPod().Status.NominatedNodeName)
}

func (n *nominator) nominate(uid types.UID, node string) {
	n.loop.Later(func() { n.loop.Nominate(uid, node) })
}

// preEnqueue asks the out-of-tree plugins of a pod's profile whether they hold it back.
func (g *Plugins) preEnqueue(ctx context.Context) func(pod *v1.Pod, gated string) (string, string) {
	return func(pod *v1.Pod, gated string) (string, string) {
		p := g.profiles[pod.Spec.SchedulerName]
		if p == nil {
			return "", ""
		}
		plugin, status := p.PreEnqueue(ctx, pod, gated)
		if status.IsSuccess() {
			return "", ""
		}
		if status.IsError() {
			klog.FromContext(ctx).Error(status.AsError(), "Unexpected error running PreEnqueue plugin", "pod", klog.KObj(pod), "plugin",
				plugin)
		}
		return plugin, status.Message()
	}
}

// Run runs the informers that plugins have asked for, where the loop feeds them.
func (g *Plugins) Run(ctx context.Context) {
	if g != nil && g.local != nil {
		g.local.run(ctx)
	}
}

// Load tells plugins' informers of all objects, Saw of a change, and Bound of a pod that nobody else
// will tell of.
func (g *Plugins) Load(all *objects.Snapshot) {
	if g != nil && g.local != nil {
		g.local.load(all)
	}
}

func (g *Plugins) Saw(e *objects.Event) {
	if g != nil && g.local != nil {
		g.local.set(e.Any(), e.Type == objects.Deleted)
	}
}

func (g *Plugins) Bound(p *v1.Pod) {
	if g != nil && g.local != nil {
		g.local.set(p, false)
	}
}

// ForQueue is what the queue has to know of plugins; nil: there are none. tell is told of changes that
// only they wait for.
func (g *Plugins) ForQueue(ctx context.Context, tell func(resource string, old, now any)) (*queue.OutOfTree, error) {
	if g == nil {
		return nil, nil
	}
	w := newEvents(ctx)
	out := &queue.OutOfTree{}
	for _, p := range g.profiles {
		if p.Runs(framework.PreEnqueue) {
			out.PreEnqueue = g.preEnqueue(ctx)
		}
		if less := p.Less(); less != nil {
			out.Less = lessOf(less)
		}
		if err := w.add(p); err != nil {
			return nil, err
		}
	}
	var others []string
	out.Plugins, others = w.plugins()
	if len(others) > 0 && g.cfg.Watch != nil {
		if err := g.cfg.Watch(others, tell); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// CallOff ends the binding cycle of a pod that waits on Permit, for the sake of a preemptor: off is false where it is too late for
// that. waits tells whether there is such a pod.
func (g *Plugins) CallOff(uid types.UID, plugin string) (off, waits bool) {
	if g == nil {
		return false, false
	}
	if w := g.env.Waiting.Get(uid); w != nil {
		return w.Preempt(plugin, "preempted"), true
	}
	return false, false
}

// RejectWaiting has a pod that is gone, or about to be, wait on Permit no longer; false: it did not.
func (g *Plugins) RejectWaiting(uid types.UID) bool { return g != nil && g.env.Waiting.Reject(uid) }

// FiltersOrScores tells whether out-of-tree plugins look at single nodes. A nil profile has none.
func (p *Profile) FiltersOrScores() bool { return p != nil && (p.filters || p.scores) }

// Choosing names the out-of-tree plugins that have a say in a pod's node.
func (g *Plugins) Choosing(pod *v1.Pod) (names []string) {
	p := g.Of(pod)
	if p == nil {
		return nil
	}
	for _, at := range []framework.Point{framework.PreFilter, framework.Filter, framework.PreScore, framework.Score} {
		for _, name := range p.Plugins(at) {
			if g.cfg.Registry[name] != nil && !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return names
}
