package coldstart

import (
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/shardsched/shardsched/bench/cluster/controlplane/testbed"
	"github.com/shardsched/shardsched/bench/internal/process"
	"github.com/shardsched/shardsched/internal/testkit/build"
)

// late is how much later than all others the etcd of the coordinators comes: for longer than connections are tried anew at first.
const late = 20 * time.Second

// blackout is a cluster whose power was cut while pods waited.
type blackout struct {
	*testbed.Cluster
	pods int
}

// cut ends the API server and both etcds, as a power cut would, and leaves so many more pods that wait.
func (b *blackout) cut(n int) (keys []string) {
	b.T.Helper()
	var pods []runtime.Object
	for range n {
		b.pods++
		name := fmt.Sprintf("p%03d", b.pods)
		pods, keys = append(pods, build.Pod(name).CPU("10m").Obj()), append(keys, "default/"+name)
	}
	b.CreateAll(pods...)
	b.APIServer.Kill()
	b.Etcd.Kill()
	b.OwnEtcd.Kill()
	return keys
}

// run starts a program of ours, and does not wait for it.
func (b *blackout) run(name string, args ...string) *process.Process {
	b.T.Helper()
	program, err := b.Shardsched(b.Context())
	if err != nil {
		b.T.Fatal(err)
	}
	p, err := b.Run(name, program, args...)
	if err != nil {
		b.T.Fatal(err)
	}
	return p
}

// coordinator starts one in kube-scheduler's place.
func (b *blackout) coordinator(name string, etcd ...string) *process.Process {
	b.T.Helper()
	return b.run(name, append([]string{"coordinator", "--kubeconfig=" + b.SchedulerKubeconfig, "--authentication-kubeconfig=" + b.SchedulerKubeconfig,
		"--authorization-kubeconfig=" + b.SchedulerKubeconfig, "--secure-port=0", "--listen=127.0.0.1:0", "--cluster=cold",
		"--leader-elect-lease-duration=4s", "--leader-elect-renew-deadline=3s", "--leader-elect-retry-period=500ms"}, etcd...)...)
}

func (b *blackout) start(s *testbed.Server) {
	b.T.Helper()
	if err := s.Start(b.T.Context()); err != nil {
		b.T.Fatal(err)
	}
}

// end tells processes to end, which have to be there still: who waits does not give up.
func (b *blackout) end(all ...*process.Process) {
	b.T.Helper()
	for _, p := range all {
		if !p.Running() {
			b.T.Errorf("%s has ended (%v), want it to wait", p.Name, p.Err())
		}
		testbed.Stop(p)
	}
}

// workerJoins waits until one of the coordinators says that a worker has joined.
func (b *blackout) workerJoins(coordinators []*process.Process) {
	b.T.Helper()
	if _, err := process.FirstWith(b.Context(), coordinators, `"Worker joined"`); err != nil {
		b.T.Error(err)
	}
}

func TestEverythingStartsAtOnce(t *testing.T) {
	b := &blackout{Cluster: testbed.New(t, testbed.Config{OwnEtcd: true, NoAudit: true})}
	b.Create(build.Node("n1").CPU("100").Pods("100").Obj())

	t.Log("with workers, and an etcd of their own that comes last")
	keys := b.cut(3)
	etcd := "--etcd-endpoints=" + b.OwnEtcdEndpoint()
	all := []*process.Process{
		b.coordinator("coordinator-1", etcd), b.coordinator("coordinator-2", etcd),
		b.run("worker", "worker", etcd, "--cluster=cold", "--id=w", "--listen=127.0.0.1:0", "--http-listen="),
	}
	began := time.Now()
	b.start(b.Etcd)
	b.start(b.APIServer)
	time.Sleep(late - time.Since(began)) // that it comes late is what is tested
	b.start(b.OwnEtcd)
	began = time.Now()
	b.Until("are bound", testbed.IsBound, keys...)
	t.Logf("all are bound %v after the last etcd came", time.Since(began).Round(time.Millisecond))
	b.workerJoins(all[:2])
	b.end(all...)

	t.Log("without workers, each with an etcd inside")
	t.Setenv("TMPDIR", t.TempDir())
	keys = b.cut(3)
	all = []*process.Process{b.coordinator("swap-1", "--embedded-etcd"), b.coordinator("swap-2", "--embedded-etcd")}
	b.start(b.Etcd)
	b.start(b.APIServer)
	began = time.Now()
	b.Until("are bound", testbed.IsBound, keys...)
	t.Logf("all are bound %v after the API server came", time.Since(began).Round(time.Millisecond))
	b.end(all...)
}
