package rbac

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"

	"github.com/shardsched/shardsched/bench/cluster/controlplane/testbed"
)

// what names a permission: "patch pods/status", "update leases.coordination.k8s.io kube-scheduler".
func what(verb, group, resource, subresource, name string) string {
	if subresource != "" {
		resource += "/" + subresource
	}
	if group != "" {
		resource += "." + group
	}
	return strings.TrimSpace(verb + " " + resource + " " + name)
}

// grants are the permissions of a role's rules.
func grants(rules []rbacv1.PolicyRule) sets.Set[string] {
	all := sets.New[string]()
	for _, rule := range rules {
		names := rule.ResourceNames
		if names == nil {
			names = []string{""}
		}
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				resource, subresource, _ := strings.Cut(resource, "/")
				for _, verb := range rule.Verbs {
					for _, name := range names {
						all.Insert(what(verb, group, resource, subresource, name))
					}
				}
			}
		}
	}
	return all
}

// granted are the permissions of the coordinator's own roles. That of Kubernetes for how clients prove who they are is left out.
func granted(t *testing.T) sets.Set[string] {
	t.Helper()
	roles, err := testbed.CoordinatorRoles(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	all := sets.New[string]()
	for _, o := range roles {
		switch o := o.(type) {
		case *rbacv1.ClusterRole:
			all = all.Union(grants(o.Rules))
		case *rbacv1.Role:
			all = all.Union(grants(o.Rules))
		}
	}
	return all
}

// used are the permissions that requests of coordinators needed, of the form that the roles have. A request for one object is counted
// by its name where roles tell names apart.
func used(events []auditv1.Event, granted sets.Set[string]) sets.Set[string] {
	all := sets.New[string]()
	for _, e := range events {
		r := e.ObjectRef
		if e.User.Username != testbed.CoordinatorUser || r == nil || r.Resource == "configmaps" && r.Name == "extension-apiserver-authentication" {
			continue
		}
		plain := what(e.Verb, r.APIGroup, r.Resource, r.Subresource, "")
		if named := what(e.Verb, r.APIGroup, r.Resource, r.Subresource, r.Name); granted.Has(named) && !granted.Has(plain) {
			plain = named
		}
		all.Insert(plain)
	}
	return all
}

// without takes permissions from the coordinator's ClusterRole, "update pods/finalizers" for one, and returns when the API server goes by
// that.
func (r *run) without(permissions ...string) {
	r.T.Helper()
	r.setRole(func(rules []rbacv1.PolicyRule) (left []rbacv1.PolicyRule) {
		for _, rule := range rules {
			for _, p := range permissions {
				verb, resource, _ := strings.Cut(p, " ")
				if slices.Equal(rule.Resources, []string{resource}) {
					rule.Verbs = slices.DeleteFunc(slices.Clone(rule.Verbs), func(v string) bool { return v == verb })
				}
			}
			if len(rule.Verbs) > 0 {
				left = append(left, rule)
			}
		}
		return left
	})
	for _, p := range permissions {
		r.awaitAllowed(p, false)
	}
}

// restore gives it all back.
func (r *run) restore(permissions ...string) {
	r.T.Helper()
	r.setRole(func(rules []rbacv1.PolicyRule) []rbacv1.PolicyRule { return rules })
	for _, p := range permissions {
		r.awaitAllowed(p, true)
	}
}

// setRole has the ClusterRole made of the rules of the file.
func (r *run) setRole(change func([]rbacv1.PolicyRule) []rbacv1.PolicyRule) {
	r.T.Helper()
	roles, err := testbed.CoordinatorRoles(r.T.Context())
	r.Must(err)
	for _, o := range roles {
		if role, ok := o.(*rbacv1.ClusterRole); ok {
			role.Rules = change(role.Rules)
			_, err := r.Admin.RbacV1().ClusterRoles().Update(r.Context(), role, metav1.UpdateOptions{})
			r.Must(err)
		}
	}
}

func (r *run) awaitAllowed(permission string, want bool) {
	r.T.Helper()
	verb, resource, _ := strings.Cut(permission, " ")
	attributes := &authorizationv1.ResourceAttributes{Verb: verb, Resource: resource}
	attributes.Resource, attributes.Subresource, _ = strings.Cut(resource, "/")
	if strings.HasPrefix(resource, "resourceclaims") {
		attributes.Group = "resource.k8s.io"
	}
	r.Await(fmt.Sprintf("%s is allowed: %t", permission, want), func(ctx context.Context) (string, bool) {
		review := &authorizationv1.SubjectAccessReview{
			Spec: authorizationv1.SubjectAccessReviewSpec{User: testbed.CoordinatorUser, ResourceAttributes: attributes},
		}
		answer, err := r.Admin.AuthorizationV1().SubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
		if err != nil {
			return err.Error(), false
		}
		return answer.Status.Reason, answer.Status.Allowed == want
	})
}
