package rig

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/shardsched/shardsched/bench/cluster/controlplane/testbed"
	"github.com/shardsched/shardsched/internal/testkit/build"
)

// schedulerEnv says which scheduler is tested: empty is ours, "kube-scheduler" upstream's.
const schedulerEnv = "BLACKBOX_SCHEDULER"

// Upstream tells whether upstream's scheduler is tested, to prove the tests.
func Upstream() bool { return os.Getenv(schedulerEnv) == "kube-scheduler" }

// settler is the name of the profile that Settle's pods have: it knows node affinity and
// nothing else, so that nothing keeps them away.
const settler = "settler"

const settlerProfile = `
- schedulerName: ` + settler + `
  plugins:
    multiPoint: {disabled: [{name: "*"}], enabled: [{name: PrioritySort}, {name: DefaultBinder}]}
    preFilter: {enabled: [{name: NodeAffinity}]}
    filter: {enabled: [{name: NodeAffinity}]}
`

// settleLabel is on the nodes that Settle waits for.
const settleLabel = "blackbox/settle"

// Rig is a cluster with a scheduler. One goroutine uses it.
type Rig struct {
	*testbed.Cluster
	// Scheduler is the process that is tested, once it is started.
	Scheduler *testbed.SchedulerProcess
	// Args are flags of the scheduler beside the usual ones.
	Args []string
	// Host is what it calls itself in events.
	Host string

	settled *int // how often Settle was called, for names
}

// New starts a bed without a scheduler.
func New(t testing.TB, config testbed.Config) *Rig {
	t.Helper()
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	return &Rig{Cluster: testbed.New(t, config), Host: host, settled: new(int)}
}

// Start starts the scheduler with the profiles, each an item of YAML, beside that of
// Settle, and returns when it leads and, ours, its two workers are there. The one that
// was started before ends first.
func (r *Rig) Start(profiles string) {
	r.T.Helper()
	r.StartWith(profiles, "")
}

// StartWith is Start with fields of the configuration beside the profiles, in YAML.
func (r *Rig) StartWith(profiles, fields string) {
	r.T.Helper()
	s := testbed.Scheduler{Config: "profiles:\n- schedulerName: default-scheduler\n" +
		strings.TrimSpace(profiles) + settlerProfile + fields, Args: r.Args}
	again := r.Scheduler != nil
	if again {
		testbed.Stop(r.Scheduler.Process)
	}
	if Upstream() {
		r.Scheduler = r.Cluster.Upstream(s)
		return
	}
	for i := range 2 {
		if !again {
			r.Worker("worker-" + strconv.Itoa(i))
		}
	}
	r.Scheduler = r.Coordinator(s)
	r.Await("two workers are there", func(ctx context.Context) (string, bool) {
		n := r.Metric("shardsched_fanout_workers")
		return fmt.Sprint(n), n == 2
	})
}

// With is the same rig for a subtest, after which Reset is called.
func (r *Rig) With(t testing.TB) *Rig {
	sub := *r
	sub.Cluster = &testbed.Cluster{Bed: r.Bed, T: t}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), testbed.Patience)
		defer cancel()
		if err := sub.reset(ctx); err != nil {
			t.Error(err)
		}
	})
	return &sub
}

// Must fails the test for an error.
func (r *Rig) Must(err error) {
	r.T.Helper()
	if err != nil {
		r.T.Fatal(err)
	}
}

// reset deletes nodes and pods.
func (r *Rig) reset(ctx context.Context) error {
	now := metav1.DeleteOptions{GracePeriodSeconds: new(int64)}
	if err := r.Admin.CoreV1().Nodes().DeleteCollection(ctx, now, metav1.ListOptions{}); err != nil {
		return err
	}
	var keys []string
	for _, p := range r.Pods.All() {
		keys = append(keys, p.Namespace+"/"+p.Name)
	}
	return r.DeletePods(ctx, keys...)
}

// Settle returns once the scheduler knows all that happened to nodes and pods so far. The
// node is the one that was made or changed last.
func (r *Rig) Settle(node string) {
	r.T.Helper()
	*r.settled++
	mark := strconv.Itoa(*r.settled)
	r.Label(node, settleLabel, mark)
	probe := build.Pod("settle-"+mark).NodeSelector(settleLabel, mark).Obj()
	probe.Spec.SchedulerName = settler
	r.Create(probe)
	r.Bound("default/" + probe.Name)
	r.Delete("default/" + probe.Name)
}

// Label sets a label of a node.
func (r *Rig) Label(node, key, value string) {
	r.T.Helper()
	r.PatchNode(node, fmt.Sprintf(`{"metadata": {"labels": {%q: %q}}}`, key, value))
}

// PatchNode changes a node by a merge patch in JSON; subresources are those to patch.
func (r *Rig) PatchNode(node, patch string, subresources ...string) {
	r.T.Helper()
	_, err := r.Admin.CoreV1().Nodes().Patch(r.Context(), node, types.MergePatchType, []byte(patch), metav1.PatchOptions{}, subresources...)
	r.Must(err)
}

// PatchPod changes a pod, given as namespace/name, by a merge patch in JSON.
func (r *Rig) PatchPod(key, patch string, subresources ...string) *v1.Pod {
	r.T.Helper()
	namespace, name, _ := strings.Cut(key, "/")
	p, err := r.Admin.CoreV1().Pods(namespace).Patch(r.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{},
		subresources...)
	r.Must(err)
	return p
}

// Await asks until the answer is yes; what it was asked last tells why not.
func (r *Rig) Await(what string, ask func(context.Context) (got string, yes bool)) {
	r.T.Helper()
	ctx, got := r.Context(), ""
	err := wait.PollUntilContextCancel(ctx, 20*time.Millisecond, true, func(ctx context.Context) (yes bool, err error) {
		got, yes = ask(ctx)
		return yes, nil
	})
	if err != nil {
		r.T.Fatalf("waiting until %s: %v; got %s", what, err, got)
	}
}

// Metric is the sum of a metric's series that have all the labels, written name="value".
func (r *Rig) Metric(name string, labels ...string) (sum float64) {
	r.T.Helper()
	_, text, err := r.Scheduler.Get(r.T.Context(), "/metrics", r.AdminToken())
	r.Must(err)
	for line := range strings.Lines(text) {
		series, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		if i := strings.LastIndex(line, "} "); i >= 0 {
			series, value = line[:i+1], strings.TrimSpace(line[i+2:])
		}
		if metric, _, _ := strings.Cut(series, "{"); metric != name || !containsAll(series, labels) {
			continue
		}
		v, err := strconv.ParseFloat(value, 64)
		r.Must(err)
		sum += v
	}
	return sum
}

func containsAll(s string, parts []string) bool {
	for _, p := range parts {
		if !strings.Contains(s, p) {
			return false
		}
	}
	return true
}

// Waits waits until a pod is unschedulable for a reason: the message up to what plugins add
// that look for a way out, see Case.After.
func (r *Rig) Waits(key, why string) *v1.Pod {
	r.T.Helper()
	met := func(p *v1.Pod) bool {
		return testbed.IsUnschedulable(p) && beforeAfter(testbed.ScheduledCondition(p).Message) == why
	}
	return r.Until(fmt.Sprintf("are unschedulable because %q", why), met, key)[0]
}

// beforeAfter cuts what Case.After is about off a message.
func beforeAfter(message string) string {
	if i := strings.Index(message, ". "); i >= 0 {
		return message[:i+1]
	}
	return message
}

// Goes waits until a pod is bound, which has to be to a node.
func (r *Rig) Goes(key, node string) {
	r.T.Helper()
	if got := r.Bound(key); got != node {
		r.T.Errorf("%s: got node %s, want %s", key, got, node)
	}
}
