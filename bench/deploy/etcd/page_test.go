package etcd

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/shardsched/shardsched/bench/internal/process"
	"github.com/shardsched/shardsched/bench/internal/submit"
	"github.com/shardsched/shardsched/internal/testkit/build"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

const (
	page = "../../../docs/etcd.md"
	// patience bounds each wait; none takes that long when all is well.
	patience = 3 * time.Minute
	// quota is enough for the cluster, and filled at once.
	quota   = 16 << 20
	cluster = "c"
	leaders = "/shardsched/" + cluster + "/leader/"
)

// rig is an etcd of etcd's own program, and what runs on it.
type rig struct {
	t        *testing.T
	ctx      context.Context
	dir      string // what the page's commands run in
	bin      string
	group    *process.Group
	listen   string // etcd's
	etcd     *process.Process
	client   *clientv3.Client
	lives    int
	classes  int               // made so far
	metrics  map[string]string // of coordinators, their host:port by name
	clients  map[string]string // of coordinators, their client API by name
	programs map[string]*process.Process
}

func newRig(t *testing.T) *rig {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	t.Cleanup(cancel)
	r := &rig{t: t, ctx: ctx, dir: t.TempDir(), bin: t.TempDir(), group: process.NewGroup(t.ArtifactDir()), listen: process.MustFreeAddress(t),
		metrics: map[string]string{}, clients: map[string]string{}, programs: map[string]*process.Process{}}
	t.Cleanup(r.close)
	r.build("../../..", "./cmd/shardsched")
	r.build(".", "go.etcd.io/etcd/etcdctl/v3")
	r.build(".", "go.etcd.io/etcd/etcdutl/v3")
	r.build(".", "go.etcd.io/etcd/server/v3")
	r.startEtcd("data")
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{r.listen}, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	r.client = c
	return r
}

// build makes a program, named after its package without the version.
func (r *rig) build(in, pkg string) {
	r.t.Helper()
	name := filepath.Base(strings.TrimSuffix(pkg, "/v3"))
	build := exec.CommandContext(r.ctx, "go", "build", "-o", filepath.Join(r.bin, name), pkg)
	build.Dir = in
	if out, err := build.CombinedOutput(); err != nil {
		r.t.Fatalf("build %s: %v\n%s", pkg, err, out)
	}
}

// close ends all processes and, where the test failed, shows what they printed last.
func (r *rig) close() {
	r.group.Close()
	if !r.t.Failed() {
		return
	}
	for _, p := range r.group.Processes() {
		r.t.Logf("--- the last lines of %s (%v)\n%s", p.Name, p.Err(), strings.Join(p.Tail(30), "\n"))
	}
}

// startEtcd starts etcd's own server on a folder, and returns when it answers.
func (r *rig) startEtcd(dir string) {
	r.t.Helper()
	peers := "http://" + process.MustFreeAddress(r.t)
	r.lives++
	p, err := r.group.Start(fmt.Sprintf("etcd-%d", r.lives), filepath.Join(r.bin, "server"), "--data-dir", filepath.Join(r.dir, dir),
		"--listen-client-urls", "http://"+r.listen, "--advertise-client-urls", "http://"+r.listen,
		"--listen-peer-urls", peers, "--log-level", "error", "--quota-backend-bytes", fmt.Sprint(quota))
	if err != nil {
		r.t.Fatal(err)
	}
	r.etcd = p
	r.until("etcd answers", func() error {
		out, err := r.shell("etcdctl endpoint health")
		if err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	})
}

// shell runs commands as a reader would, in the rig's folder.
func (r *rig) shell(commands string) (string, error) {
	ctx, cancel := context.WithTimeout(r.ctx, patience)
	defer cancel()
	sh := exec.CommandContext(ctx, "sh", "-ec", commands)
	sh.Dir = r.dir
	sh.Env = append(os.Environ(), "PATH="+r.bin+":"+os.Getenv("PATH"), "ETCDCTL_ENDPOINTS="+r.listen)
	out, err := sh.CombinedOutput()
	return string(out), err
}

// run runs the page's block of a name.
func (r *rig) run(name string) string {
	r.t.Helper()
	commands := blocks(r.t)[name]
	if commands == "" {
		r.t.Fatalf("%s: no block %q", page, name)
	}
	out, err := r.shell(commands)
	if err != nil {
		r.t.Fatalf("%s, block %q: %v\n%s", page, name, err, out)
	}
	return out
}

// blocks are the page's indented lines behind <!-- etcd: NAME -->.
func blocks(t *testing.T) map[string]string {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	all, open := map[string]string{}, ""
	for line := range strings.Lines(string(text)) {
		name, is := strings.CutPrefix(line, "<!-- etcd: ")
		command, indented := strings.CutPrefix(line, "    ")
		switch {
		case is:
			open = strings.TrimSuffix(strings.TrimSpace(name), " -->")
		case open != "" && indented:
			all[open] += command
		case open != "" && all[open] != "":
			open = ""
		}
	}
	return all
}

// until polls a condition; its error tells what is missing.
func (r *rig) until(what string, met func() error) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.ctx, patience)
	defer cancel()
	for {
		err := met()
		if err == nil {
			return
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			r.t.Fatalf("waited %v until %s: %v", patience, what, err)
		}
	}
}

// coordinator starts one, or one that has ended again.
func (r *rig) coordinator(name string) {
	r.t.Helper()
	r.metrics[name] = process.MustFreeAddress(r.t)
	p, err := r.group.Start(name, filepath.Join(r.bin, "shardsched"), "coordinator", "--standalone", "--cluster", cluster,
		"--etcd-endpoints", "http://"+r.listen, "--listen", "127.0.0.1:0", "--http-listen", r.metrics[name], "--leader-elect-lease-duration", "3s")
	if err != nil {
		r.t.Fatal(err)
	}
	r.programs[name] = p
	if r.clients[name], err = p.Line(r.ctx, "coordinator serves clients on "); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) worker(name string) {
	r.t.Helper()
	if _, err := r.group.Start(name, filepath.Join(r.bin, "shardsched"), "worker", "--cluster", cluster, "--id", name, "--cores", "1",
		"--etcd-endpoints", "http://"+r.listen, "--listen", "127.0.0.1:0", "--http-listen", "", "--lease-duration", "3s"); err != nil {
		r.t.Fatal(err)
	}
}

// metric is a line of a coordinator's metrics.
func (r *rig) metric(coordinator, name string) string {
	ctx, cancel := context.WithTimeout(r.ctx, 10*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+r.metrics[coordinator]+"/metrics", nil)
	if err != nil {
		r.t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err.Error()
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		if value, is := strings.CutPrefix(lines.Text(), name+" "); is {
			return value
		}
	}
	return "none"
}

// leader is who leads, by name, and its term.
func (r *rig) leader() (name string, term int64, err error) {
	ctx, cancel := context.WithTimeout(r.ctx, 10*time.Second)
	defer cancel()
	resp, err := r.client.Get(ctx, leaders, clientv3.WithFirstCreate()...)
	if err != nil || len(resp.Kvs) == 0 {
		return "", 0, cmp.Or(err, errors.New("nobody leads"))
	}
	record := &pb.LeaderRecord{}
	if err := proto.Unmarshal(resp.Kvs[0].Value, record); err != nil {
		return "", 0, err
	}
	for name, address := range r.clients {
		if address == record.GetAddress() {
			return name, resp.Kvs[0].CreateRevision, nil
		}
	}
	return "", 0, fmt.Errorf("%s leads, and is not known", record.GetAddress())
}

// waitContenders waits until so many stand for election, and returns who leads.
func (r *rig) waitContenders(n int64) (leader string, term int64) {
	r.t.Helper()
	r.until(fmt.Sprintf("%d stand for election", n), func() error {
		resp, err := r.client.Get(r.ctx, leaders, clientv3.WithPrefix(), clientv3.WithCountOnly())
		if err == nil && resp.Count != n {
			err = fmt.Errorf("%d do", resp.Count)
		}
		if err == nil {
			leader, term, err = r.leader()
		}
		return err
	})
	return leader, term
}

// do makes a call of the leader.
func (r *rig) do(call func(context.Context, pb.SchedulerServiceClient) error) error {
	var addresses []string
	for name, p := range r.programs {
		if p.Running() {
			addresses = append(addresses, r.clients[name])
		}
	}
	c := submit.New(addresses...)
	defer c.Close()
	ctx, cancel := context.WithTimeout(r.ctx, patience)
	defer cancel()
	return c.Do(ctx, call)
}

// apply makes pods that fit.
func (r *rig) apply(names ...string) error {
	r.t.Helper()
	var pods []submit.Object
	for _, name := range names {
		pods = append(pods, build.Pod(name).CPU("10m").Obj())
	}
	return r.applyAll(pods...)
}

func (r *rig) applyAll(all ...submit.Object) error {
	r.t.Helper()
	req, err := submit.Request(all)
	if err != nil {
		r.t.Fatal(err)
	}
	return r.do(func(ctx context.Context, s pb.SchedulerServiceClient) error {
		_, err := s.Apply(ctx, req)
		return err
	})
}

// waitBound waits until so many pods are bound, and all are.
func (r *rig) waitBound(n uint64) {
	r.t.Helper()
	r.until(fmt.Sprintf("%d pods are bound", n), func() error {
		var s *pb.Summary
		err := r.do(func(ctx context.Context, c pb.SchedulerServiceClient) error {
			resp, err := c.GetSummary(ctx, &pb.GetSummaryRequest{})
			s = resp.GetSummary()
			return err
		})
		if err == nil && s.GetPodsBound()+s.GetPodsPresent() != n {
			err = fmt.Errorf("got %v", s)
		}
		return err
	})
}

// asked waits until the leader has asked the worker, of a class that no answer is held of.
func (r *rig) asked(worker string) {
	r.t.Helper()
	for {
		var requests uint64
		if err := r.do(func(ctx context.Context, c pb.SchedulerServiceClient) error {
			resp, err := c.ListWorkers(ctx, &pb.ListWorkersRequest{})
			for _, w := range resp.GetWorkers() {
				if w.GetId() == worker {
					requests = w.GetRequests()
				}
			}
			return err
		}); err != nil {
			r.t.Fatal(err)
		}
		if requests > 0 {
			return
		}
		// Pods of many classes, none of which finds a node.
		var pods []submit.Object
		for range 64 {
			r.classes++
			pods = append(pods, build.Pod(fmt.Sprintf("class-%d", r.classes)).CPU("10m").NodeSelector("no", fmt.Sprint(r.classes)).Obj())
		}
		if err := r.applyAll(pods...); err != nil {
			r.t.Fatal(err)
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-r.ctx.Done():
			r.t.Fatalf("%s is never asked", worker)
		}
	}
}

// fill writes history until etcd takes no more.
func (r *rig) fill() {
	r.t.Helper()
	for {
		_, err := r.client.Put(r.ctx, "/filler", strings.Repeat("x", 200_000))
		if errors.Is(err, rpctypes.ErrNoSpace) {
			return
		}
		if err != nil {
			r.t.Fatal(err)
		}
	}
}

// TestTheCommandsOfThePage goes through an operator's bad week: a backup, an etcd that is full, a leader that dies then, the page's way
// out, and an etcd that is lost and restored. The worker lives through all of it.
func TestTheCommandsOfThePage(t *testing.T) {
	r := newRig(t)
	r.coordinator("a")
	r.waitContenders(1)
	r.coordinator("b")
	r.waitContenders(2)
	r.worker("w")
	if err := r.applyAll(build.Node("n1").CPU("100").Pods("1000").Obj()); err != nil {
		t.Fatal(err)
	}
	if err := r.apply("first-1", "first-2"); err != nil {
		t.Fatal(err)
	}
	r.waitBound(2)
	r.asked("w")

	if out := r.run("backup"); !strings.Contains(out, "REVISION") {
		t.Errorf("backup: got\n%s", out)
	}

	r.fill()
	_, before := r.waitContenders(2)
	if err := r.apply("second"); status.Code(err) == codes.OK || !strings.Contains(err.Error(), "database space exceeded") {
		t.Errorf("apply to a full etcd: got %v, want it to say that there is no space", err)
	}
	for _, coordinator := range []string{"a", "b"} {
		r.until(coordinator+" tells that etcd is full", func() error {
			if got := r.metric(coordinator, `shardsched_etcd_alarms{alarm="NOSPACE"}`); got != "1" {
				return fmt.Errorf("got alarms: %s", got)
			}
			return nil
		})
		if got := r.metric(coordinator, "shardsched_etcd_quota_bytes"); got != "1.6777216e+07" {
			t.Errorf("%s: got a quota of %s, want %d", coordinator, got, quota)
		}
	}
	leader, term := r.waitContenders(2)
	if term != before {
		t.Errorf("while etcd is full: got term %d, want that of before, %d", term, before)
	}
	r.programs[leader].Kill()
	next, term := r.waitContenders(1)
	if next == leader || term <= before {
		t.Errorf("after the leader was killed: got %s of term %d, want the other one, of a term after %d", next, term, before)
	}
	r.coordinator(leader)
	if _, err := r.programs[leader].LineWith(r.ctx, "database space exceeded"); err != nil {
		t.Errorf("one that starts while etcd is full: %v", err)
	}

	out := r.run("full")
	if !strings.Contains(out, "alarm:NOSPACE") {
		t.Errorf("the page's way out: got no alarm in\n%s", out)
	}
	r.waitContenders(2)
	if err := r.apply("second"); err != nil {
		t.Errorf("apply when there is room again: %v", err)
	}
	r.waitBound(3)
	r.until("the alarm is gone", func() error {
		if got := r.metric(leader, `shardsched_etcd_alarms{alarm="NOSPACE"}`); got != "0" {
			return fmt.Errorf("got alarms: %s", got)
		}
		return nil
	})

	_, last := r.waitContenders(2)
	r.etcd.Kill()
	r.run("restore")
	r.startEtcd("restored")
	r.until("one leads of a term after all before", func() error {
		_, term, err := r.leader()
		if err == nil && term <= last+1_000_000 {
			err = fmt.Errorf("got term %d after %d", term, last)
		}
		return err
	})
	r.waitContenders(2)
	r.waitBound(2) // the third came after the backup
	r.asked("w")
}
