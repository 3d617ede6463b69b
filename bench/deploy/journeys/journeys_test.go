package journeys

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"sigs.k8s.io/yaml"

	"github.com/shardsched/shardsched/bench/cluster/controlplane/testbed"
	"github.com/shardsched/shardsched/internal/testkit/build"
)

const (
	kubeadmPod = "../../../deploy/static-pod/testdata/kubeadm.yaml"
	manifest   = "etc/kubernetes/manifests/kube-scheduler.yaml"
	image      = "registry.example.com/shardsched:v1"
)

var every = flag.Duration("every", 50*time.Millisecond, "how often a pod comes")

// journey is a cluster without a scheduler.
type journey struct {
	*testbed.Cluster
	*kubelet
	shardsched string // the program
	// roles is the folder of the roles' certificates, etcd the chart's value of one that runs.
	roles, etcd string
}

func newJourney(t *testing.T) *journey {
	j := &journey{Cluster: testbed.New(t, testbed.Config{})}
	ours, err := j.Shardsched(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	upstream, err := j.KubeScheduler(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	j.shardsched = ours
	j.kubelet = &kubelet{bed: j.Bed, dir: shortDir(t), configs: map[string]map[string]string{}, secrets: map[string]map[string][]byte{},
		programs: map[string]string{"shardsched": ours, "kube-scheduler": upstream}}
	return j
}

// run is a command of the documents.
func (j *journey) run(args ...string) (out string) {
	j.T.Helper()
	var errs strings.Builder
	c := exec.CommandContext(j.Context(), j.shardsched, args...)
	c.Stderr = &errs
	text, err := c.Output()
	if err != nil {
		j.T.Fatalf("shardsched %s: %v\n%s", strings.Join(args, " "), err, errs.String())
	}
	return string(text)
}

// TestJourneys goes all ways on one control plane. Certificates are made by the commands of docs/security.md.
func TestJourneys(t *testing.T) {
	j := newJourney(t)
	t.Run("from kube-scheduler to ours and back", func(t *testing.T) { j.with(t).swapAndBack() })
	j.prepare()
	t.Run("swap", func(t *testing.T) { j.with(t).swap() })
	t.Run("sharded", func(t *testing.T) { j.with(t).sharded() })
	t.Run("standalone", func(t *testing.T) { j.with(t).standalone() })
}

// with is the journey in a subtest: what runs there ends with it.
func (j *journey) with(t *testing.T) *journey {
	sub := *j
	sub.Cluster = j.Cluster.With(t)
	for i := range 20 {
		sub.Create(build.Node(fmt.Sprintf("n%02d", i)).CPU("1000").Memory("1000Gi").Pods("10000").Obj())
	}
	return &sub
}

// master is a node of the control plane: a folder with its files, an address, and what runs of its static pod.
type master struct {
	j        *journey
	name     string
	root, ip string
	runs     *pod
}

func (j *journey) master(n int) *master {
	j.T.Helper()
	m := &master{j: j, name: fmt.Sprintf("master-%d", n), root: j.T.TempDir(), ip: fmt.Sprintf("127.%d.%d.%d", 1+os.Getpid()>>8%250, os.Getpid()%250, 10+n)}
	kubeconfig, err := os.ReadFile(j.SchedulerKubeconfig)
	if err != nil {
		j.T.Fatal(err)
	}
	m.write("etc/kubernetes/scheduler.conf", kubeconfig)
	return m
}

func (m *master) write(file string, text []byte) {
	m.j.T.Helper()
	file = filepath.Join(m.root, file)
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		m.j.T.Fatal(err)
	}
	if err := os.WriteFile(file, text, 0o600); err != nil {
		m.j.T.Fatal(err)
	}
}

// put puts a manifest in the place of the one that is there: its pod ends, and the new one starts.
func (m *master) put(text []byte) {
	t := m.j.T
	t.Helper()
	m.write(manifest, text)
	var p v1.Pod
	if err := yaml.UnmarshalStrict(text, &p); err != nil {
		t.Fatal(err)
	}
	p.Name += "-" + m.name
	if m.runs != nil {
		m.runs.Terminate()
		select {
		case <-m.runs.Done():
		case <-time.After(testbed.Patience):
			t.Fatalf("%s does not end", m.runs.Name)
		}
	}
	var err error
	if m.runs, err = m.j.start(&p, m.root, m.ip); err == nil {
		t.Cleanup(func(p *pod) func() { return func() { testbed.Stop(p.Process) } }(m.runs))
		err = m.runs.ready(m.j.Context(), p.Spec.Containers[0].ReadinessProbe)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// swapAndBack swaps the static pods of two nodes of a control plane, one at a time, as deploy/README.md says, and back as
// docs/leaving.md says, while pods come. Each is bound once, and the three have led one after the other.
func (j *journey) swapAndBack() {
	t := j.T
	kubeadms, err := os.ReadFile(kubeadmPod)
	if err != nil {
		t.Fatal(err)
	}
	first, second := j.master(1), j.master(2)
	first.put(kubeadms)
	pods := j.pour()
	pods.boundNow()
	second.put(kubeadms)
	for _, m := range []*master{second, first} { // the one that stands by first
		m.put([]byte(j.run("generate", "static-pod", "--from", filepath.Join(m.root, manifest), "--image", image)))
		pods.boundNow()
	}
	// second leads: it was there when first's kube-scheduler ended.
	for _, m := range []*master{first, second} {
		m.put(kubeadms)
		pods.boundNow()
	}
	pods.end()

	var order []string
	var last time.Time
	var handover []time.Duration
	bound, cut := map[string]int{}, map[string]int{}
	for _, e := range j.binds() {
		if e.ResponseStatus.Code != 201 {
			if agent(&e) == "shardsched" {
				t.Errorf("a bind of ours: %s", testbed.AuditLine(e))
			}
			if e.ResponseStatus.Code == 504 { // kube-scheduler ended before it had the answer: the bind is written, or not
				cut[e.ObjectRef.Name]++
			}
			continue
		}
		bound[e.ObjectRef.Name]++
		at := e.RequestReceivedTimestamp.Time
		if a := agent(&e); len(order) == 0 || order[len(order)-1] != a {
			if len(order) > 0 {
				handover = append(handover, at.Sub(last).Round(time.Millisecond))
			}
			order = append(order, a)
		}
		last = at
	}
	t.Logf("%d pods; from the last bind of one to the first of the next: %v", pods.n.Load(), handover)
	if want := []string{"kube-scheduler", "shardsched", "kube-scheduler"}; !slices.Equal(order, want) {
		t.Errorf("bound by: got %q, want %q", order, want)
	}
	for i := range pods.n.Load() {
		if name := podName(i); bound[name] != 1 && (bound[name] != 0 || cut[name] != 1) {
			t.Errorf("%s: bound %d times, and %d binds had no answer; want it bound once", name, bound[name], cut[name])
		}
	}
}

// load are pods that come all the time.
type load struct {
	j    *journey
	n    atomic.Int64
	stop context.CancelFunc
	done chan struct{}
}

func podName(i int64) string { return fmt.Sprintf("p%05d", i) }

func (j *journey) pour() *load {
	l := &load{j: j, done: make(chan struct{})}
	var ctx context.Context
	ctx, l.stop = context.WithCancel(j.T.Context())
	go func() {
		defer close(l.done)
		tick := time.NewTicker(*every)
		defer tick.Stop()
		for ctx.Err() == nil {
			if err := j.Bed.Create(context.WithoutCancel(ctx), build.Pod(podName(l.n.Load())).CPU("10m").Obj()); err != nil {
				j.T.Errorf("create a pod: %v", err)
				return
			}
			l.n.Add(1)
			select {
			case <-tick.C:
			case <-ctx.Done():
			}
		}
	}()
	j.T.Cleanup(func() { l.stop(); <-l.done })
	return l
}

// boundNow waits until a pod is bound that comes after the call.
func (l *load) boundNow() {
	l.j.T.Helper()
	l.j.Bound("default/" + podName(l.n.Load()+1))
}

// end has no more pods come, and waits until all are bound.
func (l *load) end() {
	l.j.T.Helper()
	l.stop()
	<-l.done
	for i := range l.n.Load() {
		l.j.Bound("default/" + podName(i))
	}
}

// binds are those that the API server was asked for, in order.
func (j *journey) binds() []auditv1.Event {
	j.T.Helper()
	binds := slices.DeleteFunc(j.Audited(), func(e auditv1.Event) bool {
		return e.ObjectRef == nil || e.ObjectRef.Resource != "pods" || e.ObjectRef.Subresource != "binding" || e.ResponseStatus == nil
	})
	slices.SortStableFunc(binds, func(a, b auditv1.Event) int {
		return a.RequestReceivedTimestamp.Compare(b.RequestReceivedTimestamp.Time)
	})
	return binds
}

// agent is which scheduler made a request.
func agent(e *auditv1.Event) string {
	name, _, _ := strings.Cut(e.UserAgent, "/")
	return name
}

// shortDir is a folder whose name leaves room for a socket's, which may have 107 bytes.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "j")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}
