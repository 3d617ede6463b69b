// Package deploy holds what is deployed to what the code has: flags, ports, labels,
// metrics.
package deploy

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
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
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/shardsched/shardsched/coordinator/config"
	"github.com/shardsched/shardsched/coordinator/kube"
	pb "github.com/shardsched/shardsched/proto/shardsched/v1"
)

// folders are what is rendered for kustomize, a topology each.
var folders = []string{"kustomize/base", "kustomize/kubernetes", "kustomize/swap", "kustomize/shadow"}

// set is a StatefulSet or a Deployment.
type set struct {
	name        string
	serviceName string // empty: a Deployment, whose pods have no names
	selector    *metav1.LabelSelector
	labels      map[string]string
	pod         v1.PodSpec
}

// manifests are what a folder holds, by kind.
type manifests struct {
	folder   string
	sets     []set
	services []*v1.Service
	budgets  []*policyv1.PodDisruptionBudget
	bindings []*rbacv1.ClusterRoleBinding // a RoleBinding has the same fields
	roles    []*rbacv1.ClusterRole
	accounts []*v1.ServiceAccount
}

// read decodes a folder's manifests strictly.
func read(t *testing.T, folder string) *manifests {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%s: want manifests, got none (%v)", folder, err)
	}
	out := &manifests{folder: folder}
	for _, file := range files {
		if name := filepath.Base(file); name == "kustomization.yaml" || name == "kube-scheduler.yaml" {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for doc := range bytes.SplitSeq(text, []byte("\n---\n")) {
			if err := out.add(doc); err != nil {
				t.Errorf("%s: %v", file, err)
			}
		}
	}
	return out
}

// add decodes one object.
func (m *manifests) add(doc []byte) error {
	var head metav1.TypeMeta
	if err := yaml.Unmarshal(doc, &head); err != nil {
		return err
	}
	switch head.APIVersion + " " + head.Kind {
	case "apps/v1 StatefulSet":
		var s appsv1.StatefulSet
		err := yaml.UnmarshalStrict(doc, &s)
		m.sets = append(m.sets, set{s.Name, s.Spec.ServiceName, s.Spec.Selector, s.Spec.Template.Labels, s.Spec.Template.Spec})
		return err
	case "apps/v1 Deployment":
		var d appsv1.Deployment
		err := yaml.UnmarshalStrict(doc, &d)
		m.sets = append(m.sets, set{d.Name, "", d.Spec.Selector, d.Spec.Template.Labels, d.Spec.Template.Spec})
		return err
	case "v1 Service":
		return decode(doc, &m.services)
	case "policy/v1 PodDisruptionBudget":
		return decode(doc, &m.budgets)
	case "rbac.authorization.k8s.io/v1 ClusterRoleBinding", "rbac.authorization.k8s.io/v1 RoleBinding":
		return decode(doc, &m.bindings)
	case "rbac.authorization.k8s.io/v1 ClusterRole":
		return decode(doc, &m.roles)
	case "v1 ServiceAccount":
		return decode(doc, &m.accounts)
	case "v1 Namespace":
		return yaml.UnmarshalStrict(doc, &v1.Namespace{})
	}
	return fmt.Errorf("want a kind that this test knows, got %s %s", head.APIVersion, head.Kind)
}

func decode[T any](doc []byte, into *[]*T) error {
	object := new(T)
	*into = append(*into, object)
	return yaml.UnmarshalStrict(doc, object)
}

func TestServicesAndBudgetsMeetTheirPods(t *testing.T) {
	for i, want := range [][3]int{{2, 3, 2}, {2, 3, 2}, {1, 0, 1}, {1, 0, 0}} {
		m := read(t, folders[i])
		if got := [3]int{len(m.sets), len(m.services), len(m.budgets)}; got != want {
			t.Errorf("%s: want as many sets, Services and budgets as %v, got %v", m.folder, want, got)
		}
		m.check(t)
	}
}

func (m *manifests) check(t *testing.T) {
	selected := func(s labels.Selector) *set {
		for i := range m.sets {
			if s.Matches(labels.Set(m.sets[i].labels)) {
				return &m.sets[i]
			}
		}
		return nil
	}
	for _, s := range m.services {
		set := selected(labels.SelectorFromSet(s.Spec.Selector))
		if set == nil {
			t.Errorf("%s: Service %s: want pods, got none", m.folder, s.Name)
			continue
		}
		ports := map[string]int32{}
		for _, p := range set.pod.Containers[0].Ports {
			ports[p.Name] = p.ContainerPort
		}
		for _, p := range s.Spec.Ports {
			if got := ports[p.TargetPort.StrVal]; got != p.Port {
				t.Errorf("%s: Service %s, port %s: want %d in the pod too, got %d", m.folder, s.Name, p.Name, p.Port, got)
			}
		}
	}
	for _, p := range m.budgets {
		selector, err := metav1.LabelSelectorAsSelector(p.Spec.Selector)
		if err != nil || selected(selector) == nil {
			t.Errorf("%s: PodDisruptionBudget %s: want pods, got none (%v)", m.folder, p.Name, err)
		}
	}
	for _, set := range m.sets {
		selector, err := metav1.LabelSelectorAsSelector(set.selector)
		if err != nil || !selector.Matches(labels.Set(set.labels)) {
			t.Errorf("%s: %s: want its own pods selected, got %v, %v", m.folder, set.name, selector, err)
		}
		if set.serviceName == "" {
			continue
		}
		if !slices.ContainsFunc(m.services, func(s *v1.Service) bool { return s.Name == set.serviceName && s.Spec.ClusterIP == "None" }) {
			t.Errorf("%s: %s: want a headless Service %s, got none", m.folder, set.name, set.serviceName)
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
	sets := []set{{name: "the static pod", pod: staticPod(t)}}
	for _, folder := range folders {
		sets = append(sets, read(t, folder).sets...)
	}
	for _, set := range sets {
		c := set.pod.Containers[0]
		for _, arg := range c.Args[1:] {
			name, value, _ := strings.Cut(strings.TrimPrefix(arg, "--"), "=")
			if !known[name] {
				t.Errorf("%s: want a flag, got %s", set.name, arg)
			}
			mounted := slices.ContainsFunc(c.VolumeMounts, func(m v1.VolumeMount) bool {
				return value == m.MountPath || strings.HasPrefix(value, m.MountPath+"/")
			})
			if strings.HasPrefix(value, "/") && !mounted {
				t.Errorf("%s: %s: want a mounted file, got none of that folder", set.name, arg)
			}
			if name == "etcd-endpoints" || strings.HasPrefix(value, "127.0.0.1:") {
				continue // somebody else's ports, or nobody's but the pod's
			}
			for _, m := range regexp.MustCompile(`:(\d{4})$`).FindAllStringSubmatch(value, -1) {
				if !slices.ContainsFunc(c.Ports, func(p v1.ContainerPort) bool { return strings.Contains(m[1], portText(p)) }) {
					t.Errorf("%s: %s: want a port of the container, got %v", set.name, arg, c.Ports)
				}
			}
		}
	}
}

// staticPod is the one in kube-scheduler's place.
func staticPod(t *testing.T) v1.PodSpec {
	t.Helper()
	text, err := os.ReadFile("static-pod/kube-scheduler.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var pod v1.Pod
	if err := yaml.UnmarshalStrict(text, &pod); err != nil {
		t.Fatal(err)
	}
	return pod.Spec
}

// TestMemoryLimitsFit holds the limit of every pod to its request, and a worker's to twice what it keeps: the rest
// is for what is on its way, and Go's runtime is told of nine tenths.
func TestMemoryLimitsFit(t *testing.T) {
	for _, folder := range folders {
		for _, set := range read(t, folder).sets {
			c := set.pod.Containers[0]
			limit, request := c.Resources.Limits.Memory().Value(), c.Resources.Requests.Memory().Value()
			if limit == 0 || request == 0 || request > limit {
				t.Errorf("%s: %s: want a memory limit above the request, got %d and %d", folder, set.name, limit, request)
			}
			for _, arg := range c.Args {
				if text, ok := strings.CutPrefix(arg, "--cache-bytes="); ok {
					if kept, err := strconv.ParseInt(text, 10, 64); err != nil || 2*kept > limit {
						t.Errorf("%s: %s: %s: want half of the limit %d at the most, got %d, %v", folder, set.name, arg, limit, kept, err)
					}
				}
			}
		}
	}
}

// TestOnlyCoordinatorsHaveAToken holds pods to no token, but for coordinators in kube-scheduler's place and shadows beside it.
func TestOnlyCoordinatorsHaveAToken(t *testing.T) {
	for _, folder := range folders {
		m := read(t, folder)
		for _, set := range m.sets {
			want := set.name == "shardsched-coordinator" && folder != "kustomize/base" || folder == "kustomize/shadow"
			if got := set.pod.AutomountServiceAccountToken; got == nil || *got != want {
				t.Errorf("%s: %s: automountServiceAccountToken is %v, want %v", folder, set.name, got, want)
			}
			if got := set.pod.ServiceAccountName != ""; got != want {
				t.Errorf("%s: %s has the account %q, want one only where there is a token", folder, set.name, set.pod.ServiceAccountName)
			}
		}
	}
}

// TestTheStaticPodSeesItsFilesOnly holds what it mounts of the node to the files that its flags name.
func TestTheStaticPodSeesItsFilesOnly(t *testing.T) {
	pod := staticPod(t)
	named := map[string]bool{}
	for _, arg := range pod.Containers[0].Args {
		if flag, value, _ := strings.Cut(arg, "="); strings.HasPrefix(value, "/") && flag != "--data-dir" {
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

// TestPodsOutrankSpreadAndAreProbed holds all pods to what README.md says under "What is set".
func TestPodsOutrankSpreadAndAreProbed(t *testing.T) {
	for _, folder := range folders {
		m := read(t, folder)
		for _, set := range m.sets {
			want := "system-cluster-critical"
			if folder == "kustomize/shadow" {
				want = ""
			}
			if got := set.pod.PriorityClassName; got != want {
				t.Errorf("%s: %s: the priority class is %q, want %q", folder, set.name, got, want)
			}
			var over []string
			for _, c := range set.pod.TopologySpreadConstraints {
				selector, err := metav1.LabelSelectorAsSelector(c.LabelSelector)
				if err != nil || !selector.Matches(labels.Set(set.labels)) || c.WhenUnsatisfiable != v1.ScheduleAnyway {
					t.Errorf("%s: %s: want its own pods spread where there is room, got %v, %v", folder, set.name, c, err)
				}
				over = append(over, c.TopologyKey)
			}
			if want := []string{v1.LabelTopologyZone, v1.LabelHostname}; !slices.Equal(over, want) {
				t.Errorf("%s: %s: spread over %q, want %q", folder, set.name, over, want)
			}
			c := set.pod.Containers[0]
			if !slices.Contains(c.Args, "--logging-format=json") {
				t.Errorf("%s: %s: want a log in JSON, got %q", folder, set.name, c.Args)
			}
			for path, p := range map[string]*v1.Probe{"/livez": c.LivenessProbe, "/readyz": c.ReadinessProbe} {
				if p == nil || p.HTTPGet == nil || p.HTTPGet.Path != path || p.HTTPGet.Port.StrVal != "health" {
					t.Errorf("%s: %s: want a probe of %s at the port health, got %v", folder, set.name, path, p)
				}
			}
		}
		for _, b := range m.budgets {
			if b.Spec.MaxUnavailable.IntValue() != 1 || *b.Spec.UnhealthyPodEvictionPolicy != policyv1.AlwaysAllow {
				t.Errorf("%s: %s: want one pod at a time, and those that are not ready always, got %v", folder, b.Name, b.Spec)
			}
		}
	}
}

// TestTheStaticPodMayLittle holds it to what can be had beside the host's network and one file, for which no profile of pod security is made.
func TestTheStaticPodMayLittle(t *testing.T) {
	pod := staticPod(t)
	c, s := pod.Containers[0].SecurityContext, pod.SecurityContext
	if len(pod.Containers) != 1 || len(pod.InitContainers) != 0 || pod.HostPID || pod.HostIPC {
		t.Error("want one container, without the host's processes, got others")
	}
	if s.RunAsNonRoot == nil || !*s.RunAsNonRoot || s.RunAsUser == nil || *s.RunAsUser == 0 || s.RunAsGroup == nil || *s.RunAsGroup == 0 ||
		c.RunAsUser != nil || c.RunAsNonRoot != nil {
		t.Errorf("want a user and a group other than root's for the pod, got %v, and of the container %v", s, c)
	}
	if s.SeccompProfile == nil || s.SeccompProfile.Type != v1.SeccompProfileTypeRuntimeDefault {
		t.Errorf("want the runtime's seccomp profile, got %v", s.SeccompProfile)
	}
	if c.AllowPrivilegeEscalation == nil || *c.AllowPrivilegeEscalation || c.ReadOnlyRootFilesystem == nil || !*c.ReadOnlyRootFilesystem ||
		c.Privileged != nil || c.Capabilities == nil || !slices.Equal(c.Capabilities.Drop, []v1.Capability{"ALL"}) || len(c.Capabilities.Add) > 0 {
		t.Errorf("want no privilege, no capability and a root that can't be written, got %v", c)
	}
}

// TestTheAccountHasKubeSchedulersRoles holds the bindings to the roles that every API server makes for
// kube-scheduler, and to one account.
func TestTheAccountHasKubeSchedulersRoles(t *testing.T) {
	for _, folder := range folders[1:3] {
		m := read(t, folder)
		if len(m.accounts) != 1 || m.accounts[0].Name != "shardsched" || m.accounts[0].Namespace != "shardsched" {
			t.Errorf("%s: want the account shardsched/shardsched, got %v", folder, m.accounts)
		}
		var roles []string
		for _, b := range m.bindings {
			if len(b.Subjects) != 1 || b.Subjects[0].Name != "shardsched" || b.Subjects[0].Namespace != "shardsched" {
				t.Errorf("%s: %s: want the account shardsched/shardsched, got %v", folder, b.Name, b.Subjects)
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
			t.Errorf("%s: roles: want %q, got %q", folder, want, roles)
		}
	}
	if m := read(t, folders[0]); len(m.bindings)+len(m.roles)+len(m.accounts) > 0 {
		t.Errorf("%s: want no rights in the cluster, got some", folders[0])
	}
}

// TestAShadowListsAndWatches holds a shadow's only role to the kinds that a source watches, and to these two verbs.
func TestAShadowListsAndWatches(t *testing.T) {
	m := read(t, "kustomize/shadow")
	if len(m.roles) != 1 || len(m.bindings) != 1 || len(m.accounts) != 1 {
		t.Fatalf("want a role, a binding and an account, got %d, %d and %d", len(m.roles), len(m.bindings), len(m.accounts))
	}
	b, account := m.bindings[0], m.accounts[0]
	want := rbacv1.Subject{Kind: "ServiceAccount", Name: account.Name, Namespace: account.Namespace}
	if b.RoleRef.Name != m.roles[0].Name || b.RoleRef.Kind != "ClusterRole" || !slices.Equal(b.Subjects, []rbacv1.Subject{want}) ||
		m.sets[0].pod.ServiceAccountName != account.Name {
		t.Errorf("want the pod's account bound to the role, got %v", b)
	}
	got := map[schema.GroupResource]bool{}
	for _, rule := range m.roles[0].Rules {
		if !slices.Equal(rule.Verbs, []string{"list", "watch"}) || len(rule.ResourceNames)+len(rule.NonResourceURLs) > 0 {
			t.Errorf("want list and watch, got %v", rule)
		}
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				got[schema.GroupResource{Group: group, Resource: resource}] = true
			}
		}
	}
	for _, k := range kube.Kinds(false) {
		resource := k.GroupVersion().WithResource(k.Plural()).GroupResource()
		if !got[resource] {
			t.Errorf("want %v granted", resource)
		}
		delete(got, resource)
	}
	if len(got) > 0 {
		t.Errorf("granted, and not watched: %v", got)
	}
}

// TestReadersMayReadTheClientAPI holds the roles of who looks to the service's name and the console's paths, and to reads.
func TestReadersMayReadTheClientAPI(t *testing.T) {
	got := map[string][]rbacv1.PolicyRule{}
	for _, role := range read(t, "kustomize/kubernetes").roles {
		got[role.Name] = role.Rules
	}
	want := map[string][]rbacv1.PolicyRule{
		"shardsched-reader":         {{NonResourceURLs: []string{"/" + pb.SchedulerService_ServiceDesc.ServiceName + "/*"}, Verbs: []string{"get"}}},
		"shardsched-console-viewer": {{NonResourceURLs: []string{"/console", "/console/*"}, Verbs: []string{"get"}}},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got the roles %v, want %v", got, want)
	}
}

func portText(p v1.ContainerPort) string {
	text, _ := json.Marshal(p.ContainerPort)
	return string(text)
}

func TestTheConfigurationLoads(t *testing.T) {
	for _, folder := range folders {
		c, err := config.Load(filepath.Join(folder, "kube-scheduler.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		without := c.NoEffectInKubernetes()
		if folder == "kustomize/base" {
			without = c.NoEffect()
		}
		if len(without) > 0 {
			t.Errorf("%s: no effect: want nothing, got %q", folder, without)
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
