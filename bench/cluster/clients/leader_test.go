package clients

import (
	"fmt"
	"net"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/shardsched/shardsched/bench/cluster/controlplane/testbed"
	"github.com/shardsched/shardsched/internal/testkit/build"
)

// mayFind is the right that a client needs to find a leader outside of the cluster: of one Lease.
func mayFind() rbacv1.PolicyRule {
	rule := rule("coordination.k8s.io", "leases", "get")
	rule.ResourceNames = []string{"kube-scheduler"}
	return rule
}

// TestClientsOfALeader runs them on one API server, with schedulers of their own, users of their own and an empty cluster each.
func TestClientsOfALeader(t *testing.T) {
	r := newRig(t)
	for _, x := range []struct {
		name string
		test func(*testing.T, *rig)
	}{
		{"a console tries changes on the API server's copy", testConsoleTriesChanges},
		{"the Lease names the leader", testLeaseNamesTheLeader},
		{"a kube-scheduler holds the Lease", testKubeSchedulerHoldsTheLease},
		{"a leader in a pod", testLeaderInAPod},
	} {
		t.Run(x.name, func(t *testing.T) { x.test(t, r.with(t)) })
	}
}

// A client that knows the API server alone asks whoever holds the Lease, and says what keeps it from that.
func testLeaseNamesTheLeader(t *testing.T, r *rig) {
	r.Create(build.Node("n1").CPU("4").Obj(), build.Pod("big").CPU("8").Obj())
	finder := r.user(t, "finder", mayFind())
	nobody := r.user(t, "nobody")
	ask := func(t *testing.T, kubeconfig, want string, code int) {
		t.Helper()
		got := r.run(t, "pending", "--kubeconfig", kubeconfig, "--patience", "60s")
		if text := got.out + got.told; got.code != code || !strings.Contains(text, want) {
			t.Errorf("got exit code %d and %s\nwant %d and %q", got.code, text, code, want)
		}
	}
	const pending, at = "cpu: larger than any node", "kube-system/kube-scheduler"
	ask(t, finder, "there is no Lease "+at+": no scheduler has led there yet", 1)
	ask(t, nobody, `cannot get resource "leases" in API group "coordination.k8s.io" in the namespace "kube-system"`, 1)

	first := r.Coordinator(testbed.Scheduler{Name: "first"})
	r.Unschedulable("default/big")
	ask(t, finder, pending, 0)
	ask(t, r.AdminKubeconfig, pending, 0)

	r.Coordinator(testbed.Scheduler{Name: "second"})
	first.Kill() // its Lease still names it
	ask(t, finder, pending, 0)
}

// A kube-scheduler that holds the Lease has nothing to tell.
func testKubeSchedulerHoldsTheLease(t *testing.T, r *rig) {
	r.Create(build.Node("n1").CPU("4").Obj(), build.Pod("p").CPU("1").Obj())
	r.Upstream(testbed.Scheduler{})
	r.Bound("default/p")
	got := r.run(t, "pending", "--kubeconfig", r.user(t, "finder-beside-upstream", mayFind()))
	if got.code != 1 || !strings.Contains(got.told, "holds kube-system/kube-scheduler: no coordinator leads") {
		t.Errorf("got exit code %d and %q, want 1 and who holds it", got.code, got.told)
	}
}

// A leader that runs in a pod is reached through the API server. Without a kubelet the way ends there, and the error says where.
func testLeaderInAPod(t *testing.T, r *rig) {
	t.Setenv("POD_NAMESPACE", metav1.NamespaceSystem)
	t.Setenv("POD_NAME", "leader")
	kubelet, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := kubelet.Addr().(*net.TCPAddr).Port
	kubelet.Close() // nobody is there any more
	hollow := build.Node("n1").CPU("4").Obj()
	hollow.Status.Addresses = []v1.NodeAddress{{Type: v1.NodeInternalIP, Address: "127.0.0.1"}}
	hollow.Status.DaemonEndpoints.KubeletEndpoint.Port = int32(port)
	r.Create(hollow, build.Pod("waits").CPU("8").Obj())
	r.Coordinator(testbed.Scheduler{})
	r.Unschedulable("default/waits") // it leads
	create := rule("", "pods/portforward", "create")
	const user = "finder-of-a-pod"
	finder := r.user(t, user, mayFind())
	ask := func(want ...string) {
		t.Helper()
		got := r.run(t, "pending", "--kubeconfig", finder, "--patience", "1s")
		for _, want := range append(want, "port-forward to pod kube-system/leader, where the leader is: ") {
			if got.code != 1 || !strings.Contains(got.told, want) {
				t.Errorf("got exit code %d and %s\nwant 1 and %q", got.code, got.told, want)
			}
		}
	}
	ask(`cannot create resource "pods/portforward" in API group "" in the namespace "kube-system"`)
	r.allow(t, user, mayFind(), create)
	ask(`pods "leader" not found`)
	pod := build.Pod("leader").CPU("1").Obj()
	pod.Namespace = metav1.NamespaceSystem
	r.Create(pod)
	r.Bound("kube-system/leader")
	ask(fmt.Sprintf("dial tcp 127.0.0.1:%d: connect: connection refused", port))
}
