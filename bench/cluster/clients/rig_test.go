package clients

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	v1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/clientcmd"
	clientapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/yaml"

	"github.com/shardsched/shardsched/bench/cluster/controlplane/testbed"
)

// policy has the audit log tell all that service accounts ask for: these are the users of the client's commands. The bed's own
// marker is the administrator's.
const policy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Metadata
  userGroups: ["system:serviceaccounts"]
- level: Metadata
  resources: [{group: "", resources: [configmaps]}]
  verbs: [create, delete]
- level: None
`

// rig is a control plane whose audit log tells of the client's users.
type rig struct {
	*testbed.Cluster
	program string
}

func newRig(t *testing.T) *rig {
	t.Helper()
	file := filepath.Join(t.TempDir(), "policy.yaml")
	if err := os.WriteFile(file, []byte(policy), 0o600); err != nil {
		t.Fatal(err)
	}
	r := &rig{Cluster: testbed.New(t, testbed.Config{APIServerArgs: []string{
		"--audit-policy-file=" + file, "--runtime-config=scheduling.k8s.io/v1alpha2=true", "--feature-gates=GenericWorkload=true",
	}})}
	program, err := r.Shardsched(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	r.program = program
	return r
}

// with is the same rig for a subtest, which leaves neither its objects nor a leader's Lease behind.
func (r *rig) with(t *testing.T) *rig {
	sub := &rig{Cluster: r.Cluster.With(t), program: r.program}
	t.Cleanup(func() { // schedulers have ended
		err := r.Admin.CoordinationV1().Leases(metav1.NamespaceSystem).Delete(r.Context(), "kube-scheduler", metav1.DeleteOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			t.Error(err)
		}
	})
	return sub
}

// outcome is what a command has come to.
type outcome struct {
	out, told string
	code      int
}

// run runs the program as a person does, without an address of a coordinator in the environment.
func (r *rig) run(t *testing.T, args ...string) outcome {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testbed.Patience)
	defer cancel()
	c := exec.CommandContext(ctx, r.program, args...)
	c.Env = []string{"HOME=" + t.TempDir(), "PATH=" + os.Getenv("PATH")}
	var out, told bytes.Buffer
	c.Stdout, c.Stderr = &out, &told
	err := c.Run()
	if failed := (*exec.ExitError)(nil); err != nil && !errors.As(err, &failed) {
		t.Fatalf("%q: %v", args, err)
	}
	return outcome{out.String(), told.String(), c.ProcessState.ExitCode()}
}

// mustRun is run where nothing may go wrong.
func (r *rig) mustRun(t *testing.T, args ...string) outcome {
	t.Helper()
	got := r.run(t, args...)
	if got.code != 0 {
		t.Fatalf("%q: got exit code %d: %s", args, got.code, got.told)
	}
	return got
}

// user makes a service account with the rules as its only rights, and returns its kubeconfig.
func (r *rig) user(t *testing.T, name string, rules ...rbacv1.PolicyRule) (kubeconfig string) {
	t.Helper()
	ctx, here := t.Context(), metav1.NamespaceDefault
	_, err := r.Admin.CoreV1().ServiceAccounts(here).Create(ctx, &v1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	r.allow(t, name, rules...)
	made, err := r.Admin.CoreV1().ServiceAccounts(here).CreateToken(ctx, name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.LoadFromFile(r.AdminKubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	config.AuthInfos = map[string]*clientapi.AuthInfo{name: {Token: made.Status.Token}}
	config.Contexts[config.CurrentContext].AuthInfo = name
	kubeconfig = filepath.Join(t.TempDir(), name+".kubeconfig")
	if err := clientcmd.WriteToFile(*config, kubeconfig); err != nil {
		t.Fatal(err)
	}
	return kubeconfig
}

// allow gives a user the rules, and no others, in all namespaces.
func (r *rig) allow(t *testing.T, user string, rules ...rbacv1.PolicyRule) {
	t.Helper()
	ctx, rbac := t.Context(), r.Admin.RbacV1()
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: user}, Rules: rules}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: user}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: user},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: user, Namespace: metav1.NamespaceDefault}},
	}
	_, err := rbac.ClusterRoles().Create(ctx, role, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		_, err = rbac.ClusterRoles().Update(ctx, role, metav1.UpdateOptions{})
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := rbac.ClusterRoleBindings().Create(ctx, binding, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
	for _, rule := range rules {
		r.granted(t, user, rule)
	}
}

// granted waits until the API server goes by a rule: it hears of roles and of bindings a moment after they are written.
func (r *rig) granted(t *testing.T, user string, rule rbacv1.PolicyRule) {
	t.Helper()
	resource, subresource, _ := strings.Cut(rule.Resources[0], "/")
	asks := authorizationv1.ResourceAttributes{Verb: rule.Verbs[0], Group: rule.APIGroups[0], Resource: resource, Subresource: subresource}
	if len(rule.ResourceNames) > 0 {
		asks.Name = rule.ResourceNames[0]
	}
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: "system:serviceaccount:" + metav1.NamespaceDefault + ":" + user, ResourceAttributes: &asks,
	}}
	err := wait.PollUntilContextCancel(r.Context(), 20*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		answer, err := r.Admin.AuthorizationV1().SubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
		return err == nil && answer.Status.Allowed, err
	})
	if err != nil {
		t.Fatalf("%s may not yet %s %s: %v", user, rule.Verbs[0], rule.Resources[0], err)
	}
}

// listed are the resources that docs/operations.md has a user of snapshot list: those of all kinds that have a say.
func listed(t *testing.T) (all []schema.GroupResource) {
	t.Helper()
	text, err := os.ReadFile("../../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`(?m)^    kubectl create clusterrole shardsched-snapshot --verb=list --resource=(\S+)$`).FindSubmatch(text)
	if found == nil {
		t.Fatal("docs/operations.md has no command that makes the ClusterRole shardsched-snapshot")
	}
	for word := range strings.SplitSeq(string(found[1]), ",") {
		all = append(all, schema.ParseGroupResource(word))
	}
	return all
}

// mayList are the rules of a ClusterRole that the page's command makes.
func mayList(all []schema.GroupResource) (rules []rbacv1.PolicyRule) {
	for _, x := range all {
		rules = append(rules, rule(x.Group, x.Resource, "list"))
	}
	return rules
}

func rule(group, resource string, verbs ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: []string{resource}, Verbs: verbs}
}

// createFile creates the objects of a file as kubectl does.
func (r *rig) createFile(t *testing.T, file string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	client, err := dynamic.NewForConfig(r.AdminREST)
	if err != nil {
		t.Fatal(err)
	}
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(r.Admin.Discovery()))
	for document := range strings.SplitSeq(string(text), "\n---\n") {
		obj := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(document), &obj.Object); err != nil {
			t.Fatal(err)
		}
		kind := obj.GroupVersionKind()
		m, err := mapper.RESTMapping(kind.GroupKind(), kind.Version)
		if err != nil {
			t.Fatal(err)
		}
		resource := client.Resource(m.Resource)
		create := resource.Create
		if obj.GetNamespace() != "" {
			create = resource.Namespace(obj.GetNamespace()).Create
		}
		if _, err := create(t.Context(), obj, metav1.CreateOptions{}); err != nil {
			t.Fatalf("create %s %s: %v", kind.Kind, obj.GetName(), err)
		}
	}
}
