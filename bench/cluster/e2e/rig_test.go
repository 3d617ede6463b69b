package e2e

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/protobuf/proto"

	"github.com/shardsched/shardsched/bench/cluster/controlplane/testbed"
	"github.com/shardsched/shardsched/bench/internal/process"
	"github.com/shardsched/shardsched/bench/internal/submit"
	"github.com/shardsched/shardsched/bench/judge/audit"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

const (
	clusterName = "e2e"
	// leaseTime is the time to live of the leader's lease and of registrations.
	leaseTime = 3 * time.Second
	// patience bounds each wait; none takes that long when all is well.
	patience = 90 * time.Second
	// wholeTest bounds a test.
	wholeTest = 5 * time.Minute
	pollEvery = 50 * time.Millisecond
	tailLines = 40
)

// rig is a cluster of processes under test. One goroutine uses it.
type rig struct {
	t       *testing.T
	ctx     context.Context
	begun   time.Time
	dir     string
	binary  string
	group   *process.Group
	etcd    *etcd
	members map[string]*member // coordinators by name
	client  *submit.Client
	ledger  *submit.Ledger
	binds   atomic.Int64 // writes of pods after their first
	flags   []string     // of every coordinator and worker, beside its own
}

// member is a coordinator process.
type member struct {
	*process.Process
	address string
}

// newRig starts an etcd.
func newRig(t *testing.T) *rig {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), wholeTest)
	t.Cleanup(cancel)
	r := &rig{
		t: t, ctx: ctx, begun: time.Now(), dir: t.ArtifactDir(), members: map[string]*member{},
		client: submit.New(), ledger: submit.NewLedger(),
	}
	r.group = process.NewGroup(r.dir)
	t.Cleanup(r.close)
	r.etcd = newEtcd(r)
	r.countBinds()
	return r
}

// build makes the binary of the product as it is now. It is linked once for all tests.
func (r *rig) build() {
	r.t.Helper()
	var err error
	if r.binary, err = testbed.Shardsched(r.ctx, r.t.TempDir()); err != nil {
		r.t.Fatal(err)
	}
}

// close ends all processes and, where the test failed, shows what they printed last.
func (r *rig) close() {
	r.client.Close()
	r.group.Close()
	if !r.t.Failed() {
		return
	}
	for _, p := range r.group.Processes() {
		r.t.Logf("--- the last lines of %s (%v)\n%s", p.Name, p.Err(), strings.Join(p.Tail(tailLines), "\n"))
	}
}

func (r *rig) log(format string, a ...any) {
	r.t.Helper()
	at := time.Since(r.begun).Round(10 * time.Millisecond)
	r.t.Logf("%v, %d acknowledged, %d bound: %s", at, r.ledger.Len(), r.binds.Load(), fmt.Sprintf(format, a...))
}

// until polls a condition; its error tells what is missing.
func (r *rig) until(what string, met func() (bool, error)) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.ctx, patience)
	defer cancel()
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		ok, err := met()
		if ok {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			r.t.Fatalf("waited %v until %s: %v (%d acknowledged, %d bound)", patience, what, errors.Join(ctx.Err(), err), r.ledger.Len(), r.binds.Load())
		}
	}
}

// countBinds follows the pods' keys: each write after the first is a bind.
func (r *rig) countBinds() {
	ctx, cancel := context.WithCancel(r.ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for resp := range r.etcd.client.Watch(ctx, audit.Prefix(clusterName)+"objects/pods/", clientv3.WithPrefix(), clientv3.WithRev(1)) {
			for _, e := range resp.Events {
				if e.Kv.Version > 1 {
					r.binds.Add(1)
				}
			}
		}
	}()
	r.t.Cleanup(func() { cancel(); <-done })
}

// startCoordinator starts one, or a killed one again, and returns when it serves.
func (r *rig) startCoordinator(name string) *member {
	r.t.Helper()
	flags := append([]string{"coordinator", "--standalone", "--cluster", clusterName,
		"--etcd-endpoints", r.etcd.endpoint(), "--listen", "127.0.0.1:0", "--http-listen", "",
		"--leader-elect-lease-duration", leaseTime.String(), "--decision-log", filepath.Join(r.dir, name+".decisions")}, r.flags...)
	p, err := r.group.Start(name, r.binary, flags...)
	if err != nil {
		r.t.Fatal(err)
	}
	address, err := p.Line(r.ctx, "coordinator serves clients on ")
	if err != nil {
		r.t.Fatal(err)
	}
	m := &member{Process: p, address: address}
	r.members[name] = m
	var addresses []string
	for _, m := range r.members {
		if m.Running() {
			addresses = append(addresses, m.address)
		}
	}
	r.client.SetAddresses(addresses...)
	return m
}

// startWorker starts one, or a killed one again.
func (r *rig) startWorker(name string) *process.Process {
	r.t.Helper()
	flags := append([]string{"worker", "--cluster", clusterName, "--id", name, "--cores", "1",
		"--etcd-endpoints", r.etcd.endpoint(), "--listen", "127.0.0.1:0", "--http-listen", "",
		"--lease-duration", leaseTime.String()}, r.flags...)
	p, err := r.group.Start(name, r.binary, flags...)
	if err != nil {
		r.t.Fatal(err)
	}
	return p
}

// start builds shardsched, brings up coordinators and workers and waits until one leads and knows the workers.
func (r *rig) start(coordinators, workers int) (killable []*process.Process) {
	r.t.Helper()
	r.build()
	for i := range coordinators {
		r.startCoordinator(fmt.Sprintf("coordinator-%d", i))
	}
	for i := range workers {
		killable = append(killable, r.startWorker(fmt.Sprintf("worker-%d", i)))
	}
	r.untilWorkers(workers)
	return killable
}

// untilWorkers waits until the leader asks n workers.
func (r *rig) untilWorkers(n int) {
	r.t.Helper()
	r.until(fmt.Sprintf("the leader knows %d workers", n), func() (bool, error) {
		var resp *pb.ListWorkersResponse
		err := r.client.Do(r.ctx, func(ctx context.Context, s pb.SchedulerServiceClient) (err error) {
			resp, err = s.ListWorkers(ctx, &pb.ListWorkersRequest{})
			return err
		})
		return len(resp.GetWorkers()) == n, err
	})
}

// contenders are the leader records in etcd, the leader's first, with their terms.
func (r *rig) contenders() (records []*pb.LeaderRecord, terms []int64, err error) {
	ctx, cancel := context.WithTimeout(r.ctx, 5*time.Second)
	defer cancel()
	resp, err := r.etcd.client.Get(ctx, audit.Prefix(clusterName)+"leader/", clientv3.WithPrefix(),
		clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortAscend))
	if err != nil {
		return nil, nil, err
	}
	for _, kv := range resp.Kvs {
		record := &pb.LeaderRecord{}
		if err := proto.Unmarshal(kv.Value, record); err != nil {
			return nil, nil, fmt.Errorf("leader record at %s: %w", kv.Key, err)
		}
		records, terms = append(records, record), append(terms, kv.CreateRevision)
	}
	return records, terms, nil
}

// leader waits until there is a leader of a later term, and returns it.
func (r *rig) leader(after int64) (leads *member, term int64) {
	r.t.Helper()
	r.until(fmt.Sprintf("a leader of a term after %d", after), func() (bool, error) {
		records, terms, err := r.contenders()
		if err != nil || len(records) == 0 || terms[0] <= after {
			return false, err
		}
		for _, m := range r.members {
			if m.address == records[0].GetAddress() {
				leads, term = m, terms[0]
			}
		}
		return leads != nil, fmt.Errorf("%s leads, and is none of ours", records[0].GetAddress())
	})
	return leads, term
}

// settle waits until nothing is left to do: each acknowledged pod is bound or waits for
// a reason, and the leader says that it is idle.
func (r *rig) settle() {
	r.t.Helper()
	acked := r.ledger.Names()
	r.until("every acknowledged pod is settled", func() (bool, error) {
		s, err := audit.ReadState(r.ctx, r.etcd.client, clusterName)
		if err != nil {
			return false, err
		}
		if open := s.Unsettled(acked); len(open) > 0 {
			return false, fmt.Errorf("%d are not, the first: %v", len(open), open[0])
		}
		return r.idle()
	})
	r.log("settled")
}

func (r *rig) idle() (bool, error) {
	var resp *pb.GetSummaryResponse
	err := r.client.Do(r.ctx, func(ctx context.Context, s pb.SchedulerServiceClient) (err error) {
		resp, err = s.GetSummary(ctx, &pb.GetSummaryRequest{})
		return err
	})
	return resp.GetSummary().GetIdle(), err
}

// judge holds all that etcd remembers against what must be, and returns who led.
func (r *rig) judge() []*audit.Reign {
	r.t.Helper()
	h, err := audit.ReadHistory(r.ctx, r.etcd.client, clusterName)
	if err != nil {
		r.t.Fatal(err)
	}
	faults, end := audit.Judge(h, r.ledger.Names())
	writers, reigns := audit.JudgeWriters(h, clusterName, r.etcd.recorded())
	const shown = 20
	for i, f := range append(faults, writers...) {
		if i == shown {
			r.t.Errorf("and %d more faults", len(faults)+len(writers)-shown)
			break
		}
		r.t.Errorf("fault: %v", f)
	}
	r.log("%s", end.Account())
	for _, reign := range reigns {
		r.log("term %d led from revision %d to %d: %d writes, %d refused", reign.Term, reign.Began, reign.Ended, reign.Writes, reign.Refused)
	}
	return reigns
}
