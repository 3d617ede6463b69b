package objects_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/shardsched/shardsched/coordinator/objects"
)

func encode(t testing.TB, obj objects.Object) []byte {
	t.Helper()
	raw, err := objects.Encode(obj)
	if err != nil {
		t.Fatalf("encode %s: %v", objects.RefOf(obj), err)
	}
	return raw
}

func TestEncodedObjectsReadTheSame(t *testing.T) {
	for _, raw := range []string{
		containerWith(`"image":"a:1","resources":{"requests":{"cpu":"1000m","memory":"1Gi","nvidia.com/gpu":1}},"ports":[{"containerPort":80}]`),
		nodeWith(`"spec":{"taints":[{"key":"k","effect":"NoSchedule"}]},"status":{"capacity":{"cpu":"8","memory":"32Gi"}}`),
		`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"team-a","labels":{"b":"2","a":"1"}}}`,
	} {
		obj := decode(t, raw)
		objects.Default(obj)
		first := encode(t, obj)
		if !bytes.HasPrefix(first, []byte("k8s\x00")) {
			t.Errorf("got %q, want it to begin with k8s and a zero byte", first[:8])
		}
		again, err := objects.Decode(first)
		if err != nil {
			t.Fatal(err)
		}
		if !equality.Semantic.DeepEqual(obj, again) {
			t.Errorf("got %v, want %v", again, obj)
		}
		if second := encode(t, again); !bytes.Equal(first, second) {
			t.Errorf("encoding is not canonical: got %q, want %q", second, first)
		}
	}
}

func TestWhatCannotBeReadIsExplained(t *testing.T) {
	for name, tc := range map[string]struct{ raw, want string }{
		"nothing":               {"", "neither Kubernetes protobuf nor a JSON object"},
		"text":                  {"apiVersion: v1", "neither Kubernetes protobuf nor a JSON object"},
		"a list":                {"[]", "neither Kubernetes protobuf nor a JSON object"},
		"half an object":        {`{"apiVersion":"v1"`, "JSON:"},
		"no kind":               {`{"apiVersion":"v1"}`, `unknown kind: ""`},
		"an unknown kind":       {`{"apiVersion":"v1","kind":"Secret"}`, `unknown kind: "Secret"`},
		"another version":       {`{"apiVersion":"v2","kind":"Pod"}`, `Pod: apiVersion "v2", want "v1"`},
		"an unknown field":      {podWith(`"nodename":"n1"`), `unknown field "spec.nodename"`},
		"a field twice":         {podWith(`"nodeName":"n1","nodeName":"n2"`), `duplicate field "spec.nodeName"`},
		"a wrong type":          {podWith(`"nodeName":5`), "Pod:"},
		"a quantity in words":   {requests(`"cpu":"two"`), `spec.containers[0].resources.requests[cpu]: "two" is not a quantity`},
		"a long exponent":       {requests(`"cpu":"1e-2000000000"`), `spec.containers[0].resources.requests[cpu]: "1e-2000000000": a quantity's exponent has too many digits`},
		"a long number":         {requests(`"cpu":1e-2000000000`), `a quantity's exponent has too many digits`},
		"a hidden exponent":     {requests(`"cpu":"1\u0065-2000000000"`), `a quantity's exponent has too many digits`},
		"a broken envelope":     {"k8s\x00\xff\xff", "kubernetes protobuf envelope"},
		"an envelope of no pod": {"k8s\x00\x0a\x09\x0a\x02v1\x12\x03Pod\x12\x02\xff\xff\x1a\x00\x22\x00", "Pod in Kubernetes protobuf"},
		"another encoding":      {"k8s\x00\x0a\x09\x0a\x02v1\x12\x03Pod\x12\x00\x1a\x04gzip\x22\x00", "content encoding"},
	} {
		t.Run(name, func(t *testing.T) {
			obj, err := objects.Decode([]byte(tc.raw))
			if err == nil {
				t.Fatalf("got %v, want an error with %q", obj, tc.want)
			}
			if !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %q, want it to contain %q", err, tc.want)
			}
		})
	}
	_, err := objects.Decode([]byte(`{"apiVersion":"v1","kind":"Secret"}`))
	if !errors.Is(err, objects.ErrUnknownKind) {
		t.Errorf("got %v, want ErrUnknownKind", err)
	}
}

func TestAnExponentInProtobufIsRefusedInNoTime(t *testing.T) {
	n := decode(t, nodeWith(`"status":{"capacity":{"cpu":"123456789012345"}}`)).(*v1.Node)
	raw := encode(t, n)
	hostile := bytes.Replace(raw, []byte("123456789012345"), []byte("1e-002000000000"), 1)
	if bytes.Equal(raw, hostile) {
		t.Fatal("the quantity is not where it was expected")
	}
	begin := time.Now()
	_, err := objects.Decode(hostile)
	if err == nil || !strings.Contains(err.Error(), "exponent") {
		t.Errorf("got %v, want an error about the exponent", err)
	}
	if took := time.Since(begin); took > 10*time.Second {
		t.Errorf("it took %v", took)
	}
}

func TestALabelThatLooksLikeANumberPasses(t *testing.T) {
	n := decode(t, nodeWith(`"spec":{"taints":[{"key":"commit","value":"5e12345","effect":"NoSchedule"}]}`)).(*v1.Node)
	n.Labels = map[string]string{"commit": "1e98765", "5e12345": ""}
	again, err := objects.Decode(encode(t, n))
	if err != nil {
		t.Fatal(err)
	}
	if got := again.GetLabels()["commit"]; got != "1e98765" {
		t.Errorf("label: got %q, want 1e98765", got)
	}
}

func TestDefaultsAreThoseOfTheAPIServer(t *testing.T) {
	quantity := func(list v1.ResourceList, name v1.ResourceName) string {
		q, has := list[name]
		if !has {
			return "absent"
		}
		return q.String()
	}
	for name, tc := range map[string]struct {
		raw  string
		read func(*v1.Pod) string
		want string
	}{
		"namespace": {podWith(``), func(p *v1.Pod) string { return p.Namespace }, "default"},
		"scheduler": {podWith(``), func(p *v1.Pod) string { return p.Spec.SchedulerName }, "default-scheduler"},
		"phase":     {podWith(``), func(p *v1.Pod) string { return string(p.Status.Phase) }, "Pending"},
		"priority of a system class": {podWith(`"priorityClassName":"system-cluster-critical"`), func(p *v1.Pod) string {
			return resource.NewQuantity(int64(*p.Spec.Priority), resource.DecimalSI).String()
		}, "2G"},
		"request from limit":           {containerWith(`"resources":{"limits":{"cpu":"2"}}`), func(p *v1.Pod) string { return quantity(p.Spec.Containers[0].Resources.Requests, "cpu") }, "2"},
		"request stays":                {containerWith(`"resources":{"limits":{"cpu":"2"},"requests":{"cpu":"0"}}`), func(p *v1.Pod) string { return quantity(p.Spec.Containers[0].Resources.Requests, "cpu") }, "0"},
		"request of an init container": {podWith(`"initContainers":[{"name":"i","resources":{"limits":{"memory":"1Gi"}}}]`), func(p *v1.Pod) string { return quantity(p.Spec.InitContainers[0].Resources.Requests, "memory") }, "1Gi"},
		"protocol":                     {containerWith(`"ports":[{"containerPort":80}]`), func(p *v1.Pod) string { return string(p.Spec.Containers[0].Ports[0].Protocol) }, "TCP"},
		"host port with host network": {podWith(`"hostNetwork":true,"initContainers":[{"name":"i","ports":[{"containerPort":80}]}]`), func(p *v1.Pod) string {
			return resource.NewQuantity(int64(p.Spec.InitContainers[0].Ports[0].HostPort), resource.DecimalSI).String()
		}, "80"},
		"pod-level request from limit":      {podWith(`"resources":{"limits":{"cpu":"2"}}`), func(p *v1.Pod) string { return quantity(p.Spec.Resources.Requests, "cpu") }, "2"},
		"pod-level request from containers": {`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"},"spec":{"resources":{"limits":{"cpu":"4"}},"containers":[{"name":"c","resources":{"requests":{"cpu":"1"}}},{"name":"d","resources":{"limits":{"cpu":"500m"}}}]}}`, func(p *v1.Pod) string { return quantity(p.Spec.Resources.Requests, "cpu") }, "1500m"},
		"no pod-level request without":      {`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"},"spec":{"resources":{"requests":{"cpu":"4"}},"containers":[{"name":"c","resources":{"requests":{"memory":"1Gi"}}}]}}`, func(p *v1.Pod) string { return quantity(p.Spec.Resources.Requests, "memory") }, "absent"},
		"pod-level huge pages":              {`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"},"spec":{"resources":{"requests":{"cpu":"1"}},"containers":[{"name":"c","resources":{"limits":{"hugepages-2Mi":"4Mi"}}}]}}`, func(p *v1.Pod) string { return quantity(p.Spec.Resources.Requests, "hugepages-2Mi") }, "4Mi"},
	} {
		t.Run(name, func(t *testing.T) {
			p := decode(t, tc.raw).(*v1.Pod)
			objects.Default(p)
			if got := tc.read(p); got != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
			once := encode(t, p)
			objects.Default(p)
			if twice := encode(t, p); !bytes.Equal(once, twice) {
				t.Error("defaulting again changes the pod")
			}
		})
	}
	n := decode(t, nodeWith(`"status":{"capacity":{"cpu":"8"}}`)).(*v1.Node)
	objects.Default(n)
	if got := quantity(n.Status.Allocatable, "cpu"); got != "8" {
		t.Errorf("allocatable from capacity: got %s, want 8", got)
	}
	ns := decode(t, `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"team-a"}}`)
	objects.Default(ns)
	if got := ns.GetLabels()[v1.LabelMetadataName]; got != "team-a" {
		t.Errorf("name label of a namespace: got %q, want team-a", got)
	}
}

// FuzzDecode holds that bytes from outside never panic, and that what passes decoding,
// defaulting and validation is stored and read back the same.
func FuzzDecode(f *testing.F) {
	for _, raw := range []string{
		podWith(``), nodeWith(`"status":{"capacity":{"cpu":"8"}}`), requests(`"cpu":"1e3","memory":"1e-5"`),
		`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"a"}}`, spreadWith(``), requests(`"cpu":"1\u0065-2000000000"`),
		`{"apiVersion":"v1","kind":"Service","metadata":{"name":"a"},"spec":{"selector":{"a":"b"}}}`,
		`{"apiVersion":"v1","kind":"ReplicationController","metadata":{"name":"a"},"spec":{"template":{"metadata":{"labels":{"a":"b"}}}}}`,
		`{"apiVersion":"apps/v1","kind":"ReplicaSet","metadata":{"name":"a"},"spec":{"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}}}}}`,
		`{"apiVersion":"apps/v1","kind":"StatefulSet","metadata":{"name":"a"},"spec":{"selector":{"matchExpressions":[{"key":"a","operator":"Exists"}]},"template":{"metadata":{"labels":{"a":"b"}}}}}`,
		`{"apiVersion":"v1","kind":"PersistentVolume","metadata":{"name":"a"},"spec":{"capacity":{"storage":"1e3"},"accessModes":["ReadWriteOnce"],"csi":{"driver":"d","volumeHandle":"h"}}}`,
		`{"apiVersion":"v1","kind":"PersistentVolumeClaim","metadata":{"name":"a"},"spec":{"accessModes":["ReadWriteOncePod"],"resources":{"requests":{"storage":"1Gi"}}}}`,
		`{"apiVersion":"storage.k8s.io/v1","kind":"StorageClass","metadata":{"name":"a"},"provisioner":"p","allowedTopologies":[{"matchLabelExpressions":[{"key":"z","values":["a"]}]}]}`,
		`{"apiVersion":"storage.k8s.io/v1","kind":"CSINode","metadata":{"name":"a"},"spec":{"drivers":[{"name":"d","nodeID":"i","allocatable":{"count":3},"topologyKeys":["z"]}]}}`,
		`{"apiVersion":"storage.k8s.io/v1","kind":"CSIDriver","metadata":{"name":"a"},"spec":{"storageCapacity":true}}`,
		`{"apiVersion":"storage.k8s.io/v1","kind":"CSIStorageCapacity","metadata":{"name":"a"},"storageClassName":"s","capacity":"1e-5","maximumVolumeSize":"8Ei","nodeTopology":{"matchLabels":{"a":"b"}}}`,
		`{"apiVersion":"storage.k8s.io/v1","kind":"VolumeAttachment","metadata":{"name":"a"},"spec":{"attacher":"d","nodeName":"n","source":{"persistentVolumeName":"p"}}}`,
		`{"apiVersion":"policy/v1","kind":"PodDisruptionBudget","metadata":{"name":"a"},"spec":{"minAvailable":"5%","selector":{"matchLabels":{"a":"b"}}},"status":{"disruptedPods":{"p":"2026-01-01T00:00:00Z","q":null}}}`,
		`{"apiVersion":"resource.k8s.io/v1","kind":"DeviceClass","metadata":{"name":"a"},"spec":{"selectors":[{"cel":{"expression":"true"}}],"extendedResourceName":"a.b/c"}}`,
		`{"apiVersion":"resource.k8s.io/v1","kind":"ResourceSlice","metadata":{"name":"a"},"spec":{"driver":"d","allNodes":true,"pool":{"name":"p","generation":1,"resourceSliceCount":1},"devices":[{"name":"a","allowMultipleAllocations":true,"attributes":{"v":{"version":"1.0.0"}},"capacity":{"m":{"value":"8","requestPolicy":{"default":"1","validRange":{"min":"1","step":"1"}}}}}]}}`,
		`{"apiVersion":"resource.k8s.io/v1","kind":"ResourceClaim","metadata":{"name":"a"},"spec":{"devices":{"requests":[{"name":"r","firstAvailable":[{"name":"a","deviceClassName":"c","tolerations":[{"operator":"Exists"}]}]}],"constraints":[{"requests":["r/a"],"matchAttribute":"a/b"}],"config":[{"opaque":{"driver":"d","parameters":{"a":"1e99999"}}}]}},"status":{"allocation":{"devices":{"results":[{"request":"r/a","driver":"d","pool":"p","device":"a","consumedCapacity":{"m":"1"}}]}},"reservedFor":[{"resource":"pods","name":"p","uid":"u"}]}}`,
		podWith(`"volumes":[{"name":"v","ephemeral":{"volumeClaimTemplate":{"spec":{"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"1Gi"}}}}}}]`),
	} {
		f.Add([]byte(raw))
	}
	for _, kind := range objects.Kinds() {
		obj := objects.New(kind)
		obj.SetName("a")
		f.Add(encode(f, obj))
	}
	for _, raw := range []string{podWith(`"hostNetwork":true`), nodeWith(`"status":{"capacity":{"cpu":"8"}}`)} {
		obj, err := objects.Decode([]byte(raw))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(encode(f, obj))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		obj, err := objects.Decode(raw)
		if err != nil {
			return
		}
		objects.Default(obj)
		if len(objects.Validate(obj)) > 0 {
			return
		}
		if p, ok := obj.(*v1.Pod); ok {
			objects.MergeLabelKeys(p, p.Labels)
			objects.EphemeralClaims(p)
		}
		first := encode(t, obj)
		again, err := objects.Decode(first)
		if err != nil {
			t.Fatalf("what was stored can not be read: %v", err)
		}
		objects.Default(again)
		if errs := objects.Validate(again); len(errs) > 0 {
			t.Errorf("what was valid is not any more: %v", errs)
		}
		if second := encode(t, again); !bytes.Equal(first, second) {
			t.Errorf("stored again it differs: got %q, want %q", second, first)
		}
	})
}

// BenchmarkDecodePod reads, completes and checks one pod, as for each that is applied.
func BenchmarkDecodePod(b *testing.B) {
	raw := encode(b, decode(b, containerWith(`"image":"a:1","resources":{"requests":{"cpu":"1","memory":"1Gi"}}`)))
	b.ReportAllocs()
	for b.Loop() {
		obj, err := objects.Decode(raw)
		if err != nil {
			b.Fatal(err)
		}
		objects.Default(obj)
		if errs := objects.Validate(obj); len(errs) > 0 {
			b.Fatal(errs)
		}
	}
}
