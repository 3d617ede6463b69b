package bind

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/shardsched/shardsched/coordinator/devices"
	"github.com/shardsched/shardsched/coordinator/framework"
	"github.com/shardsched/shardsched/coordinator/objects"
	"github.com/shardsched/shardsched/coordinator/volumes"
)

// Binder commits placements to where the pods are kept.
type Binder interface {
	// Bind commits each placement by itself and calls done once for each as soon as its
	// outcome is known, from any goroutine; it returns when all are. A nil error says that the
	// placement is committed, objects.ErrUnknown leaves that open, and any other says that it
	// certainly is not.
	Bind(ctx context.Context, bindings []objects.Binding, done func(i int, err error))
}

// PreBinder does what a pod's volumes need before it is bound.
type PreBinder interface {
	PreBind(ctx context.Context, w *volumes.Work, timeout time.Duration) error
}

// ClaimBinder writes what a pod's claims of devices need before it is bound, and takes it back where the pod is not
// bound.
type ClaimBinder interface {
	PreBind(ctx context.Context, w *devices.Work, profile string, patience time.Duration) error
	Undo(ctx context.Context, w *devices.Work)
}

const (
	// DefaultGroup is how many placements share a call of the binder, for a binder whose placements share commits. One that
	// commits each by itself wants groups of 1, so that none waits for another.
	DefaultGroup = 100
	// DefaultCalls is how many calls are under way at once: the next are on their way while one is committed.
	DefaultCalls = 4
)

// Config is what Cycles are made of.
type Config struct {
	// Binder commits placements; nil: they count as committed.
	Binder Binder
	// Volumes does what volumes need, and Claims what claims of devices need.
	Volumes PreBinder
	Claims  ClaimBinder
	// Group is how many placements a call of the binder has at the most, and Calls how many calls are under way at once; 0: the
	// defaults.
	Group, Calls int
	// Fence returns an error once another may lead. It is asked before an extender is to bind; nil: nobody is.
	Fence func() error
	// CommitExtended says that what an extender has bound is the binder's to commit.
	CommitExtended bool
	// Now is the clock.
	Now func() time.Time
	// Report is told each outcome, and Progress how jobs with steps of their own come along. Any goroutine calls them, and they
	// must not block.
	Report   func(Job, error)
	Progress func(*Job, Progress)
	// Refused words what plugins say that refuse a pod's node after it was chosen.
	Refused func(*fwk.Status) string
}

// Cycles takes jobs from the loop and runs their binding cycles. Any goroutine may use it.
type Cycles struct {
	cfg Config
	// preBinding are the pods whose PreBind is under way.
	preBinding *framework.PodsInPreBind

	mu sync.Mutex
	// chores are what is to be run beside the jobs.
	chores []func(context.Context)
	// queued are the plain jobs that wait for a call, in the order in which they came, and stepped those that are about to get a
	// goroutine for their steps.
	queued, stepped []Job
	// calls counts the calls under way, committing the jobs in them, and stepping those with a goroutine.
	calls, committing, stepping int
	// ready holds a token while there may be something to begin.
	ready chan struct{}
}

// New makes Cycles that begin nothing before Run.
func New(cfg Config) *Cycles {
	if cfg.Group == 0 {
		cfg.Group = DefaultGroup
	}
	if cfg.Calls == 0 {
		cfg.Calls = DefaultCalls
	}
	return &Cycles{cfg: cfg, preBinding: framework.NewPodsInPreBind(), ready: make(chan struct{}, 1)}
}

// Put takes jobs. It does not wait for any.
func (c *Cycles) Put(jobs []Job) {
	c.mu.Lock()
	for i := range jobs {
		if jobs[i].isPlain() {
			c.queued = append(c.queued, jobs[i])
		} else {
			c.stepped = append(c.stepped, jobs[i])
		}
	}
	c.mu.Unlock()
	c.wake()
}

// Do runs a function on a goroutine of its own, as long as Run does.
func (c *Cycles) Do(f func(context.Context)) {
	c.mu.Lock()
	c.chores = append(c.chores, f)
	c.mu.Unlock()
	c.wake()
}

func (c *Cycles) takeChores() []func(context.Context) {
	c.mu.Lock()
	defer c.mu.Unlock()
	list := c.chores
	c.chores = nil
	return list
}

func (c *Cycles) wake() {
	select {
	case c.ready <- struct{}{}:
	default:
	}
}

// UnderWay is how many jobs have a goroutine or are part of a call now.
func (c *Cycles) UnderWay() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.stepping + c.committing
}

// PreBinding are the pods whose PreBind is under way.
func (c *Cycles) PreBinding() *framework.PodsInPreBind { return c.preBinding }

// CallOff ends the job of a pod whose PreBind is under way. It is false where it is too late for that, or there is no such pod.
func (c *Cycles) CallOff(uid types.UID, reason string) bool {
	in := c.preBinding.Get(uid)
	return in != nil && in.CancelPod(reason)
}

// Run runs jobs until ctx ends, and returns when nothing of them is under way. It is called once.
func (c *Cycles) Run(ctx context.Context) {
	var wg sync.WaitGroup
	defer wg.Wait()
	crew := crew{Cycles: c, wg: &wg, idle: make(chan []Job)}
	for {
		select {
		case <-ctx.Done():
			return
		case <-c.ready:
		}
		for _, f := range c.takeChores() {
			wg.Go(func() { f(ctx) })
		}
		for _, job := range c.takeStepped() {
			wg.Go(func() { c.step(ctx, job) })
		}
		for ctx.Err() == nil {
			jobs := c.takeGroup()
			if len(jobs) == 0 {
				break
			}
			crew.give(ctx, jobs)
		}
	}
}

// takeStepped takes the jobs that are about to get a goroutine.
func (c *Cycles) takeStepped() []Job {
	c.mu.Lock()
	defer c.mu.Unlock()
	jobs := c.stepped
	c.stepped = nil
	c.stepping += len(jobs)
	return jobs
}
