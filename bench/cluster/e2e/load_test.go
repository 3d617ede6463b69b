package e2e

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"

	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"
	v1 "k8s.io/api/core/v1"

	"github.com/shardsched/shardsched/bench/internal/submit"
	"github.com/shardsched/shardsched/internal/testkit/build"
)

var seed = flag.Uint64("seed", 1, "the order of pods and what they ask for")

const (
	gpu     = "example.com/gpu"
	zoneKey = v1.LabelTopologyZone
	// perRequest is how many pods one Apply carries, senders how many are under way.
	perRequest = 20
	senders    = 4
)

// nodes are of three sizes, in three zones. Every fifth has GPUs, half of those are tainted
// for it; a few are cordoned.
func nodes(n int) []*v1.Node {
	sizes := []struct{ cpu, memory, pods string }{{"4", "16Gi", "12"}, {"8", "32Gi", "20"}, {"16", "64Gi", "30"}}
	out := make([]*v1.Node, n)
	for i := range out {
		s := sizes[i%len(sizes)]
		b := build.Node(fmt.Sprintf("node-%03d", i)).CPU(s.cpu).Memory(s.memory).Pods(s.pods).
			Zone(fmt.Sprintf("zone-%c", 'a'+i/3%3))
		if i%5 == 0 {
			b.Resource(gpu, "4")
		}
		if i%10 == 0 {
			b.Taint(gpu + "=present:NoSchedule")
		}
		if i%50 == 49 {
			b.Unschedulable()
		}
		out[i] = b.Obj()
	}
	return out
}

// pods ask for more than there is: of CPU a little, of GPUs and of host ports a lot.
func pods(prefix string, n int, random *rand.Rand) []*v1.Pod {
	out := make([]*v1.Pod, n)
	for i := range out {
		b := build.Pod(fmt.Sprintf("%s-%04d", prefix, i)).UID("").Priority(int32(random.IntN(3)))
		never := v1.PreemptNever // nobody is to be gone in the end
		b.Obj().Spec.PreemptionPolicy = &never
		millis := func(low, high int) string { return fmt.Sprintf("%dm", low+random.IntN((high-low)/50)*50) }
		mebis := func(low, high int) string { return fmt.Sprintf("%dMi", low+random.IntN((high-low)/64)*64) }
		switch kind := random.IntN(100); {
		case kind < 60:
			b.CPU(millis(100, 700)).Memory(mebis(128, 1024))
		case kind < 74:
			b.CPU(millis(1500, 3000)).Memory(mebis(1024, 4096)).Init("init", "cpu", "2")
		case kind < 83:
			b.CPU("250m").Request(gpu, fmt.Sprint(1+random.IntN(2))).Toleration(gpu + ":NoSchedule")
		case kind < 90:
			b.CPU("50m").HostPort([]string{"", "10.0.0.1"}[random.IntN(2)], v1.ProtocolTCP, int32(8000+random.IntN(2))).
				Required(build.Labels(build.Match(zoneKey, v1.NodeSelectorOpIn, "zone-a")))
		case kind < 96:
			zone := fmt.Sprintf("zone-%c", 'a'+random.IntN(3))
			b.CPU(millis(100, 400)).Preferred(10, build.Labels(build.Match(zoneKey, v1.NodeSelectorOpIn, zone))).Sidecar("log", "cpu", "50m")
		case kind < 98:
			b.CPU("100m").Required(build.Labels(build.Match(zoneKey, v1.NodeSelectorOpIn, "zone-nowhere")))
		default:
			b.CPU("100")
		}
		out[i] = b.Obj()
	}
	return out
}

// applyNodes applies nodes and returns when they are acknowledged.
func (r *rig) applyNodes(nodes []*v1.Node) {
	r.t.Helper()
	req, err := submit.Request(nodes)
	if err != nil {
		r.t.Fatal(err)
	}
	if _, err := r.client.Apply(r.ctx, req); err != nil {
		r.t.Fatal(err)
	}
}

// load is pods on their way to the scheduler.
type load struct {
	r    *rig
	done chan struct{}
	err  error // set before done is closed
}

// arrive begins to submit pods, so many a second, in the given order.
func (r *rig) arrive(pods []*v1.Pod, perSecond int) *load {
	l := &load{r: r, done: make(chan struct{})}
	go func() {
		defer close(l.done)
		l.err = l.send(pods, rate.NewLimiter(rate.Limit(perSecond), perRequest))
	}()
	return l
}

func (l *load) send(pods []*v1.Pod, pace *rate.Limiter) error {
	g, ctx := errgroup.WithContext(l.r.ctx)
	g.SetLimit(senders)
	for batch := range slices.Chunk(pods, perRequest) {
		if err := pace.WaitN(ctx, len(batch)); err != nil {
			break
		}
		g.Go(func() error { return l.apply(ctx, batch) })
	}
	return g.Wait()
}

func (l *load) apply(ctx context.Context, batch []*v1.Pod) error {
	req, err := submit.Request(batch)
	if err != nil {
		return err
	}
	resp, err := l.r.client.Apply(ctx, req)
	if err != nil {
		return err
	}
	l.r.ledger.Note(req, resp)
	return nil
}

// until waits until so many pods in all are acknowledged.
func (l *load) until(acknowledged int) {
	l.r.t.Helper()
	l.r.until(fmt.Sprintf("%d pods are acknowledged", acknowledged), func() (bool, error) {
		select {
		case <-l.done:
			if l.err != nil {
				l.r.t.Fatal(l.err)
			}
		default:
		}
		return l.r.ledger.Len() >= acknowledged, nil
	})
}

// bindsGoOn waits until more pods are bound than now.
func (l *load) bindsGoOn(more int64) {
	l.r.t.Helper()
	before := l.r.binds.Load()
	l.r.until(fmt.Sprintf("%d more pods are bound", more), func() (bool, error) { return l.r.binds.Load() >= before+more, nil })
}
