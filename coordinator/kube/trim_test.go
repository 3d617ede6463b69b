package kube

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/shardsched/shardsched/coordinator/objects"
)

// trimmed gives a trimmed copy.
func trimmed[T objects.Object](t testing.TB, by *trimmer, obj T) T {
	t.Helper()
	out, err := by.transform(obj.DeepCopyObject())
	if err != nil {
		t.Fatal(err)
	}
	return out.(T)
}

// The script shows what is kept of an object that has every field: a field that a new version
// of Kubernetes brings is dropped until it is seen here.
func TestWhatIsKept(t *testing.T) {
	datadriven.RunTest(t, "testdata/trim", func(t *testing.T, d *datadriven.TestData) string {
		obj := objects.New(objects.Kind(d.CmdArgs[0].String()))
		fill(reflect.ValueOf(obj).Elem(), 0)
		if p, ok := obj.(*v1.Pod); ok {
			p.Spec.NodeName = ""
			p.Status.Conditions = []v1.PodCondition{{Type: v1.PodScheduled, Status: "False", Reason: "r", Message: "m", ObservedGeneration: 1}, {Type: v1.PodReady}}
		}
		var kept []string
		paths(reflect.ValueOf(trimmed(t, newTrimmer(Whole{}), obj)).Elem(), "", &kept)
		slices.Sort(kept)
		return strings.Join(slices.Compact(kept), "\n") + "\n"
	})
}

// fill gives every field a value, of each list and map one.
func fill(v reflect.Value, depth int) {
	if depth > 12 {
		return
	}
	switch x := v.Addr().Interface().(type) {
	case *resource.Quantity:
		*x = resource.MustParse("1")
		return
	case *metav1.Time:
		*x = metav1.Unix(1, 0)
		return
	case *metav1.MicroTime:
		*x = metav1.NewMicroTime(time.Unix(1, 0))
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), depth+1)
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				fill(v.Field(i), depth+1)
			}
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0), depth+1)
	case reflect.Map:
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(key, depth+1)
		fill(value, depth+1)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, value)
	case reflect.String:
		v.SetString("x")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int32, reflect.Int64:
		v.SetInt(1)
	case reflect.Uint8:
		v.SetUint(1)
	}
}

// paths lists the fields that have a value, three levels deep.
func paths(v reflect.Value, at string, into *[]string) {
	if !v.IsValid() || v.IsZero() {
		return
	}
	if strings.Count(at, ".") == 4 || reflect.DeepEqual(v.Type(), reflect.TypeFor[metav1.Time]()) || reflect.DeepEqual(v.Type(), reflect.TypeFor[resource.Quantity]()) {
		*into = append(*into, at)
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		paths(v.Elem(), at, into)
	case reflect.Struct:
		for i := range v.NumField() {
			field := v.Type().Field(i)
			name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			if name != "" {
				name = "." + name
			}
			paths(v.Field(i), at+name, into)
		}
	case reflect.Slice:
		for i := range v.Len() {
			paths(v.Index(i), at+"[]", into)
		}
	default:
		*into = append(*into, at)
	}
}

func TestPodsOfOneWorkloadShareWhatIsEqual(t *testing.T) {
	by := newTrimmer(Whole{})
	a, b := trimmed(t, by, runningPod(1)), trimmed(t, by, runningPod(2))
	if &a.Spec.Containers[0] != &b.Spec.Containers[0] || &a.Spec.Tolerations[0] != &b.Spec.Tolerations[0] ||
		&a.OwnerReferences[0] != &b.OwnerReferences[0] || &a.Status.ContainerStatuses[0] != &b.Status.ContainerStatuses[0] ||
		reflect.ValueOf(a.Labels).Pointer() != reflect.ValueOf(b.Labels).Pointer() {
		t.Error("got parts of their own, want containers, tolerations, owners, statuses and labels in common")
	}
	if a.Name == b.Name || a.UID == b.UID {
		t.Errorf("got %s and %s, want two pods", a.Name, b.Name)
	}
	other := runningNode(1)
	other.Name = "other"
	m, n := trimmed(t, by, runningNode(1)), trimmed(t, by, other)
	if &m.Status.Images[0].Names[0] != &n.Status.Images[0].Names[0] || reflect.ValueOf(m.Status.Allocatable).Pointer() != reflect.ValueOf(n.Status.Allocatable).Pointer() {
		t.Error("got parts of their own, want images and resources in common")
	}
}

// An informer may transform an object twice, while others read its parts.
func TestTrimmingAgainChangesNothing(t *testing.T) {
	by := newTrimmer(Whole{})
	for _, kind := range objects.Kinds() {
		obj := objects.New(kind)
		fill(reflect.ValueOf(obj).Elem(), 0)
		once := trimmed(t, by, obj)
		other := trimmed(t, by, obj)
		var reading sync.WaitGroup
		reading.Go(func() { _ = fmt.Sprintf("%+v", other) })
		again, err := by.transform(once)
		reading.Wait()
		if diff := cmp.Diff(other, again); diff != "" || err != nil {
			t.Errorf("%s trimmed again: got %v and a difference (-once +twice):\n%s", kind, err, diff)
		}
	}
}

func TestAPoolForgetsWhatIsNotAskedFor(t *testing.T) {
	p := newPool[*int](4)
	kept, first := new(int), new(int)
	p.get([]byte("kept"), kept)
	p.get([]byte("first"), first)
	for i := range 100 {
		p.get(fmt.Appendf(nil, "%d", i), new(int))
		if got := p.get([]byte("kept"), new(int)); got != kept {
			t.Fatalf("after %d others: got another part, want the one that is asked for all the time", i)
		}
		if n := len(p.young) + len(p.old); n > 8 {
			t.Fatalf("after %d others: got %d parts remembered, want 8 at the most", i, n)
		}
	}
	if got := p.get([]byte("first"), new(int)); got == first {
		t.Error("got the first part, want it forgotten")
	}
}

// runningPod is a pod of a Deployment as an API server returns it once it runs.
func runningPod(i int) *v1.Pod {
	now := metav1.Unix(1_700_000_000, 0)
	yes := true
	requests := v1.ResourceList{v1.ResourceCPU: resource.MustParse("250m"), v1.ResourceMemory: resource.MustParse("512Mi")}
	limits := v1.ResourceList{v1.ResourceCPU: resource.MustParse("1"), v1.ResourceMemory: resource.MustParse("1Gi")}
	container := func(name string) v1.Container {
		c := v1.Container{
			Name: name, Image: "registry.example.com/shop/" + name + ":v1.24.3", Command: []string{"/bin/" + name, "--listen=:8080"},
			Ports:                  []v1.ContainerPort{{Name: "http", ContainerPort: 8080, Protocol: v1.ProtocolTCP}, {Name: "metrics", ContainerPort: 9090, Protocol: v1.ProtocolTCP}},
			Resources:              v1.ResourceRequirements{Requests: requests, Limits: limits},
			VolumeMounts:           []v1.VolumeMount{{Name: "config", MountPath: "/etc/shop"}, {Name: "kube-api-access", ReadOnly: true, MountPath: "/var/run/secrets/kubernetes.io/serviceaccount"}},
			ReadinessProbe:         &v1.Probe{ProbeHandler: v1.ProbeHandler{HTTPGet: &v1.HTTPGetAction{Path: "/ready", Scheme: "HTTP"}}, TimeoutSeconds: 1, PeriodSeconds: 10, SuccessThreshold: 1, FailureThreshold: 3},
			LivenessProbe:          &v1.Probe{ProbeHandler: v1.ProbeHandler{HTTPGet: &v1.HTTPGetAction{Path: "/live", Scheme: "HTTP"}}, TimeoutSeconds: 1, PeriodSeconds: 10, SuccessThreshold: 1, FailureThreshold: 3},
			TerminationMessagePath: "/dev/termination-log", TerminationMessagePolicy: "File", ImagePullPolicy: "IfNotPresent",
			SecurityContext: &v1.SecurityContext{ReadOnlyRootFilesystem: &yes, RunAsNonRoot: &yes},
		}
		for _, name := range []string{"LOG_LEVEL", "DATABASE_URL", "CACHE_URL", "REGION", "OTEL_EXPORTER_OTLP_ENDPOINT"} {
			c.Env = append(c.Env, v1.EnvVar{Name: name, Value: "value-of-" + strings.ToLower(name)})
		}
		return c
	}
	status := func(name string) v1.ContainerStatus {
		return v1.ContainerStatus{
			Name: name, Ready: true, Started: &yes, State: v1.ContainerState{Running: &v1.ContainerStateRunning{StartedAt: now}},
			Image: "registry.example.com/shop/" + name + ":v1.24.3", ImageID: "registry.example.com/shop/" + name + "@sha256:" + strings.Repeat("ab", 32),
			ContainerID: "containerd://" + strings.Repeat("cd", 32), AllocatedResources: requests,
			Resources: &v1.ResourceRequirements{Requests: requests, Limits: limits},
		}
	}
	tolerate := func(key string) v1.Toleration {
		seconds := int64(300)
		return v1.Toleration{Key: key, Operator: v1.TolerationOpExists, Effect: v1.TaintEffectNoExecute, TolerationSeconds: &seconds}
	}
	managed := func(manager string, bytes int) metav1.ManagedFieldsEntry {
		return metav1.ManagedFieldsEntry{Manager: manager, Operation: "Update", APIVersion: "v1", Time: &now, FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(strings.Repeat("f", bytes))}
	}
	grace, priority := int64(30), int32(0)
	p := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: fmt.Sprintf("checkout-7c9d8f6b5d-%05d", i), GenerateName: "checkout-7c9d8f6b5d-", Namespace: "shop", UID: types.UID(fmt.Sprintf("0b5e8c9a-7f61-4c0e-9a51-%012d", i)),
			ResourceVersion: fmt.Sprint(100_000_000 + i), Generation: 1, CreationTimestamp: now,
			Labels:          map[string]string{"app": "checkout", "pod-template-hash": "7c9d8f6b5d", "app.kubernetes.io/part-of": "shop", "version": "v1"},
			Annotations:     map[string]string{"prometheus.io/scrape": "true", "prometheus.io/port": "9090", "kubectl.kubernetes.io/restartedAt": "2026-01-01T00:00:00Z"},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "checkout-7c9d8f6b5d", UID: "6d7c6fd4-5e8f-4a09-8d5c-6f1f4ad0f9b1", Controller: &yes, BlockOwnerDeletion: &yes}},
			ManagedFields:   []metav1.ManagedFieldsEntry{managed("kube-controller-manager", 2200), managed("kubelet", 900)},
		},
		Spec: v1.PodSpec{
			Volumes: []v1.Volume{
				{Name: "config", VolumeSource: v1.VolumeSource{ConfigMap: &v1.ConfigMapVolumeSource{LocalObjectReference: v1.LocalObjectReference{Name: "checkout"}}}},
				{Name: fmt.Sprintf("kube-api-access-%05d", i), VolumeSource: v1.VolumeSource{Projected: &v1.ProjectedVolumeSource{Sources: []v1.VolumeProjection{
					{ServiceAccountToken: &v1.ServiceAccountTokenProjection{Path: "token"}}, {ConfigMap: &v1.ConfigMapProjection{LocalObjectReference: v1.LocalObjectReference{Name: "kube-root-ca.crt"}}},
				}}}},
			},
			Containers: []v1.Container{container("checkout"), container("proxy")}, RestartPolicy: v1.RestartPolicyAlways, TerminationGracePeriodSeconds: &grace,
			DNSPolicy: v1.DNSClusterFirst, ServiceAccountName: "checkout", DeprecatedServiceAccount: "checkout", NodeName: fmt.Sprintf("node-%d", i%5000),
			SecurityContext: &v1.PodSecurityContext{RunAsNonRoot: &yes}, SchedulerName: v1.DefaultSchedulerName,
			Tolerations: []v1.Toleration{tolerate(v1.TaintNodeNotReady), tolerate(v1.TaintNodeUnreachable)}, Priority: &priority, EnableServiceLinks: &yes,
		},
		Status: v1.PodStatus{
			Phase: v1.PodRunning, HostIP: "10.0.0.1", PodIP: fmt.Sprintf("10.1.%d.%d", i/250%250, i%250), StartTime: &now, QOSClass: v1.PodQOSBurstable,
			HostIPs: []v1.HostIP{{IP: "10.0.0.1"}}, PodIPs: []v1.PodIP{{IP: fmt.Sprintf("10.1.%d.%d", i/250%250, i%250)}},
			ContainerStatuses: []v1.ContainerStatus{status("checkout"), status("proxy")},
		},
	}
	for _, c := range []v1.PodConditionType{v1.PodReadyToStartContainers, v1.PodInitialized, v1.PodReady, v1.ContainersReady, v1.PodScheduled} {
		p.Status.Conditions = append(p.Status.Conditions, v1.PodCondition{Type: c, Status: v1.ConditionTrue, LastTransitionTime: now, ObservedGeneration: 1})
	}
	return p
}

// runningNode is a node as kubelet writes it, with the 50 images that it reports.
func runningNode(i int) *v1.Node {
	now := metav1.Unix(1_700_000_000, 0)
	name := fmt.Sprintf("node-%d", i)
	amounts := v1.ResourceList{}
	for resourceName, q := range map[v1.ResourceName]string{"cpu": "63770m", "memory": "253Gi", "ephemeral-storage": "95551679124", "pods": "110", "hugepages-1Gi": "0", "hugepages-2Mi": "0"} {
		amounts[resourceName] = resource.MustParse(q)
	}
	n := &v1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, UID: types.UID(fmt.Sprintf("1c5e8c9a-7f61-4c0e-9a51-%012d", i)), ResourceVersion: fmt.Sprint(200_000_000 + i), CreationTimestamp: now,
			Labels: map[string]string{
				"beta.kubernetes.io/arch": "amd64", "beta.kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64", "kubernetes.io/os": "linux", v1.LabelHostname: name,
				v1.LabelInstanceTypeStable: "m6i.16xlarge", v1.LabelTopologyZone: "zone-" + string(rune('a'+i%3)), v1.LabelTopologyRegion: "region-1", "node.example.com/pool": "general",
				"topology.ebs.csi.aws.com/zone": "zone-" + string(rune('a'+i%3)),
			},
			Annotations:   map[string]string{"node.alpha.kubernetes.io/ttl": "0", "volumes.kubernetes.io/controller-managed-attach-detach": "true", "csi.volume.kubernetes.io/nodeid": `{"ebs.csi.aws.com":"i-0123456789abcdef0"}`},
			ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kubelet", Operation: "Update", APIVersion: "v1", Time: &now, FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(strings.Repeat("f", 4000))}},
		},
		Spec: v1.NodeSpec{PodCIDR: "10.1.0.0/24", PodCIDRs: []string{"10.1.0.0/24"}, ProviderID: "aws:///zone-a/i-0123456789abcdef0"},
		Status: v1.NodeStatus{
			Capacity: amounts, Allocatable: amounts, Addresses: []v1.NodeAddress{{Type: v1.NodeInternalIP, Address: "10.0.0.1"}, {Type: v1.NodeHostName, Address: name}},
			NodeInfo: v1.NodeSystemInfo{MachineID: "ec2", KernelVersion: "6.1.0", OSImage: "Linux", ContainerRuntimeVersion: "containerd://2.0.0", KubeletVersion: "v1.36.3", OperatingSystem: "linux", Architecture: "amd64"},
		},
	}
	for _, c := range []v1.NodeConditionType{v1.NodeMemoryPressure, v1.NodeDiskPressure, v1.NodePIDPressure, v1.NodeReady} {
		n.Status.Conditions = append(n.Status.Conditions, v1.NodeCondition{Type: c, Status: v1.ConditionFalse, LastHeartbeatTime: now, LastTransitionTime: now, Reason: "KubeletHasSufficientMemory", Message: "kubelet has sufficient memory available"})
	}
	r := rand.New(rand.NewPCG(1, uint64(i)))
	for range 50 { // of 400 that the cluster runs
		image := r.IntN(400)
		repository := fmt.Sprintf("registry.example.com/team-%d/service-%d", image%20, image)
		n.Status.Images = append(n.Status.Images, v1.ContainerImage{Names: []string{fmt.Sprintf("%s@sha256:%064d", repository, image), repository + ":v1.24.3"}, SizeBytes: int64(50_000_000 + image)})
	}
	return n
}

// decoded is an object as a client decodes it, with memory of its own.
func decoded[T objects.Object](t testing.TB, obj T) T {
	t.Helper()
	raw := make([]byte, obj.Size())
	if _, err := obj.MarshalToSizedBuffer(raw); err != nil {
		t.Fatal(err)
	}
	out := objects.New(objects.KindOf(obj)).(T)
	if err := out.Unmarshal(bytes.Clone(raw)); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestWholeObjectsLoseManagedFieldsAlone(t *testing.T) {
	managed := []metav1.ManagedFieldsEntry{{Manager: "m"}}
	node := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Annotations: map[string]string{"a": "b"}, ManagedFields: managed}, Status: v1.NodeStatus{Addresses: []v1.NodeAddress{{Address: "x"}}}}
	pending := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Annotations: map[string]string{"a": "b"}, ManagedFields: managed}, Spec: v1.PodSpec{Hostname: "h"}}
	placed := pending.DeepCopy()
	placed.Spec.NodeName = "n"
	for _, c := range []struct {
		whole                 Whole
		node, pending, placed bool
	}{
		{Whole{}, false, false, false},
		{Whole{Nodes: true}, true, false, false},
		{Whole{Pending: true}, false, true, false},
		{Whole{Pods: true}, false, true, true},
	} {
		by := newTrimmer(c.whole)
		check := func(got, whole objects.Object, want bool) {
			t.Helper()
			whole = whole.DeepCopyObject().(objects.Object)
			whole.SetManagedFields(nil)
			if same := reflect.DeepEqual(got, whole); same != want || got.GetManagedFields() != nil {
				t.Errorf("%+v: %T %q is whole: %v, want %v; managed fields %v", c.whole, got, got.GetName(), same, want, got.GetManagedFields())
			}
		}
		check(trimmed(t, by, node), node, c.node)
		check(trimmed(t, by, pending), pending, c.pending)
		check(trimmed(t, by, placed), placed, c.placed)
	}
}

// Who wants to know since when pods have their nodes is told.
func TestPodsOnNodesTellSinceWhenWhereThatIsWanted(t *testing.T) {
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: v1.PodSpec{NodeName: "n"}, Status: v1.PodStatus{
		Conditions: []v1.PodCondition{{Type: v1.PodScheduled, Status: v1.ConditionTrue, LastTransitionTime: metav1.Unix(7, 0)}, {Type: v1.PodReady}}}}
	for whole, want := range map[Whole]int{{}: 0, {Scheduled: true}: 1} {
		got := trimmed(t, newTrimmer(whole), p).Status.Conditions
		if len(got) != want || want == 1 && got[0].LastTransitionTime.Unix() != 7 {
			t.Errorf("%+v: got %v, want %d conditions", whole, got, want)
		}
	}
}

// An object that meets a bug where it is trimmed is kept, and the next one is trimmed.
func TestAnObjectThatCanNotBeTrimmedIsKept(t *testing.T) {
	trim := Transform(Whole{})
	for _, absurd := range []any{(*v1.Pod)(nil), (*v1.Node)(nil)} {
		if got, err := trim(absurd); err != nil || got != absurd {
			t.Errorf("%T: got %v, %v; want it as it is", absurd, got, err)
		}
	}
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "m"}}}}
	if got, err := trim(p); err != nil || len(got.(*v1.Pod).ManagedFields) != 0 {
		t.Errorf("after them: got %v, %v; want it trimmed", got, err)
	}
}

// TestLargePodsAreKnownOnceTheyAreTrimmed: what makes a pod large may be what is left out of it.
func TestLargePodsAreKnownOnceTheyAreTrimmed(t *testing.T) {
	trim := newTrimmer(Whole{})
	for _, p := range []*v1.Pod{
		{ObjectMeta: metav1.ObjectMeta{UID: "annotations", Annotations: map[string]string{"x": strings.Repeat("x", 1<<17)}}},
		{ObjectMeta: metav1.ObjectMeta{UID: "environment"}, Spec: v1.PodSpec{Containers: []v1.Container{{Env: []v1.EnvVar{{Value: strings.Repeat("x", 1<<17)}}}}}},
		{ObjectMeta: metav1.ObjectMeta{UID: "small"}},
		{ObjectMeta: metav1.ObjectMeta{UID: "placed", Annotations: map[string]string{"x": strings.Repeat("x", 1<<17)}}, Spec: v1.PodSpec{NodeName: "n"}},
	} {
		if _, err := trim.transform(p); err != nil {
			t.Fatal(err)
		}
		if got, want := trim.large.Contains(p.UID), p.UID == "annotations" || p.UID == "environment"; got != want {
			t.Errorf("%s: large %t, expected %t", p.UID, got, want)
		}
	}
}
