// Package deploy holds what is deployed to what the code has: flags, ports, labels,
// metrics.
package deploy

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/yaml"

	"github.com/shardsched/shardsched/coordinator/config"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// base is what kustomize/base holds, by kind.
type base struct {
	sets     []*appsv1.StatefulSet
	services []*v1.Service
	budgets  []*policyv1.PodDisruptionBudget
}

// readBase decodes the manifests strictly. The labels that kustomization.yaml adds to
// metadata stand in the selectors' pods already.
func readBase(t *testing.T) *base {
	t.Helper()
	out := &base{}
	for _, file := range []string{"coordinator.yaml", "worker.yaml", "namespace.yaml"} {
		text, err := os.ReadFile(filepath.Join("kustomize/base", file))
		if err != nil {
			t.Fatal(err)
		}
		for _, doc := range bytes.Split(text, []byte("\n---\n")) {
			var head metav1.TypeMeta
			if err := yaml.Unmarshal(doc, &head); err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			var object any
			switch head.APIVersion + " " + head.Kind {
			case "apps/v1 StatefulSet":
				out.sets = append(out.sets, &appsv1.StatefulSet{})
				object = out.sets[len(out.sets)-1]
			case "v1 Service":
				out.services = append(out.services, &v1.Service{})
				object = out.services[len(out.services)-1]
			case "policy/v1 PodDisruptionBudget":
				out.budgets = append(out.budgets, &policyv1.PodDisruptionBudget{})
				object = out.budgets[len(out.budgets)-1]
			case "v1 Namespace":
				object = &v1.Namespace{}
			default:
				t.Fatalf("%s: want a kind that this test knows, got %s %s", file, head.APIVersion, head.Kind)
			}
			if err := yaml.UnmarshalStrict(doc, object); err != nil {
				t.Errorf("%s: %s: %v", file, head.Kind, err)
			}
		}
	}
	return out
}

func TestServicesAndBudgetsMeetTheirPods(t *testing.T) {
	b := readBase(t)
	if len(b.sets) != 2 || len(b.services) != 3 || len(b.budgets) != 2 {
		t.Fatalf("want 2 StatefulSets, 3 Services and 2 budgets, got %d, %d and %d", len(b.sets), len(b.services), len(b.budgets))
	}
	selected := func(s labels.Selector) *appsv1.StatefulSet {
		for _, set := range b.sets {
			if s.Matches(labels.Set(set.Spec.Template.Labels)) {
				return set
			}
		}
		return nil
	}
	for _, s := range b.services {
		set := selected(labels.SelectorFromSet(s.Spec.Selector))
		if set == nil {
			t.Errorf("Service %s: want pods, got none", s.Name)
			continue
		}
		ports := map[string]int32{}
		for _, p := range set.Spec.Template.Spec.Containers[0].Ports {
			ports[p.Name] = p.ContainerPort
		}
		for _, p := range s.Spec.Ports {
			if got := ports[p.TargetPort.StrVal]; got != p.Port {
				t.Errorf("Service %s, port %s: want %d in the pod too, got %d", s.Name, p.Name, p.Port, got)
			}
		}
	}
	for _, p := range b.budgets {
		selector, err := metav1.LabelSelectorAsSelector(p.Spec.Selector)
		if err != nil || selected(selector) == nil {
			t.Errorf("PodDisruptionBudget %s: want pods, got none (%v)", p.Name, err)
		}
	}
	for _, set := range b.sets {
		selector, err := metav1.LabelSelectorAsSelector(set.Spec.Selector)
		if err != nil || !selector.Matches(labels.Set(set.Spec.Template.Labels)) {
			t.Errorf("StatefulSet %s: want its own pods selected, got %v, %v", set.Name, selector, err)
		}
		if !slices.ContainsFunc(b.services, func(s *v1.Service) bool { return s.Name == set.Spec.ServiceName && s.Spec.ClusterIP == "None" }) {
			t.Errorf("StatefulSet %s: want a headless Service %s, got none", set.Name, set.Spec.ServiceName)
		}
	}
}

// TestArgumentsAreFlags looks every flag of the pods up in the code, and every file
// that they name in the mounts.
func TestArgumentsAreFlags(t *testing.T) {
	known := quoted(t, `"([a-z][a-z-]+)"`, "../cmd/internal")
	theirs, err := os.ReadFile("../cmd/internal/kubeflags/testdata/flags.txt")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(theirs)) {
		name, _, _ := strings.Cut(line, " ")
		known[name] = true
	}
	sets := append(readBase(t).sets, inKubeSchedulersPlace(t)...)
	for _, set := range sets {
		c := set.Spec.Template.Spec.Containers[0]
		for _, arg := range c.Args[1:] {
			name, value, _ := strings.Cut(strings.TrimPrefix(arg, "--"), "=")
			if !known[name] {
				t.Errorf("%s: want a flag, got %s", set.Name, arg)
			}
			mounted := slices.ContainsFunc(c.VolumeMounts, func(m v1.VolumeMount) bool {
				return value == m.MountPath || strings.HasPrefix(value, m.MountPath+"/")
			})
			if strings.HasPrefix(value, "/") && !mounted {
				t.Errorf("%s: %s: want a mounted file, got none of that folder", set.Name, arg)
			}
			if name == "etcd-endpoints" {
				continue // somebody else's ports
			}
			for _, m := range regexp.MustCompile(`:(\d{4})$`).FindAllStringSubmatch(value, -1) {
				if !slices.ContainsFunc(c.Ports, func(p v1.ContainerPort) bool { return strings.Contains(m[1], portText(p)) }) {
					t.Errorf("%s: %s: want a port of the container, got %v", set.Name, arg, c.Ports)
				}
			}
		}
	}
}

// inKubeSchedulersPlace are the base's coordinator as it is patched, and the static pod.
func inKubeSchedulersPlace(t *testing.T) []*appsv1.StatefulSet {
	t.Helper()
	patch, pod := &appsv1.StatefulSet{}, &v1.Pod{}
	for file, into := range map[string]any{"kustomize/kubernetes/coordinator.yaml": patch, "static-pod/kube-scheduler.yaml": pod} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if err := yaml.UnmarshalStrict(text, into); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
	}
	c := &patch.Spec.Template.Spec.Containers[0]
	for _, set := range readBase(t).sets {
		if of := set.Spec.Template.Spec.Containers[0]; set.Name == patch.Name && of.Name == c.Name {
			c.VolumeMounts = of.VolumeMounts
		}
	}
	if c.VolumeMounts == nil {
		t.Errorf("%s: want a set of the base with a container %s, got none", patch.Name, c.Name)
	}
	static := &appsv1.StatefulSet{}
	static.Name, static.Spec.Template.Spec = "static "+pod.Name, pod.Spec
	return []*appsv1.StatefulSet{patch, static}
}

// TestMemoryLimitsFit holds the limit of every pod of the base to its request, and a worker's to twice what it keeps: the rest
// is for what is on its way, and Go's runtime is told of nine tenths.
func TestMemoryLimitsFit(t *testing.T) {
	for _, set := range readBase(t).sets {
		c := set.Spec.Template.Spec.Containers[0]
		limit, request := c.Resources.Limits.Memory().Value(), c.Resources.Requests.Memory().Value()
		if limit == 0 || request == 0 || request > limit {
			t.Errorf("%s: want a memory limit above the request, got %d and %d", set.Name, limit, request)
		}
		for _, arg := range c.Args {
			if text, ok := strings.CutPrefix(arg, "--cache-bytes="); ok {
				if kept, err := strconv.ParseInt(text, 10, 64); err != nil || 2*kept > limit {
					t.Errorf("%s: %s: want half of the limit %d at the most, got %d, %v", set.Name, arg, limit, kept, err)
				}
			}
		}
	}
}

// TestTheStaticPodSeesItsFilesOnly holds what it mounts of the node to the files that its flags name.
func TestTheStaticPodSeesItsFilesOnly(t *testing.T) {
	pod := inKubeSchedulersPlace(t)[1].Spec.Template.Spec
	named := map[string]bool{}
	for _, arg := range pod.Containers[0].Args {
		if _, value, _ := strings.Cut(arg, "="); strings.HasPrefix(value, "/") {
			named[value] = true
		}
	}
	mounts := map[string]v1.VolumeMount{}
	for _, m := range pod.Containers[0].VolumeMounts {
		mounts[m.Name] = m
	}
	seen := 0
	for _, volume := range pod.Volumes {
		if volume.HostPath == nil {
			continue
		}
		seen++
		kind, m := *volume.HostPath.Type, mounts[volume.Name]
		if kind != v1.HostPathFile && kind != v1.HostPathFileOrCreate || !m.ReadOnly || !named[m.MountPath] || m.MountPath != volume.HostPath.Path {
			t.Errorf("volume %s: want a single file that a flag names, mounted to be read, got %s %s at %+v", volume.Name, kind, volume.HostPath.Path, m)
		}
	}
	if seen != len(named) {
		t.Errorf("want all of %v mounted, got %d", named, seen)
	}
}

// TestTheAccountHasKubeSchedulersRoles holds the bindings to the roles that every API server makes for
// kube-scheduler, and to one account.
func TestTheAccountHasKubeSchedulersRoles(t *testing.T) {
	text, err := os.ReadFile("kustomize/kubernetes/rbac.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var roles []string
	for _, doc := range bytes.Split(text, []byte("\n---\n")) {
		var b rbacv1.ClusterRoleBinding // a RoleBinding has the same fields
		if err := yaml.Unmarshal(doc, &b); err != nil {
			t.Fatal(err)
		}
		if b.Kind == "ServiceAccount" {
			continue
		}
		if err := yaml.UnmarshalStrict(doc, &b); err != nil {
			t.Errorf("%s: %v", b.Name, err)
		}
		if len(b.Subjects) != 1 || b.Subjects[0].Name != "shardsched" || b.Subjects[0].Namespace != "shardsched" {
			t.Errorf("%s: want the account shardsched/shardsched, got %v", b.Name, b.Subjects)
		}
		roles = append(roles, b.Kind+" of "+b.RoleRef.Kind+" "+b.RoleRef.Name)
	}
	want := []string{
		"ClusterRoleBinding of ClusterRole system:kube-scheduler",
		"ClusterRoleBinding of ClusterRole system:volume-scheduler",
		"RoleBinding of Role extension-apiserver-authentication-reader",
		"RoleBinding of Role system::leader-locking-kube-scheduler",
	}
	if !slices.Equal(roles, want) {
		t.Errorf("roles: want %q, got %q", want, roles)
	}
}

// TestReadersMayReadTheClientAPI holds the role to the service's name, and to reads.
func TestReadersMayReadTheClientAPI(t *testing.T) {
	text, err := os.ReadFile("kustomize/kubernetes/reader.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var role rbacv1.ClusterRole
	if err := yaml.UnmarshalStrict(text, &role); err != nil {
		t.Fatal(err)
	}
	want := []rbacv1.PolicyRule{{NonResourceURLs: []string{"/" + pb.SchedulerService_ServiceDesc.ServiceName + "/*"}, Verbs: []string{"get"}}}
	if !reflect.DeepEqual(role.Rules, want) {
		t.Errorf("want %v, got %v", want, role.Rules)
	}
}

func portText(p v1.ContainerPort) string {
	text, _ := json.Marshal(p.ContainerPort)
	return string(text)
}

func TestTheConfigurationLoads(t *testing.T) {
	c, err := config.Load("kustomize/base/kube-scheduler.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if got := c.NoEffect(); len(got) > 0 {
		t.Errorf("no effect: want nothing, got %q", got)
	}
}

// TestTheDashboardShowsWhatThereIs looks every metric and label of the dashboard up
// in the code, and every metric of the code up in the dashboard.
func TestTheDashboardShowsWhatThereIs(t *testing.T) {
	text, err := os.ReadFile("grafana/shardsched.json")
	if err != nil {
		t.Fatal(err)
	}
	var board struct {
		Panels []struct {
			ID      int    `json:"id"`
			Title   string `json:"title"`
			Targets []struct {
				Expr   string `json:"expr"`
				Legend string `json:"legendFormat"`
			} `json:"targets"`
		} `json:"panels"`
	}
	if err := json.Unmarshal(text, &board); err != nil {
		t.Fatal(err)
	}
	metrics := quoted(t, `"((?:scheduler|shardsched)_[a-z_]+)"`, "../coordinator", "../worker", "../cmd/internal/otlp", "../cmd/internal/serving")
	words := quoted(t, `"([a-z_]+)"`, "../coordinator", "../worker", "../cmd/internal/serving")
	shown, ids := map[string]bool{}, map[int]bool{}
	metric := regexp.MustCompile(`(?:scheduler|shardsched)_[a-z_]+`)
	label := regexp.MustCompile(`\{\{(\w+)\}\}`)
	for _, p := range board.Panels {
		if ids[p.ID] {
			t.Errorf("panel %q: want an id of its own, got %d again", p.Title, p.ID)
		}
		ids[p.ID] = true
		for _, target := range p.Targets {
			for _, m := range metric.FindAllString(target.Expr, -1) {
				name := m
				for _, suffix := range []string{"_bucket", "_sum", "_count"} {
					name = strings.TrimSuffix(name, suffix)
				}
				shown[name] = true
				if !metrics[name] {
					t.Errorf("panel %q: want a metric that there is, got %s", p.Title, m)
				}
			}
			for _, m := range label.FindAllStringSubmatch(target.Legend, -1) {
				if m[1] != "instance" && !words[m[1]] {
					t.Errorf("panel %q: want a label that there is, got %s", p.Title, m[1])
				}
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(metrics)) {
		if !shown[name] {
			t.Errorf("dashboard: want %s shown, got no panel with it", name)
		}
	}
}

// quoted gathers what a pattern's group finds in Go files, tests left out.
func quoted(t *testing.T, pattern string, roots ...string) map[string]bool {
	t.Helper()
	out, find := map[string]bool{}, regexp.MustCompile(pattern)
	for _, root := range roots {
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
				return err
			}
			text, err := os.ReadFile(path)
			for _, m := range find.FindAllSubmatch(text, -1) {
				out[string(m[1])] = true
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// TestPolicyIsTold holds the document to the bounds of the policy, in their order, and the binding to the policy.
func TestPolicyIsTold(t *testing.T) {
	text, err := os.ReadFile("policy/pod-bounds.yaml")
	if err != nil {
		t.Fatal(err)
	}
	policy, binding := &admissionv1.ValidatingAdmissionPolicy{}, &admissionv1.ValidatingAdmissionPolicyBinding{}
	for i, doc := range bytes.Split(text, []byte("\n---\n")) {
		if err := yaml.UnmarshalStrict(doc, []any{policy, binding}[i]); err != nil {
			t.Fatal(err)
		}
	}
	if binding.Spec.PolicyName != policy.Name {
		t.Errorf("the binding is of the policy %q, want %q", binding.Spec.PolicyName, policy.Name)
	}
	var want []string
	for _, v := range policy.Spec.Variables {
		if strings.HasPrefix(v.Name, "max") {
			want = append(want, v.Expression)
		}
	}
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(readme), "## Bounds on pods")
	section, _, _ = strings.Cut(section, "\n## ")
	var got []string
	for _, row := range regexp.MustCompile(`\| ([\d, ]+) \|\n`).FindAllStringSubmatch(section, -1) {
		got = append(got, strings.Split(row[1], ", ")...)
	}
	if !slices.Equal(got, want) {
		t.Errorf("README.md tells the bounds %q, want %q", got, want)
	}
	if e := binding.Spec.MatchResources.NamespaceSelector.MatchExpressions[0]; !strings.Contains(section, "`"+e.Key+": "+e.Values[0]+"`") {
		t.Errorf("README.md does not tell of the label %s: %s", e.Key, e.Values[0])
	}
}
