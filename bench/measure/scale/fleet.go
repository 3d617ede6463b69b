package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"

	"github.com/shardsched/shardsched/bench/internal/process"
	"github.com/shardsched/shardsched/coordinator/fanout"
	"github.com/shardsched/shardsched/coordinator/lease"
	"github.com/shardsched/shardsched/coordinator/standalone/embedetcd"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

const (
	clusterName = "scale"
	// workerCacheBytes is room for the shards of a million nodes.
	workerCacheBytes = 8 << 30
	// startLimit is how long workers may take until they are registered.
	startLimit = time.Minute
)

// fleet is an etcd in this process and workers in processes of their own, one to a core.
type fleet struct {
	dir, binary string
	etcd        *embedetcd.Server
	client      *clientv3.Client
	group       *process.Group
	cores       []int
}

// crew are some workers of a fleet.
type crew struct {
	fleet     *fleet
	processes []*process.Process
	// throttle holds the processes to a share of their core; nil: they run when they want.
	throttle *throttle
	members  []fanout.Member
	traffic  traffic
}

// newFleet builds the product and starts etcd in dir.
func newFleet(ctx context.Context, dir string) (*fleet, error) {
	f := &fleet{dir: dir, binary: filepath.Join(dir, "shardsched")}
	var err error
	if f.cores, err = process.Cores(); err != nil {
		return nil, err
	}
	if err := buildProduct(ctx, f.binary); err != nil {
		return nil, err
	}
	onEtcd := embedetcd.Config{DataDir: filepath.Join(dir, "etcd"), Listen: "127.0.0.1:0", Logger: zap.NewNop()}
	if f.etcd, err = embedetcd.Start(ctx, onEtcd); err != nil {
		return nil, err
	}
	if f.client, err = f.etcd.Client(); err != nil {
		f.etcd.Close()
		return nil, err
	}
	f.group = process.NewGroup(dir)
	return f, nil
}

// buildProduct builds the binary as its own module does: the product's versions, not the bench's.
func buildProduct(ctx context.Context, binary string) error {
	dir, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "github.com/shardsched/shardsched").Output()
	if err != nil {
		return fmt.Errorf("find the product's module (run this in bench/): %w", err)
	}
	if binary, err = filepath.Abs(binary); err != nil {
		return err
	}
	c := exec.CommandContext(ctx, "go", "build", "-o", binary, "./cmd/shardsched")
	c.Dir = strings.TrimSpace(string(dir))
	if out, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("build shardsched: %w\n%s", err, out)
	}
	return nil
}

func (f *fleet) close() {
	f.group.Close()
	_ = f.client.Close() // nobody uses it any more
	f.etcd.Close()
}

// core is that of the ith worker with a core of its own. The last core comes first: the coordinator keeps the first to itself for
// as long as there are cores.
func (f *fleet) core(i int) int { return f.cores[len(f.cores)-1-i%len(f.cores)] }

// start starts workers, the ith on the core that cores says, and returns when they are registered.
func (f *fleet) start(ctx context.Context, workers int, cores func(i int) int) (*crew, error) {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	c := &crew{fleet: f}
	for i := range workers {
		id := fmt.Sprintf("worker-%d", i)
		core := cores(i)
		p, err := f.group.StartOn(core, id, f.binary, "worker", "--etcd-endpoints", f.etcd.Endpoint(), "--cluster", clusterName,
			"--listen", "127.0.0.1:0", "--http-listen", "", "--id", id, "--cores", "1", "--cache-bytes", fmt.Sprint(workerCacheBytes))
		if err != nil {
			return nil, errors.Join(err, c.stop())
		}
		c.processes = append(c.processes, p)
		if _, err := p.LineWith(ctx, "worker "+id+" serves on "); err != nil {
			return nil, errors.Join(err, c.stop())
		}
	}
	watching, done := context.WithCancel(ctx)
	defer done()
	err := fanout.WatchMembers(watching, f.client, clusterName, func(members []fanout.Member) {
		if len(members) == workers && watching.Err() == nil {
			c.members = members
			done()
		}
	})
	if len(c.members) != workers {
		return nil, errors.Join(fmt.Errorf("%d workers: not registered: %w", workers, err), c.stop())
	}
	return c, nil
}

// hold has the workers, which are all on one core, run for an eighth of the time from now on.
func (c *crew) hold() (err error) {
	c.throttle, err = newThrottle(c.fleet.group, c.fleet.core(0), c.processes, process.NewQuota)
	return err
}

// stop asks the workers to end, which takes their registrations back, and waits.
func (c *crew) stop() error {
	if c.throttle != nil {
		c.throttle.loosen()
	}
	for _, p := range c.processes {
		p.Resume()
		p.Terminate()
	}
	for _, p := range c.processes {
		<-p.Done()
	}
	if c.throttle != nil {
		return c.throttle.drop()
	}
	return nil
}

// term is above all before it, and leads: workers forget what they hold.
func (c *crew) term(ctx context.Context) (uint64, error) {
	key := lease.Prefix(clusterName) + "bench"
	if _, err := c.fleet.client.Delete(ctx, key); err != nil {
		return 0, err
	}
	put, err := c.fleet.client.Put(ctx, key, "")
	if err != nil {
		return 0, err
	}
	return uint64(put.Header.Revision), nil
}

// cpu is what each worker has used so far.
func (c *crew) cpu() ([]time.Duration, error) {
	out := make([]time.Duration, len(c.processes))
	for i, p := range c.processes {
		var err error
		if out[i], err = p.CPU(); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// traffic is what went over the coordinator's connections, in bytes; TCP's and IP's own are not counted.
type traffic struct{ in, out atomic.Int64 }

// dial is the product's way to workers, with its bytes counted.
func (c *crew) dial() fanout.Dial {
	product := fanout.Dialer(grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
		var d net.Dialer
		conn, err := d.DialContext(ctx, "tcp", address)
		if err != nil {
			return nil, err
		}
		return counted{conn, &c.traffic}, nil
	}))
	return func(ctx context.Context, m fanout.Member) (pb.WorkerServiceClient, io.Closer, error) {
		return product(ctx, m)
	}
}

type counted struct {
	net.Conn
	traffic *traffic
}

func (c counted) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.traffic.in.Add(int64(n))
	return n, err
}

func (c counted) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	c.traffic.out.Add(int64(n))
	return n, err
}

// check errs where a worker has ended by itself.
func (c *crew) check() error {
	var gone []error
	all := slices.Clone(c.processes)
	if c.throttle != nil {
		all = append(all, c.throttle.turns)
	}
	for _, p := range all {
		if !p.Running() {
			gone = append(gone, fmt.Errorf("%s is gone: %w: %s", p.Name, p.Err(), strings.Join(p.Tail(5), "; ")))
		}
	}
	return errors.Join(gone...)
}
