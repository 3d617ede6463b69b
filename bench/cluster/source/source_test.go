package source

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/shardsched/shardsched/bench/cluster/controlplane/testbed"
	"github.com/shardsched/shardsched/coordinator/kube"
	"github.com/shardsched/shardsched/coordinator/objects"
	"github.com/shardsched/shardsched/internal/testkit/build"
)

func TestSource(t *testing.T) {
	c := testbed.New(t, testbed.Config{})
	for _, x := range []struct {
		name string
		test func(*testbed.Cluster)
	}{
		{"a subscriber sees each kind come, change and go", testKinds},
		{"the consistent read shows what another client bound just before", testCatchUp},
		{"the mirror is whole after the API server was killed", func(c *testbed.Cluster) { testKilled(c, c.APIServer) }},
		{"the mirror is whole after etcd was killed", func(c *testbed.Cluster) { testKilled(c, c.Etcd) }},
	} {
		t.Run(x.name, func(t *testing.T) {
			c := c.With(t)
			x.test(c)
			if err := c.Clear(c.Context()); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// start runs a source under the role that schedulers have until the test ends.
func start(c *testbed.Cluster) *kube.Source {
	c.T.Helper()
	cfg, err := clientcmd.BuildConfigFromFlags("", c.CoordinatorKubeconfig)
	if err != nil {
		c.T.Fatal(err)
	}
	clients, err := kube.NewClients(c.T.Context(), kube.ClientConfig{REST: cfg, QPS: -1, UserAgent: "shardsched/test (linux/amd64)"})
	if err != nil {
		c.T.Fatal(err)
	}
	s, err := kube.NewSource(kube.SourceConfig{Client: clients.Reads, Metadata: clients.Metadata})
	if err != nil {
		c.T.Fatal(err)
	}
	ctx, cancel := context.WithCancel(c.T.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = s.Run(ctx) })
	c.T.Cleanup(func() {
		cancel()
		running.Wait()
	})
	return s
}

// mirror is what a subscriber makes of a snapshot and its events.
type mirror struct {
	mu      sync.Mutex
	objects map[objects.Ref]objects.Object
	odd     []string
}

func follow(c *testbed.Cluster, s *kube.Source) *mirror {
	c.T.Helper()
	p := &mirror{objects: map[objects.Ref]objects.Object{}}
	p.mu.Lock()
	defer p.mu.Unlock()
	all, stop, err := s.Subscribe(p.take)
	if err != nil {
		c.T.Fatal(err)
	}
	c.T.Cleanup(stop)
	for _, n := range all.Nodes {
		p.objects[objects.RefOf(n)] = n
	}
	for _, x := range all.Pods {
		p.objects[objects.RefOf(x)] = x
	}
	for _, x := range all.Cluster {
		p.objects[objects.RefOf(x)] = x
	}
	return p
}

func (p *mirror) take(events []objects.Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range events {
		e := &events[i]
		obj := e.Object
		switch {
		case e.Node != nil:
			obj = e.Node
		case e.Pod != nil:
			obj = e.Pod
		}
		ref := objects.RefOf(obj)
		was := p.objects[ref]
		switch {
		case (e.Type == objects.Added) != (was == nil):
			p.odd = append(p.odd, fmt.Sprintf("%s %s where there was %v", e.Type, ref, was != nil))
		case was != nil && was.GetUID() != obj.GetUID():
			p.odd = append(p.odd, fmt.Sprintf("%s %s of another uid", e.Type, ref))
		}
		if e.Type == objects.Deleted {
			delete(p.objects, ref)
		} else {
			p.objects[ref] = obj
		}
	}
}

// of lists the objects of a kind: "default/p@n 17".
func (p *mirror) of(k objects.Kind) []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var out []string
	for ref, obj := range p.objects {
		if ref.Kind == k {
			out = append(out, line(obj.GetNamespace(), obj.GetName(), obj.GetUID(), obj.GetResourceVersion()))
		}
	}
	slices.Sort(out)
	return out
}

func line(namespace, name string, uid types.UID, version string) string {
	return fmt.Sprintf("%s/%s %s at %s", namespace, name, uid, version)
}

// expectTruth waits until the mirror of every kind is what the API server has.
func (p *mirror) expectTruth(c *testbed.Cluster) {
	c.T.Helper()
	client := metadata.NewForConfigOrDie(c.AdminREST)
	for _, k := range kube.Kinds(false) {
		options := metav1.ListOptions{}
		if k == objects.KindPod {
			options.FieldSelector = "status.phase!=Succeeded,status.phase!=Failed"
		}
		list, err := client.Resource(k.GroupVersion().WithResource(k.Plural())).List(c.Context(), options)
		if err != nil {
			c.T.Fatal(err)
		}
		var want []string
		for i := range list.Items {
			x := &list.Items[i]
			want = append(want, line(x.Namespace, x.Name, x.UID, x.ResourceVersion))
		}
		slices.Sort(want)
		until(c, func() string {
			if got := p.of(k); !slices.Equal(got, want) {
				return fmt.Sprintf("%s: got %q, want %q", k.Plural(), got, want)
			}
			return ""
		})
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.odd) > 0 {
		c.T.Errorf("events: got %q, want none that does not follow", p.odd)
	}
}

// until waits until nothing is wrong.
func until(c *testbed.Cluster, wrong func() string) {
	c.T.Helper()
	deadline := time.After(time.Minute)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		text := wrong()
		if text == "" {
			return
		}
		select {
		case <-tick.C:
		case <-deadline:
			c.T.Fatal(text)
		}
	}
}

func pods(prefix string, n int, node string) []*v1.Pod {
	out := make([]*v1.Pod, n)
	for i := range out {
		b := build.Pod(fmt.Sprintf("%s-%d", prefix, i)).CPU("10m").Label("app", prefix)
		if node != "" {
			b.Node(node)
		}
		out[i] = b.Obj()
		out[i].Spec.SchedulerName = "none"
	}
	return out
}

func createPods(c *testbed.Cluster, list []*v1.Pod) (keys []string) {
	c.T.Helper()
	for _, p := range list {
		c.Create(p)
		keys = append(keys, "default/"+p.Name)
	}
	return keys
}

func testKinds(c *testbed.Cluster) {
	class := "late"
	late := storagev1.VolumeBindingWaitForFirstConsumer
	c.Create(build.Node("n1").CPU("4").Obj())
	before := createPods(c, pods("before", 3, "n1"))
	s := start(c)
	p := follow(c, s)
	p.expectTruth(c)
	c.Create(
		build.Node("n2").CPU("4").Obj(),
		&storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "late"}, Provisioner: "example.com/none", VolumeBindingMode: &late},
		&v1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}, Spec: v1.ServiceSpec{
			Selector: map[string]string{"app": "web"}, Ports: []v1.ServicePort{{Port: 80}},
		}},
		&v1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "data"}, Spec: v1.PersistentVolumeClaimSpec{
			AccessModes: []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce}, StorageClassName: &class,
			Resources: v1.VolumeResourceRequirements{Requests: v1.ResourceList{v1.ResourceStorage: resource.MustParse("1Gi")}},
		}},
	)
	c.Create(devices()...)
	p.expectTruth(c)
	core := c.Admin.CoreV1()
	patch(c, "nodes/n2", `{"metadata":{"labels":{"zone":"b"}}}`)
	status := `{"status":{"phase":"Succeeded"}}`
	if _, err := core.Pods("default").Patch(c.Context(), "before-0", types.MergePatchType, []byte(status), metav1.PatchOptions{}, "status"); err != nil {
		c.T.Fatal(err)
	}
	c.Delete(before[1])
	p.expectTruth(c)
	if got := s.PodNamed("default", "before-0"); got != nil {
		c.T.Errorf("a pod at its end: got %s, want it gone", got.Name)
	}
	if got := s.Node("n2").Labels["zone"]; got != "b" {
		c.T.Errorf("label of n2: got %q, want b", got)
	}
	if got := s.Node("n2"); len(got.ManagedFields) > 0 {
		c.T.Error("got managed fields, want them trimmed")
	}
	if err := s.CatchUp(c.Context()); err != nil {
		c.T.Fatal(err)
	}
	// An API server that was just started refuses what its roles allow: the others do not ask.
	if got := testbed.Denied(c.Audited()); len(got) > 0 {
		c.T.Errorf("denied: got %q, want nothing", got)
	}
}

// devices are an object of each kind of devices.
func devices() []runtime.Object {
	gpu := metav1.ObjectMeta{Name: "gpu"}
	mine := metav1.ObjectMeta{Name: "gpu", Namespace: "default"}
	node := "n1"
	asks := resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{Requests: []resourcev1.DeviceRequest{
		{Name: "gpu", Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: "gpu"}},
	}}}
	return []runtime.Object{
		&resourcev1.DeviceClass{ObjectMeta: gpu},
		&resourcev1.ResourceSlice{ObjectMeta: gpu, Spec: resourcev1.ResourceSliceSpec{
			Driver: "gpu.example.com", NodeName: &node, Pool: resourcev1.ResourcePool{Name: node, ResourceSliceCount: 1},
			Devices: []resourcev1.Device{{Name: "gpu-0"}},
		}},
		&resourcev1.ResourceClaim{ObjectMeta: mine, Spec: asks},
		&resourcev1.ResourceClaimTemplate{ObjectMeta: mine, Spec: resourcev1.ResourceClaimTemplateSpec{Spec: asks}},
	}
}

func patch(c *testbed.Cluster, path, body string) {
	c.T.Helper()
	err := c.Admin.CoreV1().RESTClient().Patch(types.MergePatchType).AbsPath("/api/v1/" + path).Body([]byte(body)).Do(c.Context()).Error()
	if err != nil {
		c.T.Fatal(err)
	}
}

func bind(c *testbed.Cluster, name, node string) error {
	return c.Admin.CoreV1().Pods("default").Bind(c.Context(), &v1.Binding{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Target: v1.ObjectReference{Kind: "Node", Name: node},
	}, metav1.CreateOptions{})
}

// testCatchUp binds, deletes and makes pods as another scheduler would, and looks at once.
func testCatchUp(c *testbed.Cluster) {
	c.Create(build.Node("n1").CPU("4").Obj())
	s := start(c)
	list := pods("p", 40, "")
	keys := createPods(c, list)
	if err := s.CatchUp(c.Context()); err != nil {
		c.T.Fatal(err)
	}
	for i, p := range list {
		if i%2 == 0 {
			if err := bind(c, p.Name, "n1"); err != nil {
				c.T.Fatal(err)
			}
		} else {
			c.Delete(keys[i])
		}
		if err := s.CatchUp(c.Context()); err != nil {
			c.T.Fatal(err)
		}
		got := s.PodNamed("default", p.Name)
		if i%2 == 0 && (got == nil || got.Spec.NodeName != "n1") || i%2 == 1 && got != nil {
			c.T.Fatalf("pod %s: got %v after the read, want the change of just before", p.Name, got)
		}
	}
}

// testKilled changes things before, while and after a server is away.
func testKilled(c *testbed.Cluster, server *testbed.Server) {
	c.Create(build.Node("n1").CPU("4").Obj())
	keys := createPods(c, pods("p", 20, ""))
	s := start(c)
	p := follow(c, s)
	var busy sync.WaitGroup
	busy.Go(func() {
		for i := range 10 {
			_ = bind(c, fmt.Sprintf("p-%d", i), "n1") // some of them come too late
		}
	})
	server.Kill()
	done := make(chan error, 1)
	go func() { done <- s.CatchUp(c.Context()) }()
	if err := server.Start(c.Context()); err != nil {
		c.T.Fatal(err)
	}
	busy.Wait()
	c.Delete(keys[19], keys[18])
	createPods(c, pods("p", 20, "")[18:])
	if err := bind(c, "p-17", "n1"); err != nil {
		c.T.Fatal(err)
	}
	if err := <-done; err != nil {
		c.T.Errorf("the read that was begun while the server was away: got %v, want it to last", err)
	}
	if err := s.CatchUp(c.Context()); err != nil {
		c.T.Fatal(err)
	}
	if got := s.PodNamed("default", "p-17"); got == nil || got.Spec.NodeName != "n1" {
		c.T.Errorf("p-17: got %v after the read, want it on n1", got)
	}
	p.expectTruth(c)
	if err := s.Ready(); err != nil {
		c.T.Errorf("got %v, want it ready", err)
	}
	if strings.Join(p.of(objects.KindNode), "") == "" {
		c.T.Error("got no node, want n1")
	}
}
