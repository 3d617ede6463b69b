package testbed

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	v1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
)

// rolesFile has the roles of CoordinatorUser, in the module of shardsched.
const rolesFile = "deploy/rbac/minimal.yaml"

// CoordinatorRoles are CoordinatorUser's account, its roles, and what binds them to it, under names of the bed's own: tests install
// what is deployed.
func CoordinatorRoles(ctx context.Context) (all []runtime.Object, err error) {
	module, err := oursProgram.module(ctx)
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile(filepath.Join(module, filepath.FromSlash(rolesFile)))
	if err != nil {
		return nil, err
	}
	text = bytes.ReplaceAll(text, []byte("name: shardsched-"), []byte("name: testbed-"))
	for _, doc := range bytes.Split(text, []byte("\n---\n")) {
		o, _, err := scheme.Codecs.UniversalDeserializer().Decode(doc, nil, nil)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", rolesFile, err)
		}
		all = append(all, o)
	}
	return all, nil
}

// grant gives CoordinatorUser its roles, and returns when the API server goes by them.
func (b *Bed) grant(ctx context.Context) error {
	roles, err := CoordinatorRoles(ctx)
	if err != nil {
		return err
	}
	rbac, how := b.Admin.RbacV1(), metav1.CreateOptions{}
	for _, o := range roles {
		switch o := o.(type) {
		case *v1.ServiceAccount: // a name is all that RBAC needs
		case *rbacv1.ClusterRole:
			_, err = rbac.ClusterRoles().Create(ctx, o, how)
		case *rbacv1.Role:
			_, err = rbac.Roles(o.Namespace).Create(ctx, o, how)
		case *rbacv1.ClusterRoleBinding:
			_, err = rbac.ClusterRoleBindings().Create(ctx, o, how)
		case *rbacv1.RoleBinding:
			_, err = rbac.RoleBindings(o.Namespace).Create(ctx, o, how)
		default:
			err = fmt.Errorf("%s: got a %T, want roles and bindings", rolesFile, o)
		}
		if err != nil && !apierrors.IsAlreadyExists(err) { // etcd's data may be a copy
			return err
		}
	}
	return b.awaitGrants(ctx, []authorizationv1.ResourceAttributes{
		{Verb: "watch", Resource: "pods"},
		{Verb: "update", Group: "coordination.k8s.io", Resource: "leases", Name: "kube-scheduler", Namespace: metav1.NamespaceSystem},
		{Verb: "get", Resource: "configmaps", Name: "extension-apiserver-authentication", Namespace: metav1.NamespaceSystem},
	})
}

// awaitGrants waits until CoordinatorUser may do all of it.
func (b *Bed) awaitGrants(ctx context.Context, all []authorizationv1.ResourceAttributes) error {
	tick := time.NewTicker(readyPoll)
	defer tick.Stop()
	for len(all) > 0 {
		review := &authorizationv1.SubjectAccessReview{}
		review.Spec = authorizationv1.SubjectAccessReviewSpec{User: CoordinatorUser, ResourceAttributes: &all[0]}
		answer, err := b.Admin.AuthorizationV1().SubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
		if err != nil {
			return err
		}
		if answer.Status.Allowed {
			all = all[1:]
			continue
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("%s may not yet %s %s: %w", CoordinatorUser, all[0].Verb, all[0].Resource, ctx.Err())
		}
	}
	return nil
}
