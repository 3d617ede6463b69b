package cli

import (
	"context"
	"os"
	"os/signal"
	"sync/atomic"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"github.com/shardsched/shardsched/coordinator"
)

// cacheDebugger compares the leader's state of the cluster with the source's and dumps it
// and the queue to the log, whenever the process is signalled to.
type cacheDebugger struct {
	objects interface {
		Nodes() []*v1.Node
		Pods() []*v1.Pod
	}
	leading atomic.Pointer[coordinator.Scheduler] // nil: this coordinator stands by
}

// watch answers signals until ctx ends. Signals that come meanwhile are one.
func (d *cacheDebugger) watch(ctx context.Context) error {
	asked := debugSignals()
	if len(asked) == 0 {
		return nil
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, asked...)
	defer signal.Stop(signals)
	for {
		select {
		case <-signals:
			d.tell(ctx)
		case <-ctx.Done():
			return nil
		}
	}
}

func (d *cacheDebugger) tell(ctx context.Context) {
	log := klog.FromContext(ctx)
	s := d.leading.Load()
	if s == nil {
		log.Info("Nothing to compare or dump: this coordinator stands by, signal the leader")
		return
	}
	err := s.Compare(ctx, func() ([]*v1.Node, []*v1.Pod, error) { return d.objects.Nodes(), d.objects.Pods(), nil })
	if err == nil {
		err = s.Dump(ctx)
	}
	if err != nil {
		log.Error(err, "Compare and dump caches")
	}
}
