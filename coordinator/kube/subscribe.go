package kube

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/shardsched/shardsched/coordinator/objects"
)

// ErrStopped says that Run has ended.
var ErrStopped = errors.New("the source has stopped")

// Subscribe returns the objects as they are, and has every change after that delivered, each
// object's in order, until stop is called: no later than that returns, deliver has returned
// for the last time. What comes while deliver runs is handed over in one piece after it.
// It waits for objects that were never there yet. There can be one subscription at a time.
//
// An event's Revision is the object's resourceVersion, and the Snapshot's is the highest of
// them. Pods are in the order of their creation, everything else by name.
func (s *Source) Subscribe(deliver func([]objects.Event)) (all *objects.Snapshot, stop func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.subscribed {
		return nil, nil, errors.New("subscribed already")
	}
	sub := &subscription{ready: make(chan struct{}, 1), done: make(chan struct{})}
	for _, one := range s.sources {
		if err := sub.join(one, s.stopped); err != nil {
			sub.leave()
			return nil, nil, fmt.Errorf("subscribe to %s: %w", one.kind.Plural(), err)
		}
	}
	all = snapshot(sub.take())
	all.NoDevices = slices.ContainsFunc(s.sources, func(one *source) bool { return one.there.isAbsent() })
	s.subscribed = true
	var pump sync.WaitGroup
	pump.Go(func() { sub.pump(deliver) })
	return all, sync.OnceFunc(func() {
		sub.leave()
		close(sub.done)
		pump.Wait()
		s.mu.Lock()
		defer s.mu.Unlock()
		s.subscribed = false
	}), nil
}

// subscription gathers changes from the informers' goroutines and hands them on.
//
//	informers ──handler──> queued ──take──> snapshot, once
//	                         └─────take──> deliver, as long as it lasts
type subscription struct {
	mu     sync.Mutex
	queued []objects.Event
	// ready holds one token while queued is not empty.
	ready chan struct{}
	done  chan struct{} // closed by stop
	joint []joint
}

// joint is a handler that is registered with an informer.
type joint struct {
	informer cache.SharedIndexInformer
	handle   cache.ResourceEventHandlerRegistration
}

// join registers with an informer, which repeats what it has as new and then goes on with
// what changes, and waits for all that it has.
func (s *subscription) join(one *source, stopped <-chan struct{}) error {
	handle, err := one.informer.AddEventHandler(handler{s, one.kind})
	if err != nil {
		return err
	}
	s.joint = append(s.joint, joint{one.informer, handle})
	select {
	case <-handle.HasSyncedChecker().Done():
		return nil
	case <-stopped:
		return ErrStopped
	}
}

func (s *subscription) leave() {
	for _, j := range s.joint {
		_ = j.informer.RemoveEventHandler(j.handle) // it fails where there is nothing to remove
	}
}

func (s *subscription) put(events ...objects.Event) {
	s.mu.Lock()
	s.queued = append(s.queued, events...)
	s.mu.Unlock()
	select {
	case s.ready <- struct{}{}:
	default:
	}
}

func (s *subscription) take() []objects.Event {
	s.mu.Lock()
	defer s.mu.Unlock()
	events := s.queued
	s.queued = nil
	return events
}

func (s *subscription) pump(deliver func([]objects.Event)) {
	for {
		select {
		case <-s.done:
			return
		case <-s.ready:
		}
		if events := s.take(); len(events) > 0 {
			deliver(events)
		}
	}
}

// handler makes events of what the informer of a kind tells.
type handler struct {
	to   *subscription
	kind objects.Kind
}

// OnAdd is part of cache.ResourceEventHandler.
func (h handler) OnAdd(obj any, _ bool) {
	h.to.put(eventOf(objects.Added, h.kind, obj.(objects.Object)))
}

// OnUpdate is part of cache.ResourceEventHandler. An informer that missed a deletion takes an
// object that came after it under the same name for a change of the old one.
func (h handler) OnUpdate(old, now any) {
	o, n := old.(objects.Object), now.(objects.Object)
	if o.GetUID() != n.GetUID() {
		h.to.put(eventOf(objects.Deleted, h.kind, o), eventOf(objects.Added, h.kind, n))
		return
	}
	h.to.put(eventOf(objects.Modified, h.kind, n))
}

// OnDelete is part of cache.ResourceEventHandler.
func (h handler) OnDelete(last any) {
	if obj, ok := lastKnown(last).(objects.Object); ok {
		h.to.put(eventOf(objects.Deleted, h.kind, obj))
	}
}

// lastKnown is what an informer knew of an object that is deleted.
func lastKnown(obj any) any {
	if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		return gone.Obj
	}
	return obj
}

func eventOf(t objects.EventType, k objects.Kind, obj objects.Object) objects.Event {
	e := objects.Event{Type: t, Kind: k, Revision: revisionOf(obj)}
	switch obj := obj.(type) {
	case *v1.Node:
		e.Node = obj
	case *v1.Pod:
		e.Pod = obj
	default:
		e.Object = obj
	}
	return e
}

// revisionOf is an object's resourceVersion; 0 where that is not a number, which Kubernetes
// rules out.
func revisionOf(obj objects.Object) int64 {
	n, err := strconv.ParseInt(obj.GetResourceVersion(), 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// snapshot is what events leave behind.
func snapshot(events []objects.Event) *objects.Snapshot {
	last := make(map[objects.Ref]objects.Object, len(events))
	all := &objects.Snapshot{}
	for i := range events {
		e := &events[i]
		obj := e.Any()
		if e.Type == objects.Deleted {
			delete(last, objects.RefOf(obj))
		} else {
			last[objects.RefOf(obj)] = obj
		}
		all.Revision = max(all.Revision, e.Revision)
	}
	for _, obj := range last {
		switch obj := obj.(type) {
		case *v1.Node:
			all.Nodes = append(all.Nodes, obj)
		case *v1.Pod:
			all.Pods = append(all.Pods, obj)
		default:
			all.Cluster = append(all.Cluster, obj)
		}
	}
	slices.SortFunc(all.Nodes, byName[*v1.Node])
	slices.SortFunc(all.Pods, func(a, b *v1.Pod) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), byName(a, b))
	})
	slices.SortFunc(all.Cluster, byName[objects.Object])
	objects.Sort(all.Cluster)
	return all
}

func byName[T objects.Object](a, b T) int {
	return cmp.Or(cmp.Compare(a.GetNamespace(), b.GetNamespace()), cmp.Compare(a.GetName(), b.GetName()))
}
