package main

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/shardsched/shardsched/bench/internal/submit"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// meter submits objects and notes when each pod was sent and when it was bound.
type meter struct {
	client     *submit.Client
	submitters int
	ledger     *submit.Ledger
	revision   uint64 // of the last node

	began, submitted time.Time

	mu       sync.Mutex
	sent     map[string]time.Time
	bound    map[string]time.Time
	lastBind time.Time
}

// nodes applies the nodes.
func (m *meter) nodes(ctx context.Context, nodes []*v1.Node) error {
	for batch := range slices.Chunk(nodes, perRequest) {
		req, err := submit.Request(batch)
		if err != nil {
			return err
		}
		resp, err := m.client.Apply(ctx, req)
		if err != nil {
			return err
		}
		m.revision = max(m.revision, resp.Revision)
	}
	return nil
}

// pods applies the pods, in order, and returns when as many binds were seen as the
// scheduler counts once it is idle.
func (m *meter) pods(ctx context.Context, pods []*v1.Pod) error {
	m.ledger, m.sent, m.bound = submit.NewLedger(), map[string]time.Time{}, map[string]time.Time{}
	var requests []*pb.ApplyRequest
	for batch := range slices.Chunk(pods, perRequest) {
		req, err := submit.Request(batch)
		if err != nil {
			return err
		}
		requests = append(requests, req)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	watched := make(chan error, 1)
	go func() { watched <- m.watch(ctx) }()
	m.began = time.Now()
	if err := m.apply(ctx, requests); err != nil {
		return err
	}
	m.submitted = time.Now()
	return m.untilBound(ctx, watched)
}

func (m *meter) apply(ctx context.Context, requests []*pb.ApplyRequest) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(m.submitters)
	for _, req := range requests {
		g.Go(func() error {
			m.note(req)
			resp, err := m.client.Apply(ctx, req)
			if err == nil {
				m.ledger.Note(req, resp)
			}
			return err
		})
	}
	return g.Wait()
}

func (m *meter) note(req *pb.ApplyRequest) {
	now := time.Now()
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, o := range req.Objects {
		m.sent[o.Ref.Namespace+"/"+o.Ref.Name] = now
	}
}

// watch notes binds as the client API tells of them.
func (m *meter) watch(ctx context.Context) error {
	conn, err := m.client.Conn()
	if err != nil {
		return err
	}
	stream, err := pb.NewSchedulerServiceClient(conn).Watch(ctx, &pb.WatchRequest{Kind: "Pod", AfterRevision: m.revision})
	if err != nil {
		return err
	}
	for {
		resp, err := stream.Recv()
		if err != nil {
			return fmt.Errorf("watch of pods: %w", err)
		}
		now := time.Now()
		for _, e := range resp.Events {
			obj, _, err := scheme.Codecs.UniversalDeserializer().Decode(e.Object.Raw, nil, nil)
			if err != nil {
				return fmt.Errorf("watch of pods: %s/%s: %w", e.Object.Ref.Namespace, e.Object.Ref.Name, err)
			}
			m.saw(obj, now)
		}
	}
}

func (m *meter) saw(obj runtime.Object, now time.Time) {
	p, ok := obj.(*v1.Pod)
	if !ok || p.Spec.NodeName == "" {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.bound[p.Namespace+"/"+p.Name] = now
	m.lastBind = now
}

// untilBound waits until the scheduler is idle and the watch has told of all its binds.
func (m *meter) untilBound(ctx context.Context, watched <-chan error) error {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		s, err := m.finished(ctx)
		if err != nil {
			return err
		}
		m.mu.Lock()
		seen := len(m.bound)
		m.mu.Unlock()
		if s.GetIdle() && seen == int(s.GetPodsBound()) && seen+int(s.GetPodsPending()) == len(m.sent) {
			return nil
		}
		select {
		case <-tick.C:
		case err := <-watched:
			return err
		case <-ctx.Done():
			return fmt.Errorf("%w: %d binds seen, the scheduler counts %d of %d", ctx.Err(), seen, s.GetPodsBound(), len(m.sent))
		}
	}
}

// finished is the scheduler's own summary.
func (m *meter) finished(ctx context.Context) (*pb.Summary, error) {
	var resp *pb.GetSummaryResponse
	err := m.client.Do(ctx, func(ctx context.Context, s pb.SchedulerServiceClient) (err error) {
		resp, err = s.GetSummary(ctx, &pb.GetSummaryRequest{})
		return err
	})
	return resp.GetSummary(), err
}

// latencies are the times from submit to bound, sorted.
func (m *meter) latencies() []time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []time.Duration
	for name, at := range m.bound {
		out = append(out, at.Sub(m.sent[name]))
	}
	slices.Sort(out)
	return out
}

// quantile of sorted durations; 0 where there are none.
func quantile(sorted []time.Duration, q float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(int(q*float64(len(sorted))), len(sorted)-1)]
}
