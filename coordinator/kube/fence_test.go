package kube_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/shardsched/shardsched/coordinator/kube"
	"github.com/shardsched/shardsched/coordinator/lease"
	"github.com/shardsched/shardsched/coordinator/objects"
)

// testLease is a fence that a test ends.
type testLease struct {
	over   atomic.Bool
	checks atomic.Int64
	// onCheck runs in each check.
	onCheck func(n int64)
}

func (l *testLease) check() error {
	n := l.checks.Add(1)
	if l.onCheck != nil {
		l.onCheck(n)
	}
	if l.over.Load() {
		return fmt.Errorf("%w: the lease ran out", lease.ErrDeposed)
	}
	return nil
}

func (l *testLease) fence(c *kube.ClientConfig) { c.Fence = l.check }

func TestADeposedLeaderSendsNothing(t *testing.T) {
	a := newAPI(t, never)
	var l testLease
	l.over.Store(true)
	clients := a.clients(l.fence)
	err := bindOne(t.Context(), kube.NewBinder(kube.BinderConfig{Clients: clients}))
	if !errors.Is(err, lease.ErrDeposed) || errors.Is(err, objects.ErrUnknown) {
		t.Errorf("bind: got %v, want ErrDeposed and not ErrUnknown", err)
	}
	_, err = kube.NewVolumeWriter(kube.VolumeWriterConfig{Clients: clients}).Write(t.Context(), []objects.Object{claim()})
	if !errors.Is(err, lease.ErrDeposed) || errors.Is(err, objects.ErrUnknown) {
		t.Errorf("volume: got %v, want ErrDeposed and not ErrUnknown", err)
	}
	if got := a.log(); got != "" {
		t.Errorf("requests: got %s, want none", got)
	}
}

// The process may stand still anywhere. Here it does so after it waited for the rate
// limit, after the credentials, and while its connection is made.
func TestTheFenceIsAskedLast(t *testing.T) {
	t.Run("while it waits for the rate limit", func(t *testing.T) {
		a := newAPI(t, script(created()))
		var l testLease
		b := kube.NewBinder(kube.BinderConfig{Clients: a.clients(l.fence, func(c *kube.ClientConfig) { c.QPS, c.Burst = 1, 1 })})
		if err := bindOne(t.Context(), b); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error)
		go func() { ended <- bindOne(t.Context(), b) }() // it has to wait for the rest of a second
		l.over.Store(true)
		if err := <-ended; !errors.Is(err, lease.ErrDeposed) || errors.Is(err, objects.ErrUnknown) {
			t.Errorf("second bind: got %v, want ErrDeposed and not ErrUnknown", err)
		}
		if got := len(a.all()); got != 1 {
			t.Errorf("requests: got %d, want 1", got)
		}
	})
	t.Run("while it fetches credentials", func(t *testing.T) {
		a := newAPI(t, never)
		var l testLease
		b := kube.NewBinder(kube.BinderConfig{Clients: a.clients(l.fence, func(c *kube.ClientConfig) {
			// client-go puts a bearer token's wrapper in front of WrapTransport's.
			c.REST.Wrap(func(next http.RoundTripper) http.RoundTripper { return next })
			c.REST.BearerTokenFile, c.REST.BearerToken = "", "secret"
			l.onCheck = func(int64) { l.over.Store(true) }
		})})
		if err := bindOne(t.Context(), b); !errors.Is(err, lease.ErrDeposed) || errors.Is(err, objects.ErrUnknown) {
			t.Errorf("bind: got %v, want ErrDeposed and not ErrUnknown", err)
		}
	})
	t.Run("while it connects", func(t *testing.T) {
		a := newAPI(t, never)
		var l testLease
		b := kube.NewBinder(kube.BinderConfig{Clients: a.clients(l.fence, func(c *kube.ClientConfig) {
			c.REST.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
				conn, err := new(net.Dialer).DialContext(ctx, network, address)
				l.over.Store(true)
				return conn, err
			}
		})})
		if err := bindOne(t.Context(), b); !errors.Is(err, lease.ErrDeposed) {
			t.Errorf("bind: got %v, want ErrDeposed", err)
		}
		if got := a.log(); got != "" {
			t.Errorf("requests: got %s, want none", got)
		}
	})
}

func TestEachTryIsChecked(t *testing.T) {
	for name, answer := range map[string]reply{"429": tooMany("1"), "503": unavailable(), "connection lost": lost()} {
		t.Run(name, func(t *testing.T) {
			a := newAPI(t, posts(script(answer), script(found(pod("a")))))
			var l testLease
			b := kube.NewBinder(kube.BinderConfig{Clients: a.clients(l.fence), After: func(time.Duration) <-chan time.Time {
				l.over.Store(true)
				c := make(chan time.Time)
				close(c)
				return c
			}})
			err := bindOne(t.Context(), b)
			if !errors.Is(err, lease.ErrDeposed) {
				t.Errorf("bind: got %v, want ErrDeposed", err)
			}
			if open := name != "429"; errors.Is(err, objects.ErrUnknown) != open {
				t.Errorf("bind: got %v, want ErrUnknown in it: %t", err, open)
			}
			n := 0
			for _, s := range a.all() {
				if s.method == http.MethodPost {
					n++
				}
			}
			if n != 1 {
				t.Errorf("POSTs: got %d, want 1", n)
			}
		})
	}
}

// client-go tries again by itself where an answer says so. A client of its that writes
// through the fence is checked each time.
func TestRetriesInsideClientGoAreChecked(t *testing.T) {
	var l testLease
	a := newAPI(t, func(seen) reply {
		l.over.Store(true)
		return tooMany("1")
	})
	cfg := a.config()
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper { return kube.NewFencedTransport(next, l.check) })
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	_, err = client.CoreV1().Pods("default").Create(t.Context(), pod("a"), metav1.CreateOptions{})
	if !errors.Is(err, lease.ErrDeposed) {
		t.Errorf("create: got %v, want ErrDeposed", err)
	}
	if got := len(a.all()); got != 1 {
		t.Errorf("requests: got %d, want 1", got)
	}
}

func TestReadsAndTheLeaseNeedNoLeadership(t *testing.T) {
	a := newAPI(t, func(s seen) reply {
		if strings.Contains(s.path, "/leases") {
			return reply{code: 201, object: &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "x"}}}
		}
		return reply{code: 200, object: &v1.PodList{}}
	})
	var l testLease
	l.over.Store(true)
	clients := a.clients(l.fence)
	if _, err := clients.Reads.CoreV1().Pods("").List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Errorf("list: %v", err)
	}
	if _, err := clients.Leases.CoordinationV1().Leases("x").Create(t.Context(), &coordinationv1.Lease{}, metav1.CreateOptions{}); err != nil {
		t.Errorf("lease: %v", err)
	}
	agents := map[string]bool{}
	for _, s := range a.all() {
		agents[s.header.Get("User-Agent")] = true
	}
	for _, want := range []string{"shardsched/test (linux/amd64)/scheduler", "shardsched/test (linux/amd64)/leader-election"} {
		if !agents[want] {
			t.Errorf("user agents: got %v, want %q among them", agents, want)
		}
	}
}

func TestEachClientHasConnectionsOfItsOwn(t *testing.T) {
	a := newAPI(t, func(s seen) reply {
		switch {
		case s.method == http.MethodGet:
			return reply{code: 200, object: &v1.PodList{}}
		case strings.Contains(s.path, "/leases"):
			return reply{code: 201, object: &coordinationv1.Lease{}}
		case strings.Contains(s.path, "persistentvolumeclaims"):
			return found(claim())
		}
		return created()
	})
	clients := a.clients()
	r := kube.NewReporter(kube.ReporterConfig{Clients: clients, Pod: nobody, Hostname: "h"})
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { _ = r.Run(ctx) })
	defer wg.Wait()
	defer cancel()
	_, _ = clients.Reads.CoreV1().Pods("").List(ctx, metav1.ListOptions{})
	_, _ = clients.Leases.CoordinationV1().Leases("x").Create(ctx, &coordinationv1.Lease{}, metav1.CreateOptions{})
	_ = bindOne(ctx, kube.NewBinder(kube.BinderConfig{Clients: clients}))
	_, _ = kube.NewVolumeWriter(kube.VolumeWriterConfig{Clients: clients}).Write(ctx, []objects.Object{claim()})
	r.Scheduled(pod("a"), "n1")
	eventually(t, "five requests", func() bool { return len(a.all()) == 5 })
	from := map[string]string{}
	for _, s := range a.all() {
		if other := from[s.from]; other != "" {
			t.Errorf("%s and %s share a connection", s, other)
		}
		from[s.from] = s.String()
	}
}

// nobody is an informer's cache without pods.
func nobody(*v1.Pod) *v1.Pod { return nil }
