package sink

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/shardsched/shardsched/bench/cluster/controlplane/testbed"
	"github.com/shardsched/shardsched/coordinator/kube"
	"github.com/shardsched/shardsched/coordinator/objects"
	"github.com/shardsched/shardsched/coordinator/storage"
	"github.com/shardsched/shardsched/internal/testkit/build"
)

// scheduler is the profile's name: no other scheduler cares for such pods.
const scheduler = "sink"

func TestSinks(t *testing.T) {
	c := testbed.New(t, testbed.Config{})
	clients := clientsOf(t, c, nil)
	t.Run("binds", func(t *testing.T) { testBinds(c.With(t), clients) })
	t.Run("a binding that is committed is never told to have failed", func(t *testing.T) { testRace(c.With(t), clients) })
	t.Run("conditions and nominated nodes", func(t *testing.T) { testStatus(c.With(t), clients) })
	t.Run("events", func(t *testing.T) { testEvents(c.With(t), clients) })
	t.Run("volumes and claims", func(t *testing.T) { testVolumes(c.With(t), clients) })
	if got := testbed.Denied(c.Audited()); len(got) > 0 {
		t.Errorf("denied: got %q, want nothing", got)
	}
}

func clientsOf(t testing.TB, c *testbed.Cluster, fence func() error) *kube.Clients {
	t.Helper()
	cfg, err := clientcmd.BuildConfigFromFlags("", c.CoordinatorKubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	clients, err := kube.NewClients(t.Context(), kube.ClientConfig{REST: cfg, QPS: -1, UserAgent: "shardsched/test (linux/amd64)", Fence: fence})
	if err != nil {
		t.Fatal(err)
	}
	return clients
}

// pod makes a pod and returns it as the API server has it.
func pod(c *testbed.Cluster, name string, change ...func(*v1.Pod)) *v1.Pod {
	c.T.Helper()
	p := build.Pod(name).CPU("1").Obj()
	p.Spec.SchedulerName = scheduler
	for _, f := range change {
		f(p)
	}
	c.Create(p)
	return get(c, name)
}

func get(c *testbed.Cluster, name string) *v1.Pod {
	c.T.Helper()
	p, err := c.Admin.CoreV1().Pods("default").Get(c.Context(), name, metav1.GetOptions{})
	if err != nil {
		c.T.Fatal(err)
	}
	return p
}

func testBinds(c *testbed.Cluster, clients *kube.Clients) {
	c.Create(build.Node("n1").Obj(), build.Node("n2").Obj())
	binder := kube.NewBinder(kube.BinderConfig{Clients: clients})
	free := pod(c, "free")
	taken := pod(c, "taken")
	gone := pod(c, "gone")
	deleting := pod(c, "deleting", func(p *v1.Pod) { p.Finalizers = []string{"example.com/stay"} })
	gated := pod(c, "gated", func(p *v1.Pod) { p.Spec.SchedulingGates = []v1.PodSchedulingGate{{Name: "example.com/gate"}} })
	replaced := pod(c, "replaced")
	bind := func(p *v1.Pod, node string) error {
		var out error
		binder.Bind(c.Context(), []objects.Binding{{Pod: p, Node: node}}, func(_ int, err error) { out = err })
		return out
	}
	if err := bind(taken, "n2"); err != nil {
		c.T.Fatal(err)
	}
	c.Delete("default/gone", "default/replaced")
	again := pod(c, "replaced")
	if err := c.Admin.CoreV1().Pods("default").Delete(c.Context(), "deleting", metav1.DeleteOptions{}); err != nil {
		c.T.Fatal(err)
	}
	defer func() {
		_, err := c.Admin.CoreV1().Pods("default").Patch(c.Context(), "deleting", types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
		if err != nil {
			c.T.Error(err)
		}
	}()
	for _, x := range []struct {
		what string
		pod  *v1.Pod
		want error
		text string
	}{
		{"a pending pod", free, nil, ""},
		{"the same again", free, nil, ""},
		{"one that is on another node", taken, objects.ErrAlreadyBound, "bind pod default/taken to n1: already bound to n2: the API server answered 409: "},
		{"one that is gone", gone, objects.ErrNotFound, "answered 404"},
		{"one that another took the name of", replaced, objects.ErrNotFound, "was replaced by " + string(again.UID)},
		{"one that is being deleted", deleting, objects.ErrConflict, "is being deleted"},
		{"one with a gate", gated, objects.ErrConflict, "gates"},
	} {
		err := bind(x.pod, "n1")
		if !errors.Is(err, x.want) || x.want != nil && !strings.Contains(err.Error(), x.text) {
			c.T.Errorf("bind of %s: got %v, want %v with %q", x.what, err, x.want, x.text)
		}
	}
	for name, want := range map[string]string{"free": "n1", "taken": "n2", "deleting": "", "gated": "", "replaced": ""} {
		if got := get(c, name).Spec.NodeName; got != want {
			c.T.Errorf("%s: got node %q, want %q", name, got, want)
		}
	}
}

// testRace has two binders bind the same pods to different nodes.
func testRace(c *testbed.Cluster, clients *kube.Clients) {
	c.Create(build.Node("n1").Obj(), build.Node("n2").Obj())
	var pods []*v1.Pod
	for i := range 60 {
		pods = append(pods, pod(c, "race-"+string(rune('a'+i/26))+string(rune('a'+i%26))))
	}
	outcomes := map[string][]error{"n1": make([]error, len(pods)), "n2": make([]error, len(pods))}
	var wg sync.WaitGroup
	for node, errs := range outcomes {
		bindings := make([]objects.Binding, len(pods))
		for i, p := range pods {
			bindings[i] = objects.Binding{Pod: p, Node: node}
		}
		binder := kube.NewBinder(kube.BinderConfig{Clients: clients})
		wg.Go(func() { binder.Bind(c.Context(), bindings, func(i int, err error) { errs[i] = err }) })
	}
	wg.Wait()
	for i, p := range pods {
		on := get(c, p.Name).Spec.NodeName
		for node, errs := range outcomes {
			if won := errs[i] == nil; won != (node == on) || !won && !errors.Is(errs[i], objects.ErrAlreadyBound) {
				c.T.Errorf("%s is on %s: the bind to %s told %v", p.Name, on, node, errs[i])
			}
		}
	}
}

// reporter runs a reporter over what the bed's watch knows. Its cache may be told to lag.
func reporter(c *testbed.Cluster, clients *kube.Clients, lag map[types.UID]*v1.Pod) *kube.Reporter {
	var mu sync.Mutex
	r := kube.NewReporter(kube.ReporterConfig{Clients: clients, Hostname: "host", Pod: func(pod *v1.Pod) *v1.Pod {
		uid := pod.UID
		mu.Lock()
		defer mu.Unlock()
		if old := lag[uid]; old != nil {
			delete(lag, uid)
			return old
		}
		for _, p := range c.Pods.All() {
			if p.UID == uid {
				return p
			}
		}
		return nil
	}})
	ctx, cancel := context.WithCancel(c.T.Context())
	var wg sync.WaitGroup
	wg.Go(func() { _ = r.Run(ctx) })
	c.T.Cleanup(func() { cancel(); wg.Wait() })
	return r
}

func testStatus(c *testbed.Cluster, clients *kube.Clients) {
	c.Create(build.Node("n1").Obj())
	lag := map[types.UID]*v1.Pod{}
	r := reporter(c, clients, lag)
	condition := func(reason, message string) func(*v1.Pod) bool {
		return func(p *v1.Pod) bool {
			s := testbed.ScheduledCondition(p)
			return s != nil && s.Status == v1.ConditionFalse && s.Reason == reason && s.Message == message
		}
	}
	p := pod(c, "a")
	_, err := c.Admin.CoreV1().Pods("default").Patch(c.Context(), "a", types.StrategicMergePatchType,
		[]byte(`{"status":{"conditions":[{"type":"example.com/Other","status":"True"}]}}`), metav1.PatchOptions{}, "status")
	if err != nil {
		c.T.Fatal(err)
	}
	lag[p.UID] = p // the first try is of an old version
	r.Unscheduled(p, v1.PodReasonUnschedulable, "0/1 nodes are available: 50% of them", nil)
	got := c.Until("the condition", condition(v1.PodReasonUnschedulable, "0/1 nodes are available: 50% of them"), "default/a")[0]
	first := testbed.ScheduledCondition(got)
	if len(got.Status.Conditions) != 2 || first.ObservedGeneration != got.Generation || first.LastTransitionTime.IsZero() {
		c.T.Errorf("conditions: got %+v, want ours of generation %d beside the other", got.Status.Conditions, got.Generation)
	}
	r.Unscheduled(got, v1.PodReasonSchedulerError, "oops", nil)
	got = c.Until("the error", condition(v1.PodReasonSchedulerError, "oops"), "default/a")[0]
	if second := testbed.ScheduledCondition(got); !second.LastTransitionTime.Equal(&first.LastTransitionTime) {
		c.T.Errorf("transition: got %v, want %v: the status stayed", second.LastTransitionTime, first.LastTransitionTime)
	}
	r.Expected(got, "n1")
	c.Until("the nominated node", func(p *v1.Pod) bool { return p.Status.NominatedNodeName == "n1" }, "default/a")
	r.Unscheduled(got, v1.PodReasonSchedulerError, "oops", nil)
	c.Until("the nomination to be cleared", func(p *v1.Pod) bool { return p.Status.NominatedNodeName == "" }, "default/a")

	// Another scheduler binds a pod first, and the cache does not know yet.
	b := pod(c, "b")
	kube.NewBinder(kube.BinderConfig{Clients: clients}).Bind(c.Context(), []objects.Binding{{Pod: b, Node: "n1"}}, func(_ int, err error) {
		if err != nil {
			c.T.Error(err)
		}
	})
	bound := get(c, "b")
	if s := testbed.ScheduledCondition(bound); s == nil || s.Status != v1.ConditionTrue {
		c.T.Errorf("condition of a bound pod: got %+v, want True", s)
	}
	c.Until("the watch to know", testbed.IsBound, "default/b")
	lag[b.UID] = b
	r.Unscheduled(b, v1.PodReasonSchedulerError, "already bound", nil)
	pods := pod(c, "c")
	r.Unscheduled(pods, v1.PodReasonUnschedulable, "x", nil)
	c.Until("a later pod's condition", condition(v1.PodReasonUnschedulable, "x"), "default/c")
	if now := get(c, "b"); now.ResourceVersion != bound.ResourceVersion {
		c.T.Errorf("a bound pod: got version %s, want %s: %+v", now.ResourceVersion, bound.ResourceVersion, now.Status)
	}
}

func testEvents(c *testbed.Cluster, clients *kube.Clients) {
	r := reporter(c, clients, map[types.UID]*v1.Pod{})
	list := func(name string) []eventsv1.Event {
		l, err := c.Admin.EventsV1().Events("default").List(c.Context(), metav1.ListOptions{FieldSelector: "regarding.name=" + name})
		if err != nil {
			c.T.Fatal(err)
		}
		return l.Items
	}
	until := func(what string, met func() bool) {
		c.T.Helper()
		for ctx := c.Context(); !met(); {
			select {
			case <-ctx.Done():
				c.T.Fatalf("waited for %s", what)
			case <-time.After(20 * time.Millisecond):
			}
		}
	}
	p := pod(c, "evented")
	r.Scheduled(p, "n1")
	until("the event Scheduled", func() bool { return len(list("evented")) == 1 })
	e := list("evented")[0]
	if e.Reason != "Scheduled" || e.Type != "Normal" || e.Action != "Binding" || e.Note != "Successfully assigned default/evented to n1" ||
		e.ReportingController != scheduler || e.ReportingInstance != scheduler+"-host" || e.Regarding.UID != p.UID || e.EventTime.IsZero() {
		c.T.Errorf("event: got %+v", e)
	}
	p = pod(c, "refused")
	for n := range 2 {
		r.Unscheduled(p, v1.PodReasonUnschedulable, "100% "+strings.Repeat("x", 2000), nil)
		until("the event FailedScheduling", func() bool {
			l := list("refused")
			return len(l) == 1 && (n == 0 || l[0].Series != nil)
		})
	}
	e = list("refused")[0]
	if e.Series.Count != 2 || e.Reason != "FailedScheduling" || e.Type != "Warning" || e.Action != "Scheduling" || e.Note != "100% "+strings.Repeat("x", 1015)+" ..." {
		c.T.Errorf("event: got %+v of series %+v, want it twice", e, e.Series)
	}
}

func testVolumes(c *testbed.Cluster, clients *kube.Clients) {
	w := kube.NewVolumeWriter(kube.VolumeWriterConfig{Clients: clients})
	core := c.Admin.CoreV1()
	made := build.Volume("v", "slow").CSI("driver", "handle").Label("kept", "yes").Obj()
	made.Spec.AccessModes = []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce}
	c.Create(build.Claim("c", "slow").Obj(), made)
	pvc, err := core.PersistentVolumeClaims("default").Get(c.Context(), "c", metav1.GetOptions{})
	if err != nil {
		c.T.Fatal(err)
	}
	pv, err := core.PersistentVolumes().Get(c.Context(), "v", metav1.GetOptions{})
	if err != nil {
		c.T.Fatal(err)
	}
	// What the coordinator has in memory is less than what there is.
	trimmed := &v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "v", UID: pv.UID, ResourceVersion: pv.ResourceVersion}}
	trimmed.Annotations = map[string]string{storage.AnnBoundByController: "yes"}
	trimmed.Spec.ClaimRef = &v1.ObjectReference{Kind: "PersistentVolumeClaim", APIVersion: "v1", Namespace: "default", Name: "c", UID: pvc.UID, ResourceVersion: pvc.ResourceVersion}
	selected := &v1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{
		Namespace: "default", Name: "c", UID: pvc.UID, ResourceVersion: pvc.ResourceVersion, Annotations: map[string]string{storage.AnnSelectedNode: "n1"},
	}}
	versions, err := w.Write(c.Context(), []objects.Object{trimmed, selected})
	if err != nil || len(versions) != 2 {
		c.T.Fatalf("write: got %v, %v, want two versions", versions, err)
	}
	nowPV, err := core.PersistentVolumes().Get(c.Context(), "v", metav1.GetOptions{})
	if err != nil {
		c.T.Fatal(err)
	}
	if nowPV.ResourceVersion != versions[0] || nowPV.Labels["kept"] != "yes" || !nowPV.Spec.Capacity.Storage().Equal(*pv.Spec.Capacity.Storage()) ||
		nowPV.Spec.ClaimRef.UID != pvc.UID || nowPV.Annotations[storage.AnnBoundByController] != "yes" {
		c.T.Errorf("volume: got %+v, want it bound at %s and else as it was", nowPV, versions[0])
	}
	nowPVC, err := core.PersistentVolumeClaims("default").Get(c.Context(), "c", metav1.GetOptions{})
	if err != nil {
		c.T.Fatal(err)
	}
	if nowPVC.ResourceVersion != versions[1] || nowPVC.Annotations[storage.AnnSelectedNode] != "n1" || nowPVC.Spec.Resources.Requests.Storage().IsZero() {
		c.T.Errorf("claim: got %+v, want n1 selected at %s and else as it was", nowPVC, versions[1])
	}
	if _, err := w.Write(c.Context(), []objects.Object{trimmed}); err != nil {
		c.T.Errorf("the same again, as after an answer that was lost: %v", err)
	}
	selected.Annotations[storage.AnnSelectedNode] = "n2"
	if _, err := w.Write(c.Context(), []objects.Object{selected}); !errors.Is(err, objects.ErrConflict) {
		c.T.Errorf("another node for an old version: got %v, want ErrConflict", err)
	}
	selected.UID, selected.ResourceVersion = "other", nowPVC.ResourceVersion
	if _, err := w.Write(c.Context(), []objects.Object{selected}); err == nil {
		c.T.Error("a claim of another uid: got no error")
	}
}
