package testbed

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/shardsched/shardsched/internal/testkit/build"
)

func node(name string) *build.NodeBuilder { return build.Node(name).CPU("4").Memory("8Gi") }

func TestControlPlane(t *testing.T) {
	c := New(t, Config{})
	t.Run("upstream's scheduler binds, and waits where it can't", func(t *testing.T) {
		c := c.With(t)
		testScheduler(c, c.Upstream(Scheduler{}))
	})
	t.Run("ours binds, and waits where it can't", func(t *testing.T) {
		c := c.With(t)
		c.Worker("worker")
		testScheduler(c, c.Coordinator(Scheduler{}))
	})
	t.Run("a scheduler's writes to what is not its own are refused, and audited", func(t *testing.T) { testDenied(c.With(t)) })
	t.Run("claims get volumes where their first consumer goes", func(t *testing.T) { testVolumes(c.With(t)) })
	t.Run("objects outlive servers that are killed", func(t *testing.T) { testKilled(c.With(t)) })
}

func testDenied(c *Cluster) {
	c.Create(node("a").Obj())
	if got := Denied(c.Audited()); len(got) > 0 {
		c.T.Errorf("before: got %q, want nothing denied", got)
	}
	k, err := c.CoordinatorClient()
	c.must(err)
	if _, err := k.CoreV1().Nodes().List(c.Context(), metav1.ListOptions{}); err != nil {
		c.T.Errorf("a coordinator lists nodes: got %v, want no error", err)
	}
	err = k.CoreV1().Nodes().Delete(c.Context(), "a", metav1.DeleteOptions{})
	if !apierrors.IsForbidden(err) {
		c.T.Errorf("a coordinator deletes a node: got %v, want it forbidden", err)
	}
	if got, want := fmt.Sprint(Denied(c.Audited())), "[delete nodes a: 403]"; got != want {
		c.T.Errorf("denied: got %s, want %s", got, want)
	}
}

func testScheduler(c *Cluster, s *SchedulerProcess) {
	c.Create(
		node("a").Obj(), node("b").Taint("gpu=yes:NoSchedule").Obj(),
		build.Pod("low").CPU("1").Obj(), build.Pod("high").CPU("1").Priority(10).Obj(), build.Pod("big").CPU("5").Obj(),
		build.Pod("there").Node("b").Obj(),
	)
	for _, pod := range []string{"default/low", "default/high"} {
		if got := c.Bound(pod); got != "a" {
			c.T.Errorf("%s: got node %q, want a", pod, got)
		}
	}
	if got, want := c.Unschedulable("default/big"), "0/2 nodes are available: 1 Insufficient cpu"; !strings.HasPrefix(got, want) {
		c.T.Errorf("big: got %q, want %q …", got, want)
	}
	if status, _, err := s.Get(c.Context(), "/metrics", c.AdminToken()); status != http.StatusOK {
		c.T.Errorf("metrics for the administrator: got status %d, %v; want 200", status, err)
	}
	if got := Denied(c.Audited()); len(got) > 0 {
		c.T.Errorf("got %q, want nothing denied", got)
	}
	if got := strings.Join(Writes(c.Audited()), "\n"); !strings.Contains(got, "create pods/binding default/low: 201") {
		c.T.Errorf("writes: got\n%s\nwant a binding of low", got)
	}
}

func testKilled(c *Cluster) {
	c.Create(node("a").Obj(), build.Pod("before").Node("a").Obj())
	c.Bound("default/before")
	c.APIServer.Kill()
	c.must(c.Etcd.Restart(c.Context()))
	c.must(c.APIServer.Start(c.Context()))
	c.Create(build.Pod("after").Node("a").Obj())
	c.Bound("default/after")
	if got := c.Pods.Get("default/before"); !IsBound(got) || got.Status.Phase != v1.PodPending {
		c.T.Errorf("got %s; want it pending on a", Describe(got))
	}
}

func testVolumes(c *Cluster) {
	c.Coordinator(Scheduler{})
	c.Controllers("persistentvolume", "provisioner", "kubelet")
	wait := storagev1.VolumeBindingWaitForFirstConsumer
	c.Create(
		&storagev1.StorageClass{
			ObjectMeta: metav1.ObjectMeta{Name: "zonal"}, Provisioner: Provisioner, VolumeBindingMode: &wait,
			Parameters: map[string]string{"topology": v1.LabelTopologyZone},
		},
		node("a").Zone("east").Taint("busy:PreferNoSchedule").Obj(), node("b").Zone("west").Obj(),
		build.Claim("data", "zonal").Obj(), build.Pod("p").CPU("1").Claim("data").Obj(),
	)
	p := c.Until("run", func(p *v1.Pod) bool { return p != nil && p.Status.Phase == v1.PodRunning }, "default/p")[0]
	claim, err := c.Admin.CoreV1().PersistentVolumeClaims("default").Get(c.Context(), "data", metav1.GetOptions{})
	c.must(err)
	volume, err := c.Admin.CoreV1().PersistentVolumes().Get(c.Context(), claim.Spec.VolumeName, metav1.GetOptions{})
	c.must(err)
	if volume.Spec.NodeAffinity == nil {
		c.T.Fatalf("claim %v has a volume for every node: %v", claim, volume)
	}
	got := volume.Spec.NodeAffinity.Required.NodeSelectorTerms[0].MatchExpressions[0].Values
	if p.Spec.NodeName != "b" || got[0] != "west" {
		c.T.Errorf("got node %s and a volume in %q, want b and west", p.Spec.NodeName, got)
	}
	c.must(c.Admin.CoreV1().Pods("default").Delete(c.Context(), "p", metav1.DeleteOptions{}))
	c.Until("are gone", IsGone, "default/p")
}
