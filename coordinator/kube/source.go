package kube

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/shardsched/shardsched/coordinator/objects"
)

// SourceConfig is what a Source is made of.
type SourceConfig struct {
	// Client lists and watches. Neither it nor Metadata should be rate limited: a new leader
	// waits for both.
	Client kubernetes.Interface
	// Metadata makes the consistent reads of CatchUp.
	Metadata metadata.Interface
	// Clock is the clock; nil: the real one.
	Clock clock.WithTicker
	// Whole are the objects that somebody wants whole: all others are cut down to what is read
	// of them.
	Whole Whole
	// PodGroups has PodGroups read. An API server that does not serve them ends WaitSynced with ErrNoPodGroups.
	PodGroups bool
}

// Source is the API server's objects as informers keep them: one informer for each of Kinds. Make it, Run it, and use it from any
// goroutine. All objects are shared: nobody may change them.
type Source struct {
	cfg      SourceConfig
	sources  []*source // in the order of objects.Kinds
	pods     cache.Store
	nodes    cache.Store
	troubles *troubles
	trimmer  *trimmer
	// stopped is closed when Run ends.
	stopped chan struct{}
	// lacking is closed when the API server was found not to serve PodGroups.
	lacking chan struct{}

	mu         sync.Mutex
	subscribed bool
}

// source is one kind's informer.
type source struct {
	kind     objects.Kind
	informer cache.SharedIndexInformer
	store    cache.Store
	// there tells whether the API server has the kind; nil: every one has.
	there *presence
}

// IsLarge tells whether it takes an API server long to patch a pod. Objects that are kept whole tell that themselves.
func (s *Source) IsLarge(p *v1.Pod) bool { return s.trimmer.large.Contains(p.UID) }

// NewSource makes the informers; Run starts them.
func NewSource(cfg SourceConfig) (*Source, error) {
	if cfg.Clock == nil {
		cfg.Clock = clock.RealClock{}
	}
	s := &Source{cfg: cfg, troubles: newTroubles(cfg.Clock), trimmer: newTrimmer(cfg.Whole), stopped: make(chan struct{}),
		lacking: make(chan struct{})}
	var told sync.Once
	for _, k := range Kinds(cfg.PodGroups) {
		var there *presence
		switch {
		case k.OfDevices():
			there = &presence{discovery: cfg.Client.Discovery(), version: k.GroupVersion(), told: func() { told.Do(tellNoDevices) }}
		case k == objects.KindPodGroup:
			there = &presence{discovery: cfg.Client.Discovery(), version: k.GroupVersion(), needed: true,
				told: sync.OnceFunc(func() { close(s.lacking) })}
		}
		i := newInformer(cfg.Client, k, s.troubles, there, cfg.Clock.After)
		if err := errors.Join(i.SetTransform(s.trimmer.transform),
			i.SetWatchErrorHandlerWithContext(s.troubles.handler(k, there))); err != nil {
			return nil, fmt.Errorf("informer of %s: %w", k.Plural(), err)
		}
		one := &source{kind: k, informer: i, store: i.GetStore(), there: there}
		switch k {
		case objects.KindPod:
			s.pods = one.store
		case objects.KindNode:
			s.nodes = one.store
		}
		s.sources = append(s.sources, one)
	}
	return s, nil
}

// Run keeps the objects until ctx ends. It is called once.
func (s *Source) Run(ctx context.Context) error {
	defer close(s.stopped)
	logger := klog.FromContext(ctx)
	s.troubles.logTo(logger)
	ctx = klog.NewContext(ctx, logger.V(2)) // each informer tells of each watch that ends
	var all sync.WaitGroup
	for _, one := range s.sources {
		all.Go(func() { one.informer.RunWithContext(ctx) })
	}
	all.Wait()
	return nil
}

// Synced tells whether all objects were there once.
func (s *Source) Synced() bool { return len(s.unsynced()) == 0 }

// Ready is nil if all objects were there once, or an error that names the kinds that were not,
// and why.
func (s *Source) Ready() error {
	waiting := s.unsynced()
	if len(waiting) == 0 {
		return nil
	}
	return errors.New(s.describe(waiting))
}

// unsynced are the kinds whose objects were never there yet.
func (s *Source) unsynced() []objects.Kind {
	var out []objects.Kind
	for _, one := range s.sources {
		if !one.informer.HasSynced() {
			out = append(out, one.kind)
		}
	}
	return out
}

// describe says what is wrong with kinds: "not synced: pods (forbidden: …), nodes".
func (s *Source) describe(kinds []objects.Kind) string {
	var b strings.Builder
	b.WriteString("not synced: ")
	for i, k := range kinds {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(k.Plural())
		if why := s.troubles.of(k); why != nil {
			fmt.Fprintf(&b, " (%v)", why)
		}
	}
	return b.String()
}

// waitLog is how often what is waited for is logged.
const waitLog = 10 * time.Second

// WaitSynced returns when all objects were there once. It says every ten seconds what it is
// waiting for, and so does its error when ctx ends.
func (s *Source) WaitSynced(ctx context.Context) error {
	ticker := s.cfg.Clock.NewTicker(waitLog)
	defer ticker.Stop()
	for _, one := range s.sources {
		done := one.informer.HasSyncedChecker().Done()
		for waiting := true; waiting; {
			select {
			case <-done:
				waiting = false
			case <-ticker.C():
				klog.FromContext(ctx).Info("Waiting for the API server's objects", "cause", s.describe(s.unsynced()))
			case <-s.lacking:
				return ErrNoPodGroups
			case <-s.stopped:
				return fmt.Errorf("%s: %w", s.describe(s.unsynced()), ErrStopped)
			case <-ctx.Done():
				return fmt.Errorf("%s: %w", s.describe(s.unsynced()), context.Cause(ctx))
			}
		}
	}
	return nil
}

// Pod is the newest object of a pod, nil where it is gone. It is never older than what a
// subscriber was told last: informers store an object before they tell of it.
func (s *Source) Pod(p *v1.Pod) *v1.Pod {
	if now := s.PodNamed(p.Namespace, p.Name); now != nil && now.UID == p.UID {
		return now
	}
	return nil
}

// PodNamed is the newest object of the pod that has a name now, nil where none has.
func (s *Source) PodNamed(namespace, name string) *v1.Pod {
	p, _ := lookUp(s.pods, namespace+"/"+name).(*v1.Pod)
	return p
}

// Node is the newest object of a node, nil where there is none (any more).
func (s *Source) Node(name string) *v1.Node {
	n, _ := lookUp(s.nodes, name).(*v1.Node)
	return n
}

// Pods are the newest objects of all pods, in no order.
func (s *Source) Pods() []*v1.Pod { return listOf[*v1.Pod](s.pods) }

// Nodes are the newest objects of all nodes, in no order.
func (s *Source) Nodes() []*v1.Node { return listOf[*v1.Node](s.nodes) }

func lookUp(in cache.Store, key string) any {
	obj, _, _ := in.GetByKey(key)
	return obj
}

func listOf[T any](in cache.Store) []T {
	all := in.List()
	out := make([]T, 0, len(all))
	for _, obj := range all {
		if x, ok := obj.(T); ok {
			out = append(out, x)
		}
	}
	return slices.Clip(out)
}
