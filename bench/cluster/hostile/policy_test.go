package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/shardsched/shardsched/bench/cluster/controlplane/testbed"
	"github.com/shardsched/shardsched/internal/testkit/build"
)

const (
	policyFile = "../../../deploy/policy/pod-bounds.yaml"
	policyName = "pod-bounds.shardsched.io"
	// manifests is a folder of well-known projects' workloads, beside the repository.
	manifests = "../../../../shared/data/manifests"
)

// testPolicy installs the policy and tries pods on it.
func testPolicy(t *testing.T, c *testbed.Cluster, o size) {
	s, err := newAttackCluster(t.Context(), c.Bed, o, "policy")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range []*v1.Pod{
		tolerates(100).Node("node-00000").Obj(), // from before the policy
		build.Pod("gated").Gate("example.com/later").Obj(),
	} {
		if err := s.create(t.Context(), p); err != nil {
			t.Fatal(err)
		}
	}
	s.install(t)
	t.Run("attacks are refused where one pod is too much", s.testAttacks)
	t.Run("pods at a bound are admitted, those beyond it are not", s.testBounds)
	t.Run("what people run is admitted", s.testManifests)
	t.Run("pods of before can be changed, but not get more than is allowed", s.testUpdates)
	t.Run("a namespace is exempt by its label", func(t *testing.T) {
		patch := []byte(`{"metadata":{"labels":{"shardsched.io/pod-bounds":"exempt"}}}`)
		if _, err := s.bed.Admin.CoreV1().Namespaces().Patch(t.Context(), s.hostile, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
		s.until(t, "is admitted", func(err error) bool { return err == nil })
	})
}

// install creates the policy, and returns when the API server heeds it.
func (s *attackCluster) install(t *testing.T) {
	text, err := os.ReadFile(policyFile)
	if err != nil {
		t.Fatal(err)
	}
	policy, binding := &admissionv1.ValidatingAdmissionPolicy{}, &admissionv1.ValidatingAdmissionPolicyBinding{}
	for i, doc := range bytes.Split(text, []byte("\n---\n")) {
		if err := yaml.UnmarshalStrict(doc, []any{policy, binding}[i]); err != nil {
			t.Fatalf("%s: %v", policyFile, err)
		}
	}
	admission := s.bed.Admin.AdmissionregistrationV1()
	if _, err := admission.ValidatingAdmissionPolicies().Create(t.Context(), policy, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := admission.ValidatingAdmissionPolicyBindings().Create(t.Context(), binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	s.until(t, "is refused", func(err error) bool { return err != nil })
}

// until asks until a pod beyond a bound gets the answer that is wanted: the API server hears of policies and
// of namespaces through watches.
func (s *attackCluster) until(t *testing.T, what string, met func(error) bool) {
	c := &testbed.Cluster{Bed: s.bed, T: t}
	for ctx := c.Context(); ; {
		err := s.try(t, tolerates(100).Obj())
		if met(err) {
			return
		}
		if ctx.Err() != nil {
			t.Fatalf("a pod beyond a bound: got %v, want that it %s", err, what)
		}
	}
}

// try has the API server say whether it would take a pod.
func (s *attackCluster) try(t *testing.T, p *v1.Pod) error {
	p = p.DeepCopy()
	p.Namespace, p.Name, p.GenerateName, p.UID = s.hostile, "", "try-", ""
	for _, containers := range [][]v1.Container{p.Spec.InitContainers, p.Spec.Containers} {
		for i := range containers {
			if containers[i].Image == "" {
				containers[i].Image = "pause"
			}
		}
	}
	_, err := s.bed.Admin.CoreV1().Pods(s.hostile).Create(t.Context(), p, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	return err
}

// want checks that the API server refuses a pod by the policy, for a reason; empty: that it takes the pod.
func (s *attackCluster) want(t *testing.T, about string, p *v1.Pod, reason string) {
	t.Helper()
	err := s.try(t, p)
	if reason == "" && err != nil {
		t.Errorf("%s: got %v, want the pod admitted", about, err)
	}
	if reason != "" && (err == nil || !strings.Contains(err.Error(), policyName) || !strings.Contains(err.Error(), reason)) {
		t.Errorf("%s: got %v, want it refused by %s: %q", about, err, policyName, reason)
	}
}

func (s *attackCluster) testAttacks(t *testing.T) {
	const terms, values = "at most 32 terms of pod affinity and anti-affinity are allowed, the pod has ", "at most 256 values are allowed"
	reasons := map[string]string{
		"absent-keys": terms + "1500", "own-terms": terms + "1500", "soft-constraints": "at most 16 topology spread constraints are allowed, the pod has 1500",
		"many-keys": terms + "260", "random-values": terms + "40", "random-values-placed": terms + "40", "deleted-terms": terms + "10000",
		"large-pods": values, "long-lists": values, "claims": "at most 128 volumes are allowed, the pod has 500",
		// Attacks by many pods: a quota is against these.
		"unanchored": "", "pending-flood": "", "failing": "", "within-bounds": "", "other-hosts": "", "preempting": "", "devices": "",
	}
	for _, a := range catalogue() {
		reason, ok := reasons[a.name]
		if !ok {
			t.Errorf("%s: say whether the policy refuses its pods", a.name)
		}
		s.want(t, a.name, a.pod(0, s.random(0)), reason)
	}
}

// tolerates starts a pod with n tolerations.
func tolerates(n int) *build.PodBuilder {
	p := build.Pod("tolerates")
	for i := range n {
		p.Toleration(fmt.Sprintf("k-%d:NoSchedule", i))
	}
	return p
}

// many calls f for 0 to n-1.
func many(p *build.PodBuilder, n int, f func(i int)) *v1.Pod {
	for i := range n {
		f(i)
	}
	return p.Obj()
}

func (s *attackCluster) testBounds(t *testing.T) {
	list := func(n int) []string { return words(s.random(0), n, 20) }
	in := func(n int) *metav1.LabelSelector { return expression("app", metav1.LabelSelectorOpIn, list(n)...) }
	lacks := func(n int) *metav1.LabelSelector {
		all := &metav1.LabelSelector{}
		for i := range n {
			all.MatchExpressions = append(all.MatchExpressions, metav1.LabelSelectorRequirement{Key: fmt.Sprintf("k-%d", i), Operator: metav1.LabelSelectorOpDoesNotExist})
		}
		return all
	}
	near := func(own, namespaces *metav1.LabelSelector) *v1.Pod {
		return build.Pod("p").Near(build.PodTerm{TopologyKey: v1.LabelHostname, LabelSelector: own, NamespaceSelector: namespaces}).Obj()
	}
	host := func(values ...string) build.Term {
		return build.Labels(build.Match(v1.LabelHostname, v1.NodeSelectorOpIn, values...))
	}
	for _, bound := range []struct {
		about  string
		most   int
		pod    func(p *build.PodBuilder, n int) *v1.Pod
		reason string
	}{
		{"required affinity", 32, func(p *build.PodBuilder, n int) *v1.Pod {
			return many(p, n, func(i int) { p.Near(everywhere(absent(i))) })
		}, "terms of pod affinity"},
		{"preferred affinity", 32, func(p *build.PodBuilder, n int) *v1.Pod {
			return many(p, n, func(i int) { p.PreferNear(1, everywhere(absent(i))) })
		}, "terms of pod affinity"},
		{"anti-affinity of both kinds", 32, func(p *build.PodBuilder, n int) *v1.Pod {
			p.PreferApart(1, everywhere(absent(0)))
			return many(p, n-1, func(i int) { p.Apart(everywhere(absent(i))) })
		}, "terms of pod affinity"},
		{"node affinity", 32, func(p *build.PodBuilder, n int) *v1.Pod { return many(p, n, func(i int) { p.Required(host("a")) }) }, "terms of node affinity"},
		{"preferred node affinity", 32, func(p *build.PodBuilder, n int) *v1.Pod { return many(p, n, func(i int) { p.Preferred(1, host("a")) }) }, "terms of node affinity"},
		{"constraints", 16, func(p *build.PodBuilder, n int) *v1.Pod {
			return many(p, n, func(i int) { p.Spread(build.Soft(absent(i), 1, "a=b")) })
		}, "topology spread constraints"},
		{"expressions", 32, func(_ *build.PodBuilder, n int) *v1.Pod { return near(lacks(n), nil) }, "expressions are allowed"},
		{"expressions on namespaces", 32, func(_ *build.PodBuilder, n int) *v1.Pod { return near(lacks(1), lacks(n)) }, "expressions are allowed"},
		{"values", 256, func(_ *build.PodBuilder, n int) *v1.Pod { return near(in(n), nil) }, "values are allowed"},
		{"values on namespaces", 256, func(_ *build.PodBuilder, n int) *v1.Pod { return near(in(1), in(n)) }, "values are allowed"},
		{"values of a preference", 256, func(p *build.PodBuilder, n int) *v1.Pod {
			return p.PreferApart(1, build.PodTerm{TopologyKey: v1.LabelHostname, LabelSelector: in(n)}).Obj()
		}, "values are allowed"},
		{"values of a constraint", 256, func(p *build.PodBuilder, n int) *v1.Pod {
			c := build.Soft(v1.LabelHostname, 1, "")
			c.LabelSelector = in(n)
			return p.Spread(c).Obj()
		}, "values are allowed"},
		{"values on nodes", 256, func(p *build.PodBuilder, n int) *v1.Pod { return p.Required(host(list(n)...)).Obj() }, "values are allowed"},
		{"preferred values on nodes", 256, func(p *build.PodBuilder, n int) *v1.Pod { return p.Preferred(1, host(list(n)...)).Obj() }, "values are allowed"},
		{"containers", 64, func(p *build.PodBuilder, n int) *v1.Pod {
			p.Init("init").Container("c")
			return many(p, n-2, func(i int) { p.Container(fmt.Sprintf("c-%d", i)) })
		}, "containers are allowed"},
		{"resources", 32, func(p *build.PodBuilder, n int) *v1.Pod { return odd(p, n) }, "resources are allowed"},
		{"ports", 128, func(p *build.PodBuilder, n int) *v1.Pod {
			return many(p, n, func(i int) { p.HostPort("", "", int32(i+1)) })
		}, "ports are allowed"},
		{"volumes", 128, func(p *build.PodBuilder, n int) *v1.Pod {
			return many(p, n, func(i int) { p.Claim(fmt.Sprintf("c-%d", i)) })
		}, "volumes are allowed"},
		// The API server itself adds two.
		{"tolerations", 64, func(_ *build.PodBuilder, n int) *v1.Pod { return tolerates(n - 2).Obj() }, "tolerations are allowed"},
		{"node selector", 32, func(p *build.PodBuilder, n int) *v1.Pod {
			return many(p, n, func(i int) { p.NodeSelector(absent(i), "") })
		}, "labels are allowed"},
	} {
		s.want(t, bound.about+" at the bound", bound.pod(build.Pod("p"), bound.most), "")
		s.want(t, bound.about+" beyond the bound", bound.pod(build.Pod("p"), bound.most+1), fmt.Sprintf("at most %d %s", bound.most, bound.reason))
	}
}

// odd requests n resources that nobody has.
func odd(p *build.PodBuilder, n int) *v1.Pod {
	pod := p.Obj()
	c := &pod.Spec.Containers[0]
	for i := range n {
		p.Request(fmt.Sprintf("example.com/r-%05d", i), "1")
	}
	c.Resources.Limits = c.Resources.Requests // nobody may have more of them than is requested
	return pod
}

func (s *attackCluster) testUpdates(t *testing.T) {
	pods := s.tenant.CoreV1().Pods(s.hostile)
	if _, err := pods.Patch(t.Context(), "tolerates", types.MergePatchType, []byte(`{"metadata":{"labels":{"a":"b"}}}`), metav1.PatchOptions{}); err != nil {
		t.Errorf("a pod of before, beyond a bound, gets a label: got %v, want no error", err)
	}
	gated, err := s.bed.Admin.CoreV1().Pods(s.hostile).Get(t.Context(), "gated", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, values := range []int{257, 256} {
		asks := build.Pod("").Required(build.Labels(build.Match(v1.LabelHostname, v1.NodeSelectorOpIn, words(s.random(0), values, 20)...))).Obj()
		gated.Spec.Affinity = asks.Spec.Affinity
		if _, err := pods.Update(t.Context(), gated, metav1.UpdateOptions{}); (err == nil) != (values == 256) {
			t.Errorf("a pod with a gate gets %d values: got %v, want an error beyond 256", values, err)
		}
	}
}

func (s *attackCluster) testManifests(t *testing.T) {
	files, err := filepath.Glob(manifests + "/*.yaml")
	if err != nil || len(files) == 0 {
		t.Skipf("the manifests are not at %s", manifests)
	}
	admitted := 0
	for _, file := range files {
		for _, p := range templates(t, file) {
			about := filepath.Base(file) + ": " + p.Name
			if err := s.try(t, p); err == nil {
				admitted++
			} else if !slices.ContainsFunc(invalid, func(known string) bool { return strings.Contains(err.Error(), known) }) {
				t.Errorf("%s: got %v, want the pod admitted", about, err)
			}
		}
	}
	if admitted < 50 {
		t.Errorf("got %d pods of %d files admitted, want 50 or more", admitted, len(files))
	}
}

// invalid is what the API server itself holds against some of the manifests' pods.
var invalid = []string{"spec.containers: Required value"}

// templates are the pods that a file's workloads would make.
func templates(t *testing.T, file string) (pods []*v1.Pod) {
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, doc := range bytes.Split(text, []byte("\n---")) {
		var object map[string]any
		if err := yaml.Unmarshal(doc, &object); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		for _, at := range [][]string{{"spec"}, {"spec", "template", "spec"}, {"spec", "jobTemplate", "spec", "template", "spec"}} {
			spec, _, _ := unstructured.NestedMap(object, at...)
			if _, ok := spec["containers"]; !ok {
				continue
			}
			p := &v1.Pod{}
			p.Name, _, _ = unstructured.NestedString(object, "metadata", "name")
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(spec, &p.Spec); err != nil {
				t.Fatalf("%s: %s: %v", file, p.Name, err)
			}
			p.Spec.PriorityClassName = "" // a class that may not be there
			if p.Spec.RestartPolicy == "" {
				p.Spec.RestartPolicy = v1.RestartPolicyAlways
			}
			pods = append(pods, p)
		}
	}
	return pods
}
