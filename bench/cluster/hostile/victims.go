package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"

	"github.com/shardsched/shardsched/bench/cluster/controlplane/testbed"
	"github.com/shardsched/shardsched/internal/testkit/build"
)

// creators is how many victims are being made at once at the most.
const creators = 256

// victims is the stream of plain pods.
type victims struct {
	bed       *testbed.Bed
	namespace string
	rate      int
	begin     time.Time

	mu    sync.Mutex
	sent  []time.Time // by index
	bound []time.Time // by index; zero: not yet
	left  int         // how many are not bound
	done  chan struct{}
}

// newVictims watches the namespace from now on, for n pods.
func newVictims(ctx context.Context, bed *testbed.Bed, namespace string, n, rate int) (*victims, error) {
	v := &victims{
		bed: bed, namespace: namespace, rate: rate, left: n, done: make(chan struct{}),
		sent: make([]time.Time, n), bound: make([]time.Time, n),
	}
	// The bed's own watch is of all pods, among which an attacker's large ones would hold up the clock.
	factory := informers.NewSharedInformerFactoryWithOptions(bed.Admin, 0, informers.WithNamespace(namespace))
	registration, err := factory.Core().V1().Pods().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { v.see(o.(*v1.Pod)) },
		UpdateFunc: func(_, o any) { v.see(o.(*v1.Pod)) },
	})
	if err != nil {
		return nil, err
	}
	factory.StartWithContext(ctx)
	if !cache.WaitForCacheSync(ctx.Done(), registration.HasSynced) {
		return nil, fmt.Errorf("watch namespace %s: %w", namespace, ctx.Err())
	}
	return v, nil
}

func (v *victims) see(p *v1.Pod) {
	i, err := strconv.Atoi(strings.TrimPrefix(p.Name, "victim-"))
	if err != nil || p.Spec.NodeName == "" {
		return
	}
	now := time.Now()
	v.mu.Lock()
	defer v.mu.Unlock()
	if !v.bound[i].IsZero() {
		return
	}
	v.bound[i] = now
	if v.left--; v.left == 0 {
		close(v.done)
	}
}

// due is when the i-th pod is made.
func (v *victims) due(i int) time.Time {
	return v.begin.Add(time.Duration(i) * time.Second / time.Duration(v.rate))
}

// come makes all pods, each at its time.
func (v *victims) come(ctx context.Context) error {
	g, in := errgroup.WithContext(ctx)
	g.SetLimit(creators)
	for i := range v.sent {
		if !sleep(in, time.Until(v.due(i))) {
			break
		}
		g.Go(func() error {
			p := build.Pod(fmt.Sprintf("victim-%d", i)).Namespace(v.namespace).Label("app", "victim").CPU("10m").Memory("16Mi").Obj()
			v.mu.Lock()
			v.sent[i] = time.Now()
			v.mu.Unlock()
			return v.bed.Create(in, p)
		})
	}
	return errors.Join(g.Wait(), ctx.Err())
}

// await returns when all are bound, or after d.
func (v *victims) await(ctx context.Context, d time.Duration) {
	select {
	case <-v.done:
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// latencies are those of the pods from index i to j, in milliseconds; a pod that is not bound has waited until now.
func (v *victims) latencies(i, j int) (p50, p99 float64, unbound int) {
	now := time.Now()
	v.mu.Lock()
	defer v.mu.Unlock()
	var all []float64
	for k := i; k < j; k++ {
		bound := v.bound[k]
		if bound.IsZero() {
			unbound++
			bound = now
		}
		all = append(all, bound.Sub(v.sent[k]).Seconds()*1e3)
	}
	slices.Sort(all)
	return all[len(all)/2], all[len(all)*99/100], unbound
}
