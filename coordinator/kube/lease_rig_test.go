package kube_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"

	"github.com/shardsched/shardsched/coordinator/kube"
	"github.com/shardsched/shardsched/coordinator/kube/leaseserver"
)

const (
	leaseDuration = 15 * time.Second
	renewDeadline = 10 * time.Second
	retryPeriod   = 2 * time.Second
)

// config is that of a coordinator whose way is c.
func config(c *leaseserver.Client) kube.LeaseConfig {
	return kube.LeaseConfig{
		Client: c, Namespace: "kube-system", Name: "kube-scheduler", Identity: c.Who,
		Duration: leaseDuration, RenewDeadline: renewDeadline, RetryPeriod: retryPeriod,
	}
}

// upstream is a kube-scheduler's elector.
type upstream struct {
	client  *leaseserver.Client
	stop    context.CancelFunc // it ends in good order
	ended   chan struct{}
	leading chan time.Time // when it began to
	mu      sync.Mutex
	leads   bool
}

// run starts a kube-scheduler's election as upstream configures it.
func run(t *testing.T, c *leaseserver.Client) *upstream {
	t.Helper()
	ctx, stop := context.WithCancel(quiet(t))
	u := &upstream{client: c, stop: stop, ended: make(chan struct{}), leading: make(chan time.Time, 100)}
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: &resourcelock.LeaseLock{
			LeaseMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "kube-scheduler"}, Client: c,
			LockConfig: resourcelock.ResourceLockConfig{Identity: c.Who},
		},
		LeaseDuration: leaseDuration, RenewDeadline: renewDeadline, RetryPeriod: retryPeriod, ReleaseOnCancel: true, Name: "kube-scheduler",
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(ctx context.Context) {
				if ctx.Err() == nil {
					u.lead(true)
					u.leading <- time.Now()
				}
			},
			OnStoppedLeading: func() { u.lead(false) },
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(u.ended)
		elector.Run(ctx)
	}()
	return u
}

func (u *upstream) lead(leads bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.leads = leads
}

func (u *upstream) isLeading() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.leads
}

// die makes it go silent.
func (u *upstream) die() {
	u.client.Set(func(c *leaseserver.Client) { c.Down = true })
	u.end()
}

// end waits for the elector to end, in good order where it can.
func (u *upstream) end() {
	u.lead(false)
	u.stop()
	<-u.ended
}

// acquisition is an AcquireLease under way.
type acquisition struct {
	lease *kube.Lease
	err   error
	at    time.Time
}

func acquire(ctx context.Context, cfg kube.LeaseConfig) <-chan acquisition {
	out := make(chan acquisition, 1)
	go func() {
		l, err := kube.AcquireLease(ctx, cfg)
		out <- acquisition{lease: l, err: err, at: time.Now()}
	}()
	return out
}

// quiet is the test's context, without a log.
func quiet(t *testing.T) context.Context { return klog.NewContext(t.Context(), klog.Logger{}) }

// inBubble runs a test in a bubble of time of its own.
func inBubble(t *testing.T, f func(t *testing.T, s *leaseserver.Server)) {
	synctest.Test(t, func(t *testing.T) { f(t, &leaseserver.Server{}) })
}
