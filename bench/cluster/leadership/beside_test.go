package leadership

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/shardsched/shardsched/bench/cluster/controlplane/testbed"
	"github.com/shardsched/shardsched/internal/testkit/build"
)

// leavingPage is docs/leaving.md, whose configuration runs here, and whose words of what is left are held to what is left.
func leavingPage(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../../../docs/leaving.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestOneProfileRunsBesideKubeScheduler has kube-scheduler and the page's coordinator schedule at the same time: each binds the pods that
// name it, under a Lease of its own, with kube-scheduler's permissions. Then the coordinator leaves, and what is left in etcd is what
// the page tells, and goes as the page says.
func TestOneProfileRunsBesideKubeScheduler(t *testing.T) {
	page := leavingPage(t)
	config := regexp.MustCompile("(?s)```yaml\n(apiVersion: kubescheduler.*?)```").FindStringSubmatch(page)
	if config == nil {
		t.Fatal("docs/leaving.md: got no configuration")
	}
	c := testbed.New(t, testbed.Config{})
	c.Create(build.Node("n1").CPU("100").Pods("100").Obj(), build.Node("n2").CPU("100").Pods("100").Obj())
	c.Upstream(testbed.Scheduler{})
	ours := c.Coordinator(testbed.Scheduler{Config: config[1], Cluster: "beside", Kubeconfig: c.SchedulerKubeconfig})
	const each = 20
	var pods []runtime.Object
	var keys []string
	for i := range each {
		for _, of := range []string{"theirs", "ours"} {
			p := build.Pod(fmt.Sprintf("%s-%02d", of, i)).CPU("100m").Obj()
			if of == "ours" {
				p.Spec.SchedulerName = "shardsched"
			}
			pods, keys = append(pods, p), append(keys, "default/"+p.Name)
		}
	}
	waits := build.Pod("ours-waits").CPU("1000").Obj()
	waits.Spec.SchedulerName = "shardsched"
	c.CreateAll(append(pods, waits)...)
	before := c.Until("are bound", testbed.IsBound, keys...)
	c.Unschedulable("default/ours-waits")

	bound := map[string]int{}
	for _, e := range (&takeoverCluster{Cluster: c}).binds() {
		who, _, _ := strings.Cut(e.ObjectRef.Name, "-")
		bound[agent(&e)+" bound "+who]++
	}
	if bound["upstream bound theirs"] != each || bound["ours bound ours"] != each || len(bound) != 2 {
		t.Errorf("got %v, want each to bind its own %d", bound, each)
	}
	for lease, is := range map[string]bool{"kube-scheduler": false, "shardsched": true} {
		l, err := c.Admin.CoordinationV1().Leases(metav1.NamespaceSystem).Get(c.Context(), lease, metav1.GetOptions{})
		if err != nil || l.Spec.HolderIdentity == nil || strings.Contains(*l.Spec.HolderIdentity, "_shardsched-") != is {
			t.Errorf("Lease %s: got %+v, %v", lease, l.Spec, err)
		}
	}
	if denied := testbed.Denied(c.Audited()); len(denied) > 0 {
		t.Errorf("denied: want nothing, got\n%s", strings.Join(denied, "\n"))
	}

	refuse(t, c, ours)
	checkConfig(t, c, config[1], fmt.Sprintf("default-scheduler: %d, 0 of them without a node\n", each))
	ours.Terminate()
	if got := exitCode(&takeoverCluster{Cluster: c}, ours); got != 0 {
		t.Errorf("exit code: got %d, want 0", got)
	}
	for i, p := range c.Until("stay", testbed.IsBound, keys...) {
		if p.UID != before[i].UID || p.Spec.NodeName != before[i].Spec.NodeName || len(p.Annotations)+len(p.Finalizers)+len(p.Labels) != 0 {
			t.Errorf("%s: got %+v on %s, want it where it was and nothing of ours on it", p.Name, p.ObjectMeta, p.Spec.NodeName)
		}
	}
	if p, err := c.Admin.CoreV1().Pods(metav1.NamespaceDefault).Get(c.Context(), "ours-waits", metav1.GetOptions{}); err != nil ||
		p.Spec.NodeName != "" || p.Status.Phase != v1.PodPending {
		t.Errorf("got %+v, %v; want the pod that waits to wait", p, err)
	}
	leftInEtcd(t, c, page)
}

// refuse has a kubelet refuse one pod of kube-scheduler's and two of ours, which is counted of ours. Nobody has told that they run.
func refuse(t *testing.T, c *testbed.Cluster, ours *testbed.SchedulerProcess) {
	t.Helper()
	for _, name := range []string{"theirs-00", "ours-00", "ours-01"} {
		patch := []byte(`{"status": {"phase": "Failed", "reason": "OutOfcpu", "message": "Node didn't have enough resource: cpu"}}`)
		if _, err := c.Admin.CoreV1().Pods(metav1.NamespaceDefault).Patch(c.Context(), name, types.MergePatchType, patch, metav1.PatchOptions{}, "status"); err != nil {
			t.Fatal(err)
		}
	}
	const want = `shardsched_kubelet_refused_pods_total{reason="OutOfcpu"} 2`
	ctx, got := c.Context(), ""
	for !strings.Contains(got, want+"\n") {
		select {
		case <-ctx.Done():
			t.Fatalf("want %s, got\n%s", want, got)
		case <-time.After(100 * time.Millisecond):
		}
		_, text, err := ours.Get(ctx, "/metrics", c.AdminToken())
		if err != nil {
			t.Fatal(err)
		}
		got = text
	}
	if !strings.Contains(leavingPage(t), "`shardsched_kubelet_refused_pods_total`") {
		t.Error("docs/leaving.md: got nothing of shardsched_kubelet_refused_pods_total")
	}
}

// checkConfig has shardsched config check find nothing that differs in a configuration, and count the pods that are kube-scheduler's.
func checkConfig(t *testing.T, c *testbed.Cluster, config, want string) {
	t.Helper()
	program, err := c.Bed.Shardsched(c.Context())
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "kube-scheduler.yaml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(c.Context(), program, "config", "check", file, "--kubeconfig", c.Bed.AdminKubeconfig).CombinedOutput()
	if err != nil || !strings.Contains(string(out), want) {
		t.Errorf("config check: got %v\n%s\nwant %q", err, out, want)
	}
}

// leftInEtcd has keys below the page's prefix only, none of them under a lease, and removes them as the page's command does.
func leftInEtcd(t *testing.T, c *testbed.Cluster, page string) {
	t.Helper()
	const command = "etcdctl del --prefix /shardsched/NAME/"
	if !strings.Contains(page, command) {
		t.Fatalf("docs/leaving.md: got no %q", command)
	}
	_, prefix, _ := strings.Cut(strings.Replace(command, "NAME", "beside", 1), "--prefix ")
	etcd, err := clientv3.New(clientv3.Config{Endpoints: []string{c.Bed.OwnEtcdEndpoint()}})
	if err != nil {
		t.Fatal(err)
	}
	defer etcd.Close()
	const whole = "/shardsched/" // beside it stands what the API server keeps
	all, err := etcd.Get(c.Context(), whole, clientv3.WithPrefix(), clientv3.WithKeysOnly())
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[string]bool{}
	for _, kv := range all.Kvs {
		below, ours := strings.CutPrefix(string(kv.Key), prefix)
		name, _, deeper := strings.Cut(below, "/")
		if deeper {
			name += "/"
		}
		if kinds[name] = true; !ours || kv.Lease != 0 || !strings.Contains(page, "`"+name+"`") {
			t.Errorf("got key %s under lease %x, want one that the page names, below %s", kv.Key, kv.Lease, prefix)
		}
	}
	if !kinds["queue/"] || !kinds["mark"] {
		t.Errorf("got %v, want the journal of the pod that waits, and the mark", kinds)
	}
	if _, err := etcd.Delete(c.Context(), prefix, clientv3.WithPrefix()); err != nil {
		t.Fatal(err)
	}
	if left, err := etcd.Get(c.Context(), whole, clientv3.WithPrefix(), clientv3.WithKeysOnly()); err != nil || len(left.Kvs) != 0 {
		t.Errorf("got %v, %v, want nothing left", left, err)
	}
}
