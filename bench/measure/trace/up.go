package main

import (
	"context"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/shardsched/shardsched/bench/internal/process"
	"github.com/shardsched/shardsched/bench/internal/submit"
	"github.com/shardsched/shardsched/bench/judge/audit"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

const (
	clusterName = "trace"
	// perRequest is how many objects one Apply carries.
	perRequest  = 500
	pollEvery   = 20 * time.Millisecond
	settleLimit = 30 * time.Second
)

// upRun is one run of up, as a client sees it.
type upRun struct {
	// BoundPerSecond is from the first Apply of pods to the last bind that a Watch told
	// of.
	BoundPerSecond float64 `json:"boundPerSecond"`
	Seconds        float64 `json:"seconds"`
	// SubmitSeconds is until the last pod was acknowledged.
	SubmitSeconds float64 `json:"submitSeconds"`
	// From a pod's Apply to the news of its bind.
	P50Seconds float64 `json:"p50Seconds"`
	P99Seconds float64 `json:"p99Seconds"`
	// What the scheduler says of itself.
	OwnDecidedPerSecond float64 `json:"ownDecidedPerSecond"`
	OwnBoundPerSecond   float64 `json:"ownBoundPerSecond"`
	Bound               int     `json:"bound"`
	Pending             int     `json:"pending"`
}

// up runs one scheduler, submits the trace and waits for the binds.
func (b *traceRun) up(ctx context.Context, in *input, number int) (upRun, error) {
	p, err := b.group.Start(fmt.Sprintf("up-%d", number), b.binary, "up",
		"--cluster", clusterName, "--workers", strconv.Itoa(b.upWorkers),
		"--listen", "127.0.0.1:0", "--http-listen", "", "--data-dir", filepath.Join(b.dir, fmt.Sprintf("etcd-%d", number)))
	if err != nil {
		return upRun{}, err
	}
	defer p.Kill()
	address, endpoint, err := addresses(ctx, p)
	if err != nil {
		return upRun{}, err
	}
	c := submit.New(address)
	defer c.Close()
	m := &meter{client: c, submitters: b.submitters}
	if err := m.nodes(ctx, in.nodes); err != nil {
		return upRun{}, err
	}
	if err := m.pods(ctx, in.pods); err != nil {
		return upRun{}, err
	}
	s, err := m.finished(ctx)
	if err != nil {
		return upRun{}, err
	}
	if err := check(ctx, endpoint, m.ledger.Names()); err != nil {
		return upRun{}, err
	}
	return m.result(s), nil
}

// addresses reads where up serves clients and where its etcd is.
func addresses(ctx context.Context, p *process.Process) (clients, etcd string, err error) {
	line, err := p.Line(ctx, "shardsched is up: clients on ")
	if err != nil {
		return "", "", err
	}
	clients, rest, _ := strings.Cut(line, ", etcd on ")
	etcd, _, ok := strings.Cut(rest, ",")
	if !ok {
		return "", "", fmt.Errorf("up says %q, want its addresses", line)
	}
	return clients, etcd, nil
}

// check has the run audited: fast and wrong is no figure.
func check(ctx context.Context, endpoint string, acknowledged []string) error {
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{endpoint}, Logger: zap.NewNop()})
	if err != nil {
		return err
	}
	defer c.Close()
	if err := untilSettled(ctx, c, acknowledged); err != nil {
		return err
	}
	h, err := audit.ReadHistory(ctx, c, clusterName)
	if err != nil {
		return err
	}
	if faults, _ := audit.Judge(h, acknowledged); len(faults) > 0 {
		return fmt.Errorf("the audit found %d faults, the first: %v", len(faults), faults[0])
	}
	return nil
}

// untilSettled waits for the queue journal, which is written behind the decisions.
func untilSettled(ctx context.Context, c *clientv3.Client, acknowledged []string) error {
	ctx, cancel := context.WithTimeout(ctx, settleLimit)
	defer cancel()
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		s, err := audit.ReadState(ctx, c, clusterName)
		if err != nil {
			return err
		}
		open := s.Unsettled(acknowledged)
		if len(open) == 0 {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("%d pods are not settled, the first: %v", len(open), open[0])
		}
	}
}

func (m *meter) result(s *pb.Summary) upRun {
	latencies := m.latencies()
	took := m.lastBind.Sub(m.began).Seconds()
	return upRun{
		BoundPerSecond:      float64(len(latencies)) / took,
		Seconds:             took,
		SubmitSeconds:       m.submitted.Sub(m.began).Seconds(),
		P50Seconds:          quantile(latencies, 0.50).Seconds(),
		P99Seconds:          quantile(latencies, 0.99).Seconds(),
		OwnDecidedPerSecond: s.GetDecidedPerSecond(),
		OwnBoundPerSecond:   s.GetBoundPerSecond(),
		Bound:               len(latencies),
		Pending:             int(s.GetPodsPending()),
	}
}
