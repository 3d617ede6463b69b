package main

import (
	"context"
	"fmt"
	"os"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
)

// work is a controller of ours: objects that changed are looked at by a few goroutines,
// and again where that went wrong.
type work struct {
	name  string
	queue workqueue.TypedRateLimitingInterface[string]
	// look brings one object, named as namespace/name, to where it should be; one that
	// is gone needs nothing.
	look func(ctx context.Context, key string) error
}

// unlessGone is an error of looking an object up, but for that it is gone.
func unlessGone(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

func newWork(name string, look func(context.Context, string) error) *work {
	return &work{
		name: name, look: look,
		queue: workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[string]()),
	}
}

// watch takes in what an informer tells, but for deletions.
func (w *work) watch(informer cache.SharedInformer) error {
	add := func(o any) {
		if key, err := cache.MetaNamespaceKeyFunc(o); err == nil {
			w.queue.Add(key)
		}
	}
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: add, UpdateFunc: func(_, o any) { add(o) }})
	return err
}

// run works until the context ends.
func (w *work) run(ctx context.Context, workers int) {
	stop := context.AfterFunc(ctx, w.queue.ShutDown)
	defer stop()
	var all sync.WaitGroup
	for range workers {
		all.Go(func() {
			for w.next(ctx) {
			}
		})
	}
	all.Wait()
}

func (w *work) next(ctx context.Context) bool {
	key, shutdown := w.queue.Get()
	if shutdown {
		return false
	}
	defer w.queue.Done(key)
	err := w.look(ctx, key)
	if err == nil {
		w.queue.Forget(key)
		return true
	}
	// That another write came first is usual.
	if !apierrors.IsConflict(err) {
		fmt.Fprintf(os.Stderr, "%s: %s: %v\n", w.name, key, err)
	}
	w.queue.AddRateLimited(key)
	return true
}
