package coordinator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync/atomic"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/shardsched/shardsched/coordinator/framework"
	"github.com/shardsched/shardsched/coordinator/objects"
	"github.com/shardsched/shardsched/coordinator/queue"
	"github.com/shardsched/shardsched/coordinator/rules"
)

// Guests are plugins that are compiled in beside the built-in ones, as their authors wrote them for
// kube-scheduler: on the loop from PreEnqueue to Permit, and off it afterwards.
//
// Differs from upstream:
//   - at PreFilter, Filter and Score they come after all built-in plugins, wherever the file has them;
//   - they are made anew when a term begins; while a process stands by there are none, but they were
//     made once as it started, to see whether they can be;
//   - what they tell the nominator, and whom they activate, counts from the loop's next turn on;
//   - a pod that one of them keeps Pending waits as one that it finds Unschedulable does, and backs off;
//   - at PreFilter, Filter and Score what they take and what the built-in plugins take is measured
//     apart, so that an attempt counts twice in the durations of these points;
//   - one that panics has failed: the attempt ends in an error, and the process goes on;
//   - in metrics, events of resources that only they wait for are all of the resource Other.
type Guests struct {
	// Registry has them by name, and Profiles are those that use any.
	Registry framework.Registry
	Profiles []framework.ProfileConfig
	// Environment is the template of what they get by their Handle. What the loop itself gives,
	// from Snapshot on, is filled in.
	Environment framework.Environment
	// Start runs the informers that plugins have asked for until ctx ends, and returns when they have
	// what there is; nil: nobody does that.
	Start func(ctx context.Context) error
	// Watch has changes of resources told that nothing but guests waits for, by the names that
	// they register; nil: nobody does that. old is nil where the object is new, and now where it
	// is gone.
	Watch func(resources []string, tell func(resource string, old, now any)) error
}

// guests are the guests of a term's scheduler.
type guests struct {
	env       *framework.Environment
	snapshot  *framework.Snapshot
	nominator *guestNominator
	profiles  map[string]*guestProfile
	// local are the informers that the loop feeds; nil: there is an API server.
	local *localInformers
}

// guestProfile is a profile with guests.
type guestProfile struct {
	*framework.Profile
	// filters and scores tell whether guests look at single nodes.
	filters, scores bool
	// cycles tells whether guests take part in attempts at all.
	cycles bool
	// filterNames are the guests of Filter.
	filterNames []string
}

// newGuests makes the plugins of all profiles; nil: there are none.
func newGuests(s *Scheduler, cfg *Guests) (*guests, error) {
	if cfg == nil || len(cfg.Profiles) == 0 {
		return nil, nil
	}
	registry, err := cfg.registry(s)
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
	g := &guests{local: local, env: &env, profiles: map[string]*guestProfile{}, nominator: &guestNominator{scheduler: s}}
	g.snapshot = framework.NewSnapshot(shown{s.cache})
	env.Snapshot, env.Nominator, env.Activator = g.snapshot, g.nominator, guestActivator{s}
	env.Met = s.guestMet
	env.Meter, env.Extenders = s.metrics.framework, s.Extenders()
	env.BuiltIn = func(string) framework.BuiltInRunner { return builtIns{} }
	for _, c := range cfg.Profiles {
		p, err := framework.NewProfile(s.life, c, registry, &env)
		if err != nil {
			return nil, errors.Join(notMade(c.Name, err), g.close())
		}
		g.profiles[c.Name] = &guestProfile{
			Profile: p, cycles: takesPart(p), filters: p.Guests(framework.Filter),
			scores:      p.Guests(framework.Score) || p.Guests(framework.PreScore),
			filterNames: slices.DeleteFunc(p.Plugins(framework.Filter), func(name string) bool { return cfg.Registry[name] == nil }),
		}
	}
	return g, nil
}

// Check makes the plugins of all profiles and closes them again: what is wrong with one, or with its
// arguments, is told as a process starts, and not when it comes to lead. They get informers that
// nobody starts. nil will do.
func (c *Guests) Check(ctx context.Context) error {
	if c == nil {
		return nil
	}
	registry, err := c.registry(nil)
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
	made := &guests{profiles: map[string]*guestProfile{}}
	for _, of := range c.Profiles {
		p, err := framework.NewProfile(ctx, of, registry, &env)
		if err != nil {
			return errors.Join(notMade(of.Name, err), made.close())
		}
		made.profiles[of.Name] = &guestProfile{Profile: p}
	}
	return made.close()
}

// notMade is upstream's error of a profile.
func notMade(profile string, err error) error {
	return fmt.Errorf("initializing profiles: creating profile for scheduler name %s: %w", profile, err)
}

// takesPart tells whether guests of a profile are called from PreFilter on.
func takesPart(p *framework.Profile) bool {
	return slices.ContainsFunc([]framework.Point{
		framework.PreFilter, framework.Filter, framework.PostFilter, framework.PreScore, framework.Score, framework.Reserve,
		framework.Permit, framework.PreBind, framework.Bind, framework.PostBind,
	}, p.Guests)
}

// registry is the guests with the built-in plugins, those that act on one pod among them.
func (c *Guests) registry(s *Scheduler) (framework.Registry, error) {
	r := framework.Registry{}
	if err := r.Merge(c.Registry); err != nil {
		return nil, err
	}
	var errs []error
	for _, built := range rules.All() {
		errs = append(errs, r.Register(built.Name, framework.BuiltIn(built.Name, acting(s, built.Name), built.Points...)))
	}
	return r, errors.Join(errs...)
}

// close closes the plugins.
func (g *guests) close() error {
	if g == nil {
		return nil
	}
	var errs []error
	for _, p := range g.profiles {
		errs = append(errs, p.Close())
	}
	return errors.Join(errs...)
}

// of is a pod's profile, nil where guests take no part in its attempts.
func (g *guests) of(p *v1.Pod) *guestProfile {
	if g == nil {
		return nil
	}
	if of := g.profiles[p.Spec.SchedulerName]; of != nil && of.cycles {
		return of
	}
	return nil
}

// changed notes that a node's view is out of date.
func (g *guests) changed(node string) {
	if g != nil {
		g.snapshot.Changed(node)
	}
}

// shown is what guests are shown of the loop's state.
type shown struct{ *state }

// Nodes is part of framework.Source.
func (s shown) Nodes() iter.Seq[*v1.Node] { return s.state.Cache.Objects() }

// PodsOn is part of framework.Source: by namespace and name.
func (s shown) PodsOn(node string) iter.Seq[*v1.Pod] {
	return slices.Values(slices.SortedFunc(s.state.Cache.PodsOn(node), func(a, b *v1.Pod) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	}))
}

var _ framework.Source = shown{}

// guestActivator has pods tried at once.
type guestActivator struct{ *Scheduler }

// Activate is part of fwk.PodActivator. It takes effect in the loop's next turn.
func (a guestActivator) Activate(_ klog.Logger, pods map[string]*v1.Pod) {
	uids := make([]types.UID, 0, len(pods))
	for _, p := range pods {
		uids = append(uids, p.UID)
	}
	a.inbox.put(func() { a.queue.Activate(uids...) })
}

// guestNominator shows the queue's nominations. Those that it has are as of the beginning of the
// newest cycle; what it is told takes effect in the loop's next turn.
type guestNominator struct {
	scheduler *Scheduler
	nodes     atomic.Pointer[map[string][]fwk.PodInfo]
	views     map[*v1.Pod]fwk.PodInfo // the loop's
}

var _ fwk.PodNominator = (*guestNominator)(nil)

// refresh takes the queue's nominations in.
func (n *guestNominator) refresh() {
	nodes := n.scheduler.queue.NominatedNodes()
	if len(nodes) == 0 {
		n.nodes.Store(nil)
		n.views = nil
		return
	}
	views, out := map[*v1.Pod]fwk.PodInfo{}, make(map[string][]fwk.PodInfo, len(nodes))
	for _, node := range nodes {
		for _, p := range n.scheduler.queue.Nominated(node) {
			v := n.views[p.Obj]
			if v == nil {
				v, _ = framework.NewPodInfo(p.Obj) // terms that can not be read are left out
			}
			views[p.Obj] = v
			out[node] = append(out[node], v)
		}
	}
	n.views = views
	n.nodes.Store(&out)
}

// NominatedPodsForNode is part of fwk.PodNominator.
func (n *guestNominator) NominatedPodsForNode(node string) []fwk.PodInfo {
	if m := n.nodes.Load(); m != nil {
		return (*m)[node]
	}
	return nil
}

// AddNominatedPod is part of fwk.PodNominator.
func (n *guestNominator) AddNominatedPod(_ klog.Logger, pod fwk.PodInfo, info *fwk.NominatingInfo) {
	node := pod.GetPod().Status.NominatedNodeName
	if info != nil && info.Mode() == fwk.ModeOverride {
		node = info.NominatedNodeName
	}
	n.nominate(pod.GetPod().UID, node)
}

// DeleteNominatedPodIfExists is part of fwk.PodNominator.
func (n *guestNominator) DeleteNominatedPodIfExists(pod *v1.Pod) { n.nominate(pod.UID, "") }

// UpdateNominatedPod is part of fwk.PodNominator.
func (n *guestNominator) UpdateNominatedPod(_ klog.Logger, _ *v1.Pod, pod fwk.PodInfo) {
	n.nominate(pod.GetPod().UID, pod.GetPod().Status.NominatedNodeName)
}

func (n *guestNominator) nominate(uid types.UID, node string) {
	n.scheduler.inbox.put(func() {
		if p := n.scheduler.queue.Get(uid); p != nil {
			n.scheduler.queue.Nominate(p, node)
		}
	})
}

// activate has the pods tried at once that a cycle's plugins have named.
func (s *Scheduler) activate(c *framework.Cycle) {
	for _, p := range c.ToActivate() {
		s.queue.Activate(p.UID)
	}
}

// changed takes in a change that only guests wait for, from any goroutine.
func (s *Scheduler) changed(resource string, old, now any) {
	s.inbox.put(func() { s.move(queue.Other(resource, old, now)) })
}

// preEnqueue asks the guests of a pod's profile whether they hold it back.
func (g *guests) preEnqueue(ctx context.Context) func(pod *v1.Pod, gated string) (string, string) {
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
			klog.FromContext(ctx).Error(status.AsError(), "Unexpected error running PreEnqueue plugin", "pod", klog.KObj(pod), "plugin", plugin)
		}
		return plugin, status.Message()
	}
}

// run runs the informers that guests have asked for, where the loop feeds them.
func (g *guests) run(ctx context.Context) {
	if g != nil && g.local != nil {
		g.local.run(ctx)
	}
}

// load tells guests' informers of all objects, saw of a change, and bound of a pod that nobody else
// will tell of.
func (g *guests) load(all *objects.Snapshot) {
	if g != nil && g.local != nil {
		g.local.load(all)
	}
}

func (g *guests) saw(e *objects.Event) {
	if g != nil && g.local != nil {
		g.local.set(e.Any(), e.Type == objects.Deleted)
	}
}

func (g *guests) bound(p *v1.Pod) {
	if g != nil && g.local != nil {
		g.local.set(p, false)
	}
}

// forQueue is what the queue has to know of guests; nil: there are none. tell is told of changes that
// only guests wait for.
func (g *guests) forQueue(ctx context.Context, cfg *Guests, tell func(resource string, old, now any)) (*queue.Guests, error) {
	if g == nil {
		return nil, nil
	}
	w := newGuestEvents(ctx)
	out := &queue.Guests{}
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
	if len(others) > 0 && cfg.Watch != nil {
		if err := cfg.Watch(others, tell); err != nil {
			return nil, err
		}
	}
	return out, nil
}
