package surfaces

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/client-go/rest"
	"k8s.io/kubernetes/plugin/pkg/auth/authorizer/rbac/bootstrappolicy"
	"sigs.k8s.io/yaml"

	"github.com/shardsched/shardsched/coordinator/kube"
)

// TestTheAccountHasTheRolesOfKubeScheduler holds the roles that deploy/ gives its account to those that every API server gives
// kube-scheduler, and what they allow of dynamic resources to what is asked for.
func TestTheAccountHasTheRolesOfKubeScheduler(t *testing.T) {
	text, err := os.ReadFile("../../../deploy/kustomize/kubernetes/rbac.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, doc := range bytes.Split(text, []byte("\n---\n")) {
		var b rbacv1.RoleBinding // a ClusterRoleBinding has the same fields
		if err := yaml.Unmarshal(doc, &b); err != nil {
			t.Fatal(err)
		}
		if b.Kind != "ServiceAccount" {
			got = append(got, b.Kind+" of "+b.RoleRef.Kind+" "+b.RoleRef.Name+" "+b.Namespace)
		}
	}
	isScheduler := func(s rbacv1.Subject) bool { return s.Kind == rbacv1.UserKind && s.Name == user.KubeScheduler }
	var want []string
	for _, b := range bootstrappolicy.ClusterRoleBindings() {
		if slices.ContainsFunc(b.Subjects, isScheduler) {
			want = append(want, "ClusterRoleBinding of "+b.RoleRef.Kind+" "+b.RoleRef.Name+" ")
		}
	}
	for namespace, bindings := range bootstrappolicy.NamespaceRoleBindings() {
		for _, b := range bindings {
			if slices.ContainsFunc(b.Subjects, isScheduler) {
				want = append(want, "RoleBinding of "+b.RoleRef.Kind+" "+b.RoleRef.Name+" "+namespace)
			}
		}
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("roles: got %q, want %q", got, want)
	}

	// What informers ask for; and what the API server looks for by the way: devices in a claim's status.
	used := sets.New("list deviceclasses", "watch deviceclasses", "list resourceslices", "watch resourceslices",
		"list resourceclaims", "watch resourceclaims", "update resourceclaims/binding", "patch resourceclaims/binding")
	used.Insert(claimRequests(t)...)
	// What kube-scheduler has beside, and nobody here asks for.
	spare := sets.New("get deviceclasses", "get resourceslices", "patch resourceclaims",
		"get resourceclaims/status", "list resourceclaims/status", "watch resourceclaims/status", "update pods/status", "update pods/finalizers")
	allowed := sets.New[string]()
	for _, role := range bootstrappolicy.ClusterRoles() {
		if role.Name != user.KubeScheduler {
			continue
		}
		for _, rule := range role.Rules {
			for _, resource := range rule.Resources {
				if slices.Contains(rule.APIGroups, resourcev1.GroupName) || strings.HasPrefix(resource, "pods/") && resource != "pods/binding" {
					for _, verb := range rule.Verbs {
						allowed.Insert(verb + " " + resource)
					}
				}
			}
		}
	}
	if lacks := used.Difference(allowed); len(lacks) > 0 {
		t.Errorf("system:kube-scheduler lacks %q", sets.List(lacks))
	}
	if more := allowed.Difference(used.Union(spare)); len(more) > 0 {
		t.Errorf("system:kube-scheduler has %q, which are neither used nor known to be spare", sets.List(more))
	}
	if both := used.Intersection(spare); len(both) > 0 {
		t.Errorf("%q are used, and said to be spare", sets.List(both))
	}
}

// claimRequests has a claim written in every way, and returns what the API server is asked for, each as verb and resource.
func claimRequests(t *testing.T) (asked []string) {
	infos := request.RequestInfoFactory{APIPrefixes: sets.NewString("api", "apis"), GrouplessAPIPrefixes: sets.NewString("api")}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		info, err := infos.NewRequestInfo(r)
		if err != nil {
			t.Error(err)
			return
		}
		asked = append(asked, strings.TrimSuffix(info.Verb+" "+info.Resource+"/"+info.Subresource, "/"))
		w.Header().Set("Content-Type", "application/json")
		if info.Resource == "pods" {
			w.Write([]byte(`{"kind": "Pod", "apiVersion": "v1", "status": {"extendedResourceClaimStatus": {"resourceClaimName": "c"}}}`))
			return
		}
		w.Write([]byte(`{"kind": "ResourceClaim", "apiVersion": "resource.k8s.io/v1", "metadata": {"name": "c", "namespace": "ns"}}`))
	}))
	ctx := t.Context()
	clients, err := kube.NewClients(ctx, kube.ClientConfig{REST: &rest.Config{Host: server.URL}, QPS: -1})
	if err != nil {
		t.Fatal(err)
	}
	c := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c", UID: "c", ResourceVersion: "1"}}
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "p"}}
	w := kube.NewClaimWriter(kube.ClaimWriterConfig{Clients: clients})
	_, err = w.Get(ctx, "ns", "c")
	for _, call := range []func(){
		func() { _, err = w.Create(ctx, c) },
		func() { _, err = w.Update(ctx, c) },
		func() { _, err = w.UpdateStatus(ctx, c) },
		func() { err = w.Unreserve(ctx, c, p) },
		func() { err = w.Delete(ctx, c) },
		func() { err = w.TellPod(ctx, p, &v1.PodExtendedResourceClaimStatus{ResourceClaimName: "c"}) },
	} {
		if err != nil {
			t.Fatal(err)
		}
		call()
	}
	server.Close()
	if err != nil || len(asked) != 7 {
		t.Fatalf("got %v, and the requests %q; want seven", err, asked)
	}
	return asked
}
