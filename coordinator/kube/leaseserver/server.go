// Package leaseserver keeps one Kubernetes Lease as an API server does, for tests: with versions,
// conflicts and watches, and a way there for each process that can break.
//
//	process ──Client──> Server (the Lease, its version, who wrote it)
//	            └ Down, Hangs, Slow, Lossy, NoWatch
package leaseserver

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
)

var (
	leaseResource = schema.GroupResource{Group: "coordination.k8s.io", Resource: "leases"}
	errLeaseDown  = errors.New("connection refused")
)

// Server keeps one Lease.
type Server struct {
	mu       sync.Mutex
	version  int
	lease    *coordinationv1.Lease
	watchers []*leaseWatch
	writes   []string // who wrote which holder
}

type leaseWatch struct {
	of     *Client
	events chan watch.Event
}

// Client is one process's way to the server.
type Client struct {
	coordinationclient.LeaseInterface // what is not below is not used
	server                            *Server
	Who                               string

	// What is wrong with the way there; see Set.

	Down    bool          // every request fails
	Hangs   bool          // every request hangs until its context ends
	Slow    time.Duration // how long an answer takes after it took effect
	NoWatch bool          // watches are forbidden
	Lossy   bool          // answers of writes get lost
}

// Client is a way to the server for one process.
func (s *Server) Client(who string) *Client { return &Client{server: s, Who: who} }

// Set changes a client's way to the server.
func (c *Client) Set(f func(*Client)) {
	c.server.mu.Lock()
	defer c.server.mu.Unlock()
	f(c)
}

// Leases is part of LeasesGetter, whatever the namespace.
func (c *Client) Leases(string) coordinationclient.LeaseInterface { return c }

// request runs f on the server, as the client's way there lets it.
func (c *Client) request(ctx context.Context, write bool, f func() (*coordinationv1.Lease, error)) (*coordinationv1.Lease, error) {
	s := c.server
	s.mu.Lock()
	down, hangs, slow, lossy := c.Down, c.Hangs, c.Slow, c.Lossy && write
	s.mu.Unlock()
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case down:
		return nil, errLeaseDown
	case hangs:
		<-ctx.Done()
		return nil, ctx.Err()
	}
	s.mu.Lock()
	lease, err := f()
	s.mu.Unlock()
	if slow > 0 {
		select {
		case <-time.After(slow):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	if lossy {
		return nil, errLeaseDown
	}
	if lease != nil {
		lease = lease.DeepCopy()
	}
	return lease, err
}

// Get is part of LeaseInterface.
func (c *Client) Get(ctx context.Context, name string, _ metav1.GetOptions) (*coordinationv1.Lease, error) {
	return c.request(ctx, false, func() (*coordinationv1.Lease, error) {
		if c.server.lease == nil {
			return nil, apierrors.NewNotFound(leaseResource, name)
		}
		return c.server.lease, nil
	})
}

// Create is part of LeaseInterface.
func (c *Client) Create(ctx context.Context, lease *coordinationv1.Lease, _ metav1.CreateOptions) (*coordinationv1.Lease, error) {
	return c.request(ctx, true, func() (*coordinationv1.Lease, error) {
		if c.server.lease != nil {
			return nil, apierrors.NewAlreadyExists(leaseResource, lease.Name)
		}
		return c.server.store(c.Who, lease), nil
	})
}

// Update is part of LeaseInterface.
func (c *Client) Update(ctx context.Context, lease *coordinationv1.Lease, _ metav1.UpdateOptions) (*coordinationv1.Lease, error) {
	return c.request(ctx, true, func() (*coordinationv1.Lease, error) {
		switch now := c.server.lease; {
		case now == nil:
			return nil, apierrors.NewNotFound(leaseResource, lease.Name)
		case now.ResourceVersion != lease.ResourceVersion:
			return nil, apierrors.NewConflict(leaseResource, lease.Name, errors.New("changed meanwhile"))
		}
		return c.server.store(c.Who, lease), nil
	})
}

// store is called with the lock held.
func (s *Server) store(who string, lease *coordinationv1.Lease) *coordinationv1.Lease {
	s.version++
	s.lease = lease.DeepCopy()
	s.lease.ResourceVersion = strconv.Itoa(s.version)
	s.writes = append(s.writes, fmt.Sprintf("%s: %q", who, *lease.Spec.HolderIdentity))
	s.tell(watch.Modified)
	return s.lease
}

func (s *Server) tell(what watch.EventType) {
	for _, w := range s.watchers {
		if !w.of.Down && !w.of.Hangs {
			w.events <- watch.Event{Type: what, Object: s.lease.DeepCopy()}
		}
	}
}

// Remove deletes the Lease, as a person might.
func (s *Server) Remove() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version++
	s.tell(watch.Deleted)
	s.lease = nil
}

// Watch is part of LeaseInterface.
func (c *Client) Watch(_ context.Context, o metav1.ListOptions) (watch.Interface, error) {
	s := c.server
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.Down || c.NoWatch || o.FieldSelector != "metadata.name=kube-scheduler" {
		return nil, apierrors.NewForbidden(leaseResource, "", errors.New("no"))
	}
	w := &leaseWatch{of: c, events: make(chan watch.Event, 1000)}
	s.watchers = append(s.watchers, w)
	if s.lease != nil && s.lease.ResourceVersion != o.ResourceVersion {
		w.events <- watch.Event{Type: watch.Modified, Object: s.lease.DeepCopy()}
	}
	return watch.NewProxyWatcher(w.events), nil
}

// Holder is who holds the Lease; empty: nobody.
func (s *Server) Holder() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lease == nil {
		return ""
	}
	return *s.lease.Spec.HolderIdentity
}

// Log tells who wrote which holder, write by write.
func (s *Server) Log() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.writes...)
}

// Lease is the Lease as it is; nil: there is none.
func (s *Server) Lease() *coordinationv1.Lease {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lease == nil {
		return nil
	}
	return s.lease.DeepCopy()
}

// Steal writes a holder into the Lease without asking anybody.
func (s *Server) Steal(holder string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	lease := s.lease.DeepCopy()
	lease.Spec.HolderIdentity = &holder
	s.store("thief", lease)
}

// Renew renews the Lease for its holder, as a kube-scheduler does that is well; not where another holds it by now.
func (s *Server) Renew(holder string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lease == nil || *s.lease.Spec.HolderIdentity != holder {
		return
	}
	lease := s.lease.DeepCopy()
	now := metav1.NowMicro()
	lease.Spec.RenewTime = &now
	s.store(holder, lease)
}
