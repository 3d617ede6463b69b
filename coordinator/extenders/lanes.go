package extenders

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"
	configv1 "k8s.io/kube-scheduler/config/v1"

	"github.com/shardsched/shardsched/coordinator/cache"
	"github.com/shardsched/shardsched/coordinator/extender"
	"github.com/shardsched/shardsched/coordinator/metrics"
	"github.com/shardsched/shardsched/coordinator/queue"
)

// Loop is what extenders need of the scheduling loop.
type Loop interface {
	// Later runs a function on the loop's goroutine, in a turn to come. Any goroutine may call it.
	Later(do func())
	// Resume has the parked attempt of a pod decided anew.
	Resume(p *queue.Pod)
	// Before tells whether the queue has one pod before another.
	Before(x, y *queue.Pod) bool
	// Rejoin has what happens from now on held against a pod's attempt.
	Rejoin(p *queue.Pod)
}

// Config is what Lanes are made of.
type Config struct {
	Extenders []configv1.Extender
	// BindNothing says that no extender is to bind, for nothing is to be written.
	BindNothing bool
	// Inline has the loop wait for the answers.
	Inline bool
	// Life ends the calls.
	Life      context.Context
	Loop      Loop
	Cache     *cache.Cache
	Metrics   *metrics.Set
	Transport http.RoundTripper // nil: connections
}

// Lanes are the extenders of a configuration, and the pods that wait for them. They belong to the loop.
type Lanes struct {
	list    []*extender.Extender
	of      map[string]*Lane
	inline  bool
	life    context.Context
	loop    Loop
	cache   *cache.Cache
	waiting prometheus.Gauge
	// parked counts the attempts that wait.
	parked int
	// calls are under way behind the loop.
	calls sync.WaitGroup
}

// Lane is the pods that the same extenders are interested in.
type Lane struct {
	all  *Lanes
	list []*extender.Extender
	// free is how many pods more may be asked about.
	free int
	// waiting are parked for their turn, in the queue's order.
	waiting []*queue.Pod
}

// New makes the extenders of a configuration, of which none is called yet.
func New(cfg Config) (*Lanes, error) {
	list := slices.Clone(cfg.Extenders)
	if cfg.BindNothing {
		for i := range list {
			list[i].BindVerb = ""
		}
	}
	made, err := extender.NewAll(list, extender.Options{
		Meter:     func(name string) extender.Meter { return newMeter(cfg.Metrics, name) },
		Transport: cfg.Transport,
	})
	return &Lanes{
		list: made, of: map[string]*Lane{}, inline: cfg.Inline, life: cfg.Life, loop: cfg.Loop, cache: cfg.Cache,
		waiting: cfg.Metrics.Gauge("shardsched_extender_waiting_pods"),
	}, err
}

// List are the extenders.
func (l *Lanes) List() []*extender.Extender { return l.list }

// Wait waits until no call is under way, once Life has ended.
func (l *Lanes) Wait() { l.calls.Wait() }

// Interested are the extenders that filter or score nodes for a pod.
func (l *Lanes) Interested(pod *v1.Pod) []*extender.Extender {
	if len(l.list) == 0 {
		return nil
	}
	return extender.Interested(l.list, pod)
}

// Lane is the lane of the pods for which the same is wanted of the same extenders.
func (l *Lanes) Lane(what string, list []*extender.Extender) *Lane {
	var key strings.Builder
	key.WriteString(what)
	room := list[0].InFlight()
	for _, e := range list {
		fmt.Fprintf(&key, "%d ", slices.Index(l.list, e))
		room = min(room, e.InFlight())
	}
	lane := l.of[key.String()]
	if lane == nil {
		lane = &Lane{all: l, list: list, free: room}
		l.of[key.String()] = lane
	}
	return lane
}

// Turn tells whether the extenders may be asked about a pod now. Where they may not the pod waits: its attempt is to be parked,
// and is resumed when its turn has come.
func (l *Lane) Turn(p *queue.Pod) bool {
	if l.all.inline || l.free > 0 {
		return true
	}
	at, _ := slices.BinarySearchFunc(l.waiting, p, func(x, y *queue.Pod) int {
		if l.all.loop.Before(y, x) {
			return 1
		}
		return -1
	})
	l.waiting = slices.Insert(l.waiting, at, p)
	l.all.parked++
	return false
}

// Ask asks about a pod whose turn it is: ask runs behind the loop, and take, which it returns, on the loop. With wait the
// attempt is to be parked; it is resumed after take. Inline both run at once.
func (l *Lane) Ask(ctx context.Context, p *queue.Pod, ask func(context.Context) (take func())) (wait bool) {
	if l.all.inline {
		ask(ctx)()
		return false
	}
	l.free--
	l.all.parked++
	l.all.calls.Go(func() {
		take := ask(l.all.life)
		l.all.loop.Later(func() {
			l.free++
			if l.all.life.Err() == nil {
				take()
				l.all.resume(p)
			}
		})
	})
	return true
}

func (l *Lanes) resume(p *queue.Pod) {
	l.parked--
	l.loop.Resume(p)
}

// GiveTurns resumes as many attempts as there are places free in their lanes.
func (l *Lanes) GiveTurns() {
	if len(l.of) == 0 {
		return
	}
	l.waiting.Set(float64(l.parked))
	for _, lane := range l.of {
		n := min(lane.free, len(lane.waiting))
		for _, p := range lane.waiting[:n] {
			l.loop.Later(func() { l.resume(p) })
		}
		lane.waiting = slices.Delete(lane.waiting, 0, n)
	}
}
