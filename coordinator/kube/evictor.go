package kube

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/shardsched/shardsched/coordinator/objects"
)

const (
	// evictionsInFlight is how many victims are told to leave at once at the most, unless said
	// otherwise.
	evictionsInFlight = 64
	// evictionTries is how often one request is made before the preemption is given up.
	evictionTries = 8
)

// EvictorConfig is what an Evictor is made of.
type EvictorConfig struct {
	Clients *Clients
	// Reporter writes the victims' events, and knows the nominations that are not written yet.
	Reporter *Reporter
	// Pod is the newest version of a pod that the informers know; nil: it is gone. It is called
	// on any goroutine.
	Pod func(*v1.Pod) *v1.Pod
	// InFlight is how many victims are told to leave at once at the most; 0: 64.
	InFlight int
	// Clock; nil: the real one.
	Clock clock.WithTicker
}

// Evictor carries preemptions out on the API server. It is a coordinator.Evictor, with a client
// of its own: no bind waits behind an eviction.
//
//	lower nominations cleared ──> all victims but the last, together ──> the last ──> done
//
//	a victim:  PATCH condition ──> DELETE ──> event Preempted
//	              └─────────────────┴──> gone, replaced or on its way out: nothing more to do
//
// A nomination that can not be cleared does not keep the victims from leaving; a victim that can
// not be told to leave keeps those that were not begun. Either is an error in the end.
//
// Differs from upstream: a victim is meant by its uid. Another pod that has taken its name is
// left alone.
type Evictor struct {
	sender   *sender
	reporter *Reporter
	newest   func(*v1.Pod) *v1.Pod
	clock    clock.WithTicker
	slots    chan struct{}
	running  sync.WaitGroup
}

// NewEvictor makes one.
func NewEvictor(cfg EvictorConfig) *Evictor {
	if cfg.InFlight <= 0 {
		cfg.InFlight = evictionsInFlight
	}
	if cfg.Clock == nil {
		cfg.Clock = clock.RealClock{}
	}
	return &Evictor{
		sender: cfg.Clients.evictions, reporter: cfg.Reporter, newest: cfg.Pod, clock: cfg.Clock,
		slots: make(chan struct{}, cfg.InFlight),
	}
}

// Run returns when ctx has ended, and with it the evictions.
func (e *Evictor) Run(ctx context.Context) error {
	<-ctx.Done()
	e.running.Wait()
	return nil
}

// Evict is part of coordinator.Evictor. The error that done gets wraps lease.ErrDeposed where
// this process does not lead any more.
func (e *Evictor) Evict(ctx context.Context, x objects.Eviction, done func(error)) {
	e.running.Go(func() { done(e.evict(ctx, &x)) })
}

func (e *Evictor) evict(ctx context.Context, x *objects.Eviction) error {
	log := klog.FromContext(ctx).WithValues("preemptor", klog.KObj(x.Preemptor), "node", x.Node)
	ctx = klog.NewContext(ctx, log)
	log.V(2).Info("Start the preemption", "victims", len(x.Victims), "lowerNominations", len(x.Lower))
	err := e.denominate(ctx, x)
	if n := len(x.Victims); n > 0 {
		err = errors.Join(err, e.together(ctx, x, x.Victims[:n-1], x.Victims[n-1]))
	}
	if err != nil {
		log.Error(err, "Preemption is not complete")
		return fmt.Errorf("preempt on %s for %s: %w", x.Node, x.By(), err)
	}
	log.V(2).Info("Preemption is complete")
	return nil
}

// together has victims leave, and after them the last one.
func (e *Evictor) together(ctx context.Context, x *objects.Eviction, victims []*v1.Pod, last *v1.Pod) error {
	g, all := errgroup.WithContext(ctx)
	for _, v := range victims {
		g.Go(func() error { return e.victim(all, x, v) })
	}
	if err := g.Wait(); err != nil {
		return err
	}
	return e.victim(ctx, x, last)
}

// victim has one pod leave.
func (e *Evictor) victim(ctx context.Context, x *objects.Eviction, v *v1.Pod) error {
	select {
	case e.slots <- struct{}{}:
		defer func() { <-e.slots }()
	case <-ctx.Done():
		return fmt.Errorf("victim %s/%s: %w", v.Namespace, v.Name, ctx.Err())
	}
	left, err := e.leave(ctx, x, v)
	if err != nil {
		return fmt.Errorf("victim %s/%s: %w", v.Namespace, v.Name, err)
	}
	if left {
		klog.FromContext(ctx).V(2).Info("Preempted", "victim", klog.KObj(v))
		e.reporter.events.preempted(v, x, false) // it was deleted
	} else {
		klog.FromContext(ctx).V(2).Info("Victim is gone already", "victim", klog.KObj(v))
	}
	return nil
}

// leave writes why a victim leaves, and deletes it. It is false where it was gone, or leaving
// already.
func (e *Evictor) leave(ctx context.Context, x *objects.Eviction, v *v1.Pod) (bool, error) {
	now := e.newest(v)
	if now == nil || now.DeletionTimestamp != nil {
		return false, nil
	}
	if patch := disruptionPatch(now, x.Message(), e.clock.Now()); patch != nil {
		a, _, err := e.ask(ctx, request{
			method: http.MethodPatch, path: podPath(v, "/status"), template: statusTemplate, kind: kindEviction,
			contentType: strategicPatchType, accept: e.sender.partial(), body: patch,
		})
		if err != nil {
			return false, fmt.Errorf("condition: %w", err)
		}
		if a.verdict() != ok {
			return false, e.unlessGone(ctx, v, a)
		}
	}
	a, again, err := e.ask(ctx, request{
		method: http.MethodDelete, path: podPath(v, ""), template: podTemplate, kind: kindEviction,
		contentType: jsonType, accept: e.sender.partial(), body: deletion(v.UID),
	})
	switch {
	case err != nil:
		return false, fmt.Errorf("delete: %w", err)
	case a.verdict() == ok:
		return true, nil
	case again && a.missing():
		return true, nil // it was deleted by a request whose answer was lost
	}
	return false, e.unlessGone(ctx, v, a)
}

// unlessGone is nil where a request was refused because the victim is gone, replaced or on its
// way out.
func (e *Evictor) unlessGone(ctx context.Context, v *v1.Pod, refused *answer) error {
	if refused.missing() {
		return nil
	}
	pod, err := e.get(ctx, v)
	switch {
	case err != nil:
		return errors.Join(refused, err)
	case pod == nil || pod.DeletionTimestamp != nil:
		return nil
	}
	return refused
}

// get reads a pod as of now; nil: it is gone, or replaced by another.
func (e *Evictor) get(ctx context.Context, p *v1.Pod) (*v1.Pod, error) {
	a, _, err := e.ask(ctx, request{method: http.MethodGet, path: podPath(p, ""), template: podTemplate})
	switch {
	case err != nil:
		return nil, err
	case a.missing():
		return nil, nil
	case a.code != http.StatusOK:
		return nil, a
	}
	var pod v1.Pod
	if err := decodeInto(a.body, &pod); err != nil {
		return nil, err
	}
	if pod.UID != p.UID {
		return nil, nil
	}
	return &pod, nil
}

// ask sends a request until it has an answer that is none of "not now", or an error ends it.
// again tells whether an earlier try was left open.
func (e *Evictor) ask(ctx context.Context, r request) (a *answer, again bool, err error) {
	for n := 1; ; n++ {
		a, err = e.sender.send(ctx, r)
		v := e.sender.judge(a, err)
		why := cause(a, err)
		switch v {
		case ok, refused:
			return a, again, nil
		case open:
			again = true
		}
		if end := e.sender.ended(ctx); end != nil {
			return nil, again, unfinished(nil, why, end)
		}
		if v == deposed || n == evictionTries {
			return nil, again, fmt.Errorf("after %d tries: %w", n, why)
		}
		wait := waitBefore(n, a)
		klog.FromContext(ctx).V(3).Info("Preemption is not written yet, trying again",
			"request", r.method+" "+r.path, "try", n, "wait", wait, "err", why)
		if !pause(ctx, e.clock, wait) {
			return nil, again, unfinished(nil, why, ctx.Err())
		}
	}
}

// denominate clears the nominations that yield to the preemptor's.
func (e *Evictor) denominate(ctx context.Context, x *objects.Eviction) error {
	g := errgroup.Group{}
	g.SetLimit(cap(e.slots))
	errs := make([]error, len(x.Lower))
	for i, p := range x.Lower {
		g.Go(func() error {
			if errs[i] = e.clear(ctx, p, x.Node); errs[i] != nil {
				errs[i] = fmt.Errorf("clear the nominated node of %s/%s: %w", p.Namespace, p.Name, errs[i])
			}
			return nil
		})
	}
	_ = g.Wait() // each has its own error
	return errors.Join(errs...)
}

// clear takes a pod's nominated node away, if it is that node: in what is still to be written,
// and in what is.
func (e *Evictor) clear(ctx context.Context, p *v1.Pod, node string) error {
	e.reporter.status.withdraw(p, node)
	for n := 1; ; n++ {
		now, err := e.get(ctx, p)
		if err != nil || now == nil || now.Status.NominatedNodeName != node || now.Spec.NodeName != "" {
			return err
		}
		a, _, err := e.ask(ctx, request{
			method: http.MethodPatch, path: podPath(p, "/status"), template: statusTemplate, kind: kindEviction,
			contentType: strategicPatchType, accept: e.sender.partial(), body: statusPatch(now, &report{nominate: true}, e.clock.Now()),
		})
		switch {
		case err != nil:
			return err
		case a.verdict() == ok || a.missing():
			return nil
		case a.code != http.StatusConflict || n == evictionTries:
			return a
		}
	}
}

// disruptionPatch is the condition of a pod that has to leave; nil: it has that already.
func disruptionPatch(pod *v1.Pod, message string, now time.Time) []byte {
	c, changed := nextCondition(pod, v1.PodCondition{
		Type: v1.DisruptionTarget, Status: v1.ConditionTrue, Reason: v1.PodReasonPreemptionByScheduler, Message: message,
	}, now)
	if !changed {
		return nil
	}
	return mustJSON(podPatch{Metadata: preconditions{UID: pod.UID}, Status: statusChange{Conditions: []v1.PodCondition{c}}})
}

// deletion is the body of a DELETE that means one pod, and leaves the time that it takes to the
// pod.
func deletion(uid types.UID) []byte {
	return mustJSON(metav1.DeleteOptions{
		TypeMeta:      metav1.TypeMeta{Kind: "DeleteOptions", APIVersion: "v1"},
		Preconditions: metav1.NewUIDPreconditions(string(uid)),
	})
}
