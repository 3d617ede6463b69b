package chaos

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/protobuf/proto"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/shardsched/shardsched/bench/cluster/controlplane/testbed"
	"github.com/shardsched/shardsched/bench/internal/process"
	"github.com/shardsched/shardsched/bench/judge/audit"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

const (
	// cluster is what the coordinators call it in their etcd.
	cluster = "testbed"
	// lease is the leader's, as the test bed configures it.
	lease = 4 * time.Second
	// lag is how long after a node has changed a bind may be for what it was: what informers
	// need to find an API server that was away.
	lag = 20 * time.Second
	// patience bounds each wait; none takes that long when all is well.
	patience = 3 * time.Minute
	// polling is how often is asked what nobody tells by himself.
	polling = 30 * time.Millisecond
	// tokens is for how many lives of coordinators there are.
	tokens = 400
)

// profiles are two: one fills the emptiest node, the other the fullest.
const profiles = `
profiles:
- schedulerName: default-scheduler
- schedulerName: packer
  pluginConfig:
  - name: NodeResourcesFit
    args: {scoringStrategy: {type: MostAllocated, resources: [{name: cpu, weight: 1}]}}
`

// chaosCluster is a cluster that is taken apart, with what is known about that.
type chaosCluster struct {
	*testbed.Cluster
	ctx     context.Context
	begun   time.Time
	machine *Machine
	errands *Errands
	own     *clientv3.Client // of the schedulers' etcd
	args    []string         // of coordinators, beside the usual ones
	follow  *audit.Follower
	*load

	mu       sync.Mutex
	now      *audit.Registry    // guarded by mu
	replayed int                // guarded by mu; how many changes it knows
	lives    []*life            // guarded by mu
	workers  []*process.Process // guarded by mu; by number
	killed   int
	deposed  map[string]time.Time // by UID, since when it must not write
	handover []handover
}

// life is one of a coordinator.
type life struct {
	*testbed.SchedulerProcess
	uid   string
	leads chan struct{} // closed when it does, or has done
}

// handover is a leader's end for which the next one is waited.
type handover struct {
	what, uid string
	at        time.Time
	// bounded tells whether nothing but the leases keeps the next one.
	bounded bool
}

func newChaosCluster(t *testing.T, config testbed.Config, size size) *chaosCluster {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	s := &chaosCluster{Cluster: testbed.New(t, config), ctx: ctx, begun: time.Now(), workers: make([]*process.Process, workers), now: audit.NewRegistry(lag), deposed: map[string]time.Time{}}
	s.load = newLoad(s, size)
	s.machine = NewMachine(func() (pids []int) {
		for _, p := range s.Processes() {
			pids = append(pids, p.PID())
		}
		return pids
	})
	s.own = s.etcdClient(s.OwnEtcdEndpoint())
	s.follow = audit.NewFollower(s.etcdClient(s.EtcdEndpoint()), time.Now)
	s.Go(s.machine.Run)
	s.errands = NewErrands(time.Now)
	s.Go(func(ctx context.Context) { s.errands.Run(ctx, s.errand) })
	s.Go(func(ctx context.Context) {
		if err := s.follow.Run(ctx); err != nil && ctx.Err() == nil {
			t.Error(err)
		}
	})
	s.Go(s.replay)
	return s
}

func (s *chaosCluster) etcdClient(endpoint string) *clientv3.Client {
	s.T.Helper()
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{endpoint}, Logger: zap.NewNop()})
	s.must(err)
	s.Go(func(ctx context.Context) {
		<-ctx.Done()
		c.Close()
	})
	return c
}

func (s *chaosCluster) must(err error) {
	s.T.Helper()
	if err != nil {
		s.T.Fatal(err)
	}
}

func (s *chaosCluster) log(format string, a ...any) {
	s.T.Helper()
	s.T.Logf("%7.2fs, %d created, %d bound: %s", time.Since(s.begun).Seconds(), s.count(), s.binds(), fmt.Sprintf(format, a...))
}

// errand writes to both etcds, to the one through the API server.
func (s *chaosCluster) errand(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if _, err := s.own.Put(ctx, "/errand", ""); err != nil {
		return err
	}
	maps := s.Admin.CoreV1().ConfigMaps(metav1.NamespaceDefault)
	_, err := maps.Create(ctx, &v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "errand-"}}, metav1.CreateOptions{})
	return err
}

// replay keeps the registry current.
func (s *chaosCluster) replay(ctx context.Context) {
	for n := 0; ; {
		changes, more := s.follow.After(n)
		n += len(changes)
		s.mu.Lock()
		for _, c := range changes {
			s.now.Apply(c)
		}
		s.replayed = n
		s.mu.Unlock()
		if len(changes) > 0 {
			continue
		}
		select {
		case <-more:
		case <-ctx.Done():
			return
		}
	}
}

func (s *chaosCluster) binds() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now.Binds
}

// until polls a condition; its error tells what is missing.
func (s *chaosCluster) until(what string, met func(context.Context) (bool, error)) {
	s.T.Helper()
	ctx, cancel := context.WithTimeout(s.ctx, patience)
	defer cancel()
	tick := time.NewTicker(polling)
	defer tick.Stop()
	for {
		ok, err := met(ctx)
		if ok {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			s.T.Fatalf("waited %v until %s: %v", patience, what, errors.Join(ctx.Err(), err))
		}
	}
}

// bindsGoOn waits for more binds.
func (s *chaosCluster) bindsGoOn(more int) {
	s.T.Helper()
	want := s.binds() + more
	s.until(fmt.Sprintf("%d pods are bound", want), func(context.Context) (bool, error) {
		got := s.binds()
		return got >= want, fmt.Errorf("%d are", got)
	})
}

// catchUp waits until the registry shows all that has happened so far.
func (s *chaosCluster) catchUp() {
	s.T.Helper()
	n := -1
	s.until("the registry is current", func(ctx context.Context) (bool, error) {
		if n < 0 {
			ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
			defer cancel()
			changes, err := s.follow.Sync(ctx)
			if err != nil {
				return false, err
			}
			n = changes
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.replayed >= n, fmt.Errorf("it knows %d of %d changes", s.replayed, n)
	})
}

// keepCoordinator runs a coordinator, as a kubelet does: when it ends there is another one.
func (s *chaosCluster) keepCoordinator(name string) {
	s.Go(func(ctx context.Context) {
		for ctx.Err() == nil {
			l, err := s.startCoordinator(ctx, name)
			if err != nil {
				pause(ctx, time.Second)
				continue
			}
			select {
			case <-l.Done():
			case <-ctx.Done():
				return
			}
			if code := exitCode(l.Process); code != 1 && code != -1 {
				s.T.Errorf("%s (%s) ended with exit code %d, want 1 or killed; its last lines:\n%s", name, l.uid, code, strings.Join(l.Tail(30), "\n"))
			}
		}
	})
}

func (s *chaosCluster) startCoordinator(ctx context.Context, name string) (*life, error) {
	s.mu.Lock()
	n := len(s.lives)
	l := &life{uid: testbed.CoordinatorUID(n), leads: make(chan struct{})}
	s.lives = append(s.lives, l)
	s.mu.Unlock()
	if n >= tokens {
		s.T.Errorf("%s ends again and again", name)
		<-ctx.Done()
		return nil, ctx.Err()
	}
	start, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	p, err := s.Bed.Coordinator(start, testbed.Scheduler{Name: name, Config: profiles, Kubeconfig: s.CoordinatorKubeconfigs[n], Args: append([]string{"--shard-replicas=2"}, s.args...)})
	if err != nil {
		if ctx.Err() == nil {
			s.T.Logf("%s did not start, and is started again: %v", name, err)
		}
		return nil, err
	}
	s.mu.Lock()
	l.SchedulerProcess = p
	s.mu.Unlock()
	s.Go(func(ctx context.Context) {
		if _, err := p.LineWith(ctx, `"Loaded"`); err == nil {
			close(l.leads)
		}
	})
	return l, nil
}

// keepWorker runs a worker in the same way.
func (s *chaosCluster) keepWorker(i int) {
	s.Go(func(ctx context.Context) {
		for ctx.Err() == nil {
			p, err := s.Bed.Worker(ctx, fmt.Sprintf("worker-%d", i), cluster)
			if err != nil {
				s.T.Error(err)
				return
			}
			s.mu.Lock()
			s.workers[i] = p
			s.mu.Unlock()
			select {
			case <-p.Done():
			case <-ctx.Done():
			}
			pause(ctx, time.Second)
		}
	})
}

// leader waits until there is one, other than that one.
func (s *chaosCluster) leader(not *life) (leader *life) {
	s.T.Helper()
	s.until("a coordinator leads", func(ctx context.Context) (bool, error) {
		ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
		defer cancel()
		resp, err := s.own.Get(ctx, audit.Prefix(cluster)+"leader/", append(clientv3.WithFirstCreate(), clientv3.WithPrefix())...)
		if err != nil || len(resp.Kvs) == 0 {
			return false, errors.Join(err, errors.New("nobody contends"))
		}
		record := &pb.LeaderRecord{}
		if err := proto.Unmarshal(resp.Kvs[0].Value, record); err != nil {
			return false, err
		}
		leader = s.lifeAt(record.GetAddress())
		return leader != nil && leader != not, fmt.Errorf("%s is elected", record.GetAddress())
	})
	return leader
}

// lifeAt finds who serves clients on an address and leads.
func (s *chaosCluster) lifeAt(address string) *life {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.IndexFunc(s.lives, func(l *life) bool {
		return l.SchedulerProcess != nil && l.Listen == address && l.Running() && isClosed(l.leads)
	})
	if i < 0 {
		return nil
	}
	return s.lives[i]
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// exitCode of a process that has ended; -1: it was killed.
func exitCode(p *process.Process) int {
	if exit := (&exec.ExitError{}); errors.As(p.Err(), &exit) {
		return exit.ExitCode()
	}
	return 0
}
