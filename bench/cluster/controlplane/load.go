package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/shardsched/shardsched/bench/cluster/controlplane/testbed"
	"github.com/shardsched/shardsched/internal/testkit/build"
)

// stays is how long a pod of the load stays.
const stays = time.Minute

// loadSizes are what pods of the load request, in turn.
var loadSizes = []struct{ app, cpu, memory string }{
	{"web", "250m", "512Mi"}, {"api", "500m", "1Gi"}, {"batch", "2", "2Gi"}, {"cache", "250m", "4Gi"},
}

// pour has so many pods come a second, each for a minute, until the context ends: a cluster at work.
func (o options) pour(ctx context.Context, bed *testbed.Bed) error {
	tick := time.NewTicker(time.Second / time.Duration(o.load))
	defer tick.Stop()
	const namespace = "load"
	if err := bed.Create(ctx, build.Namespace(namespace)); err != nil {
		return err
	}
	name := func(i int) string { return fmt.Sprintf("%s-%06d", loadSizes[i%len(loadSizes)].app, i) }
	for i, gone := 0, 0; ; i++ {
		x := loadSizes[i%len(loadSizes)]
		pod := build.Pod(name(i)).Namespace(namespace).Label("app", x.app).CPU(x.cpu).Memory(x.memory).Obj()
		err := bed.Create(ctx, pod)
		if lasts := int(stays/time.Second) * o.load; err == nil && i-gone >= lasts {
			err = bed.DeletePods(ctx, namespace+"/"+name(gone))
			gone++
		}
		if err != nil && !errors.Is(err, ctx.Err()) {
			return fmt.Errorf("load: %w", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}
