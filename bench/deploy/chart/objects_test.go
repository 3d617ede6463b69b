package chart

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/restmapper"
	"sigs.k8s.io/yaml"

	"github.com/shardsched/shardsched/bench/cluster/controlplane/testbed"
)

// cases are what the chart is judged by: each topology as in its example, and with all that can be added to it.
var cases = []struct{ example, values string }{
	{"swap", ""},
	{"swap", `
image: {digest: "sha256:0000000000000000000000000000000000000000000000000000000000000000", pullSecrets: [{name: registry}]}
config: "kind: KubeSchedulerConfiguration"
coordinator: {replicas: 3, extraArgs: [--v=2]}
embeddedEtcd: {medium: Memory, sizeLimit: 1Gi}
rbac: minimal
apiPriority: true
podBounds: true
networkPolicy: {enabled: true}
podMonitor: {enabled: true, labels: {release: prometheus}}
prometheusRule: {enabled: true}`},
	{"sharded", ""},
	{"sharded", `
cluster: prod
image: {tag: v9, pullPolicy: Always}
coordinator: {nodeSelector: {pool: a}, tolerations: [{operator: Exists}]}
worker: {replicas: 12, cores: 64, cacheMiB: 65536, priorityClassName: "", extraArgs: [--v=2]}
etcd: {endpoints: ["https://10.0.0.1:2379", "https://10.0.0.2:2379", "https://10.0.0.3:2379"]}
apiPriority: true
podBounds: true
networkPolicy:
  enabled: true
  apiServer: [{ipBlock: {cidr: 192.0.2.10/32}}]
  etcd: [{ipBlock: {cidr: 10.0.0.0/29}}]
  egress:
  - to: [{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: telemetry}}}]
    ports: [{protocol: TCP, port: 4317}]
certManager: {enabled: true, issuerRef: {name: ca, kind: ClusterIssuer}, etcdIssuerRef: {name: etcd}}
podMonitor: {enabled: true}`},
	{"standalone", ""},
	{"standalone", `
worker: {replicas: 0}
networkPolicy: {enabled: true, clients: [], scrapers: []}
certManager: {enabled: true, issuerRef: {name: ca}}
podMonitor: {enabled: true}`},
	{"standalone", "networkPolicy: {enabled: true}"},
	{"shadow", ""},
	{"shadow", `
config: "kind: KubeSchedulerConfiguration"
shadow: {tlsSecret: mine, priorityClassName: system-cluster-critical, nodeSelector: {pool: a}, tolerations: [{operator: Exists}], extraArgs: [--v=2]}
podBounds: true
networkPolicy: {enabled: true}
podMonitor: {enabled: true}`},
}

// object is one rendered object.
type object struct {
	Document
	unstructured.Unstructured
}

func (o object) String() string { return o.Template + ": " + o.GetKind() + " " + o.GetName() }

// render gives a case's objects.
func render(t *testing.T, example, values string) (out []object) {
	t.Helper()
	c, v := load(t, example, values)
	texts, _, err := c.Render(Helm, v)
	if err != nil {
		t.Fatalf("%s with %s: %v", example, values, err)
	}
	for _, d := range Documents(texts) {
		o := object{Document: d}
		if err := yaml.UnmarshalStrict([]byte(d.Text), &o.Object); err != nil {
			t.Fatalf("%s: %v\n%s", d.Template, err, d.Text)
		}
		out = append(out, o)
	}
	return out
}

// into decodes an object strictly.
func into[T any](t *testing.T, o object) *T {
	t.Helper()
	out := new(T)
	if err := yaml.UnmarshalStrict([]byte(o.Text), out); err != nil {
		t.Errorf("%v: %v", o, err)
	}
	return out
}

// pods gives the pods that the workloads would make, with the name of a StatefulSet's first.
func pods(t *testing.T, objects []object) (out []*v1.Pod) {
	for _, o := range objects {
		var template v1.PodTemplateSpec
		switch o.GetKind() {
		case "StatefulSet":
			template = into[appsv1.StatefulSet](t, o).Spec.Template
		case "Deployment":
			template = into[appsv1.Deployment](t, o).Spec.Template
		default:
			continue
		}
		p := &v1.Pod{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}, ObjectMeta: template.ObjectMeta, Spec: template.Spec}
		p.Name, p.Namespace = o.GetName()+"-0", o.GetNamespace()
		out = append(out, p)
	}
	return out
}

// TestAnAPIServerTakesEverything posts each rendered object and each pod to a real API server, in a namespace that holds its pods to the
// profile restricted. Kinds that it does not serve are decoded strictly into Go types.
func TestAnAPIServerTakesEverything(t *testing.T) {
	bed := testbed.New(t, testbed.Config{NoAudit: true})
	ctx := t.Context()
	namespace := &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: Helm.Namespace,
		Labels: map[string]string{"pod-security.kubernetes.io/enforce": "restricted"}}}
	if _, err := bed.Admin.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	p := newPoster(t, bed)
	for _, c := range cases {
		t.Run(c.example+strings.ReplaceAll(c.values, "\n", " "), func(t *testing.T) {
			objects := render(t, c.example, c.values)
			seen := map[string]bool{}
			for _, o := range objects {
				switch o.GetKind() {
				case "Certificate":
					into[certificate](t, o)
				case "PodMonitor":
					into[monitoring.PodMonitor](t, o)
				case "PrometheusRule":
					into[monitoring.PrometheusRule](t, o)
				default:
					if err := p.post(ctx, &o.Unstructured); err != nil {
						t.Errorf("%v: %v", o, err)
					}
				}
				if key := o.GetKind() + " " + o.GetNamespace() + "/" + o.GetName(); seen[key] {
					t.Errorf("%v: want one of that name, got another", o)
				} else {
					seen[key] = true
				}
			}
			for _, pod := range pods(t, objects) {
				if err := p.postPod(ctx, pod); err != nil {
					t.Errorf("a pod of %s: %v", pod.Name, err)
				}
			}
		})
	}
	for name, overlay := range overlays(t) {
		t.Run("kustomize: "+name, func(t *testing.T) {
			for _, o := range build(t, overlay) {
				if o.GetKind() == "Certificate" || o.GetKind() == "PodMonitor" {
					continue // as above
				}
				if err := p.post(ctx, o); err != nil && !(o.GetKind() == "Namespace" && apierrors.IsAlreadyExists(err)) {
					t.Errorf("%s %s: %v", o.GetKind(), o.GetName(), err)
				}
			}
		})
	}
	t.Run("what is wrong is refused", func(t *testing.T) {
		pod := pods(t, render(t, "swap", ""))[0]
		root := pod.DeepCopy()
		root.Spec.SecurityContext.RunAsUser, root.Spec.SecurityContext.RunAsNonRoot = new(int64), nil
		if err := p.postPod(ctx, root); err == nil || !strings.Contains(err.Error(), "violates PodSecurity") {
			t.Errorf("a pod that runs as root: got %v, want it refused by pod security", err)
		}
		for _, o := range render(t, "swap", "") {
			if o.GetKind() != "Deployment" {
				continue
			}
			if err := unstructured.SetNestedField(o.Object, int64(1), "spec", "replica"); err != nil {
				t.Fatal(err)
			}
			if err := p.post(ctx, &o.Unstructured); err == nil || !strings.Contains(err.Error(), `unknown field "spec.replica"`) {
				t.Errorf("a Deployment with a field that there is not: got %v, want it refused", err)
			}
		}
	})
}

// poster posts objects of any kind, which are judged and not kept.
type poster struct {
	client dynamic.Interface
	mapper meta.RESTMapper
}

func newPoster(t *testing.T, bed *testbed.Cluster) poster {
	t.Helper()
	groups, err := restmapper.GetAPIGroupResources(discovery.NewDiscoveryClient(bed.Admin.Discovery().RESTClient()))
	if err != nil {
		t.Fatal(err)
	}
	client, err := dynamic.NewForConfig(dynamic.ConfigFor(bed.AdminREST))
	if err != nil {
		t.Fatal(err)
	}
	return poster{client, restmapper.NewDiscoveryRESTMapper(groups)}
}

func (p poster) post(ctx context.Context, o *unstructured.Unstructured) error {
	kind := o.GroupVersionKind()
	m, err := p.mapper.RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil {
		return err
	}
	how := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}, FieldValidation: metav1.FieldValidationStrict}
	if namespaced := m.Scope.Name() == meta.RESTScopeNameNamespace; namespaced != (o.GetNamespace() != "") {
		return fmt.Errorf("its namespace is %q, want one only where its kind has one", o.GetNamespace())
	}
	_, err = p.client.Resource(m.Resource).Namespace(o.GetNamespace()).Create(ctx, o, how)
	return err
}

func (p poster) postPod(ctx context.Context, pod *v1.Pod) error {
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(pod)
	if err != nil {
		return err
	}
	return p.post(ctx, &unstructured.Unstructured{Object: fields})
}

// TestNamesFollowTheRelease installs under another name, in another namespace: nothing is left of the first.
func TestNamesFollowTheRelease(t *testing.T) {
	for _, f := range folders {
		c, values := load(t, f.topology, "")
		texts, _, err := c.Render(Release{Name: "second", Namespace: "elsewhere", Service: "Helm"}, values)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range Documents(texts) {
			var o unstructured.Unstructured
			if err := yaml.Unmarshal([]byte(d.Text), &o.Object); err != nil {
				t.Fatal(err)
			}
			if n := o.GetNamespace(); n == Helm.Namespace {
				t.Errorf("%s: %s: the namespace is %s, want elsewhere", f.topology, o.GetName(), n)
			}
			if !strings.HasPrefix(o.GetName(), "second") {
				t.Errorf("%s: %s: the name is %s, want it to begin with the release's", f.topology, d.Template, o.GetName())
			}
			text, err := json.Marshal(o.Object["spec"])
			if err != nil || strings.Contains(string(text), "shardsched-") || strings.Contains(string(text), "shardsched.svc") {
				t.Errorf("%s: %s: want no name of another release, got %s", f.topology, d.Template, text)
			}
		}
	}
}

// policies gives the rendered NetworkPolicies.
func policies(t *testing.T, objects []object) (out []*networkingv1.NetworkPolicy) {
	for _, o := range objects {
		if o.GetKind() == "NetworkPolicy" {
			out = append(out, into[networkingv1.NetworkPolicy](t, o))
		}
	}
	return out
}
