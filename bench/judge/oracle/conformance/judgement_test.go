package conformance

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"github.com/shardsched/shardsched/coordinator"
	"github.com/shardsched/shardsched/coordinator/record"
)

// watch has a scheduler that observes see a scenario happen and judge what another one decides, which takes any node, and returns the
// record.
func watch(t *testing.T, seed uint64, s *Scenario) (config, flight []byte) {
	t.Helper()
	config, err := s.Config.file()
	if err != nil {
		t.Fatal(err)
	}
	ours, err := ourConfig(config, s.PodGroups)
	if err != nil {
		t.Fatal(err)
	}
	profiles, err := ours.Profiles()
	if err != nil {
		t.Fatal(err)
	}
	var out buffer
	w := record.NewWriter(&out, record.Config{Buffer: 1 << 20})
	ctx, stop := context.WithCancel(klog.NewContext(t.Context(), klog.Logger{}))
	defer stop()
	go w.Run(ctx)
	c := &cluster{t: t, api: newAPIServer(), rnd: rand.New(rand.NewPCG(seed, 6)), kind: true}
	c.scheduler, err = coordinator.NewScheduler(coordinator.SchedulerConfig{
		Cluster: "watch", Term: 1, Shards: 1 + int(seed%3), Profiles: profiles, Observe: true, Recorder: w, QueueNow: newClock().now,
		VolumeController: true, DisruptionController: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	c.scheduler.Load(c.start(s.Rounds[0]), nil)
	ended := make(chan error)
	go func() { ended <- c.scheduler.Run(ctx) }()
	for _, r := range s.Rounds[1:] {
		c.change(r)
		c.judgeAll(ctx)
	}
	stop()
	if err := <-ended; err != nil {
		t.Errorf("seed %d: %v", seed, err)
	}
	if err := w.Close(); err != nil {
		t.Error(err)
	}
	return config, out.Bytes()
}

// judgeAll has each pod judged that waits, as one that another scheduler puts on some node, and puts every second one there.
func (c *cluster) judgeAll(ctx context.Context) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var waiting []*v1.Pod
	var nodes []string
	for _, obj := range c.api.objects {
		switch obj := obj.(type) {
		case *v1.Node:
			nodes = append(nodes, obj.Name)
		case *v1.Pod:
			if obj.Spec.NodeName == "" {
				waiting = append(waiting, obj)
			}
		}
	}
	for i, pod := range waiting {
		node := ""
		if len(nodes) > 0 && c.rnd.IntN(4) > 0 {
			node = nodes[c.rnd.IntN(len(nodes))]
		}
		j, err := c.scheduler.Judge(ctx, pod.UID, node, c.rnd.IntN(2) == 0)
		switch {
		case errors.Is(err, coordinator.ErrNotPending), errors.Is(err, coordinator.ErrLeaving):
		case err != nil:
			continue // PreFilter has an error, or the pod waits for an object: nothing is judged
		case j.Passes && i%4 == 0:
			c.api.nodes[pod.UID] = node
			c.deliver(Round{c.api.put(pod)})
		}
	}
}

// TestJudgementsAreUpstreams holds what a scheduler that observes makes of another's decisions against upstream's plugins.
func TestJudgementsAreUpstreams(t *testing.T) {
	const seeds = 60
	var total FlightResult
	for seed := uint64(1); seed <= seeds && !t.Failed(); seed++ {
		config, flight := watch(t, seed, Random(seed, 25, Evaluated()))
		r, err := (&Flight{Config: config, Record: bytes.NewReader(flight)}).Replay(klog.NewContext(t.Context(), klog.Logger{}))
		if err != nil {
			t.Errorf("seed %d: %v", seed, err)
			continue
		}
		for _, d := range r.Differences {
			t.Errorf("seed %d: %s", seed, d)
		}
		if r.Decisions > 0 || r.TakenBack > 0 {
			t.Errorf("seed %d: got %v, want judgements alone", seed, r)
		}
		total.Add(r)
	}
	told := fmt.Sprintf("%d judgements, %d of them of a worse node", total.Judgements, total.Worse)
	if total.Judgements < 1000 || total.Worse < 300 {
		t.Errorf("got %s, want 1000 and 300", told)
	}
	t.Log(told)
}
