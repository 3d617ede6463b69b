package chart

import (
	"slices"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
)

// TestMinimalRolesAreAloneAndNameTheLease has no role of kube-scheduler beside the minimal ones, and the Lease of the configuration.
func TestMinimalRolesAreAloneAndNameTheLease(t *testing.T) {
	for config, want := range map[string][2]string{
		"": {"kube-system", "kube-scheduler"},
		"config: 'leaderElection: {resourceName: shardsched, resourceNamespace: schedulers}'": {"schedulers", "shardsched"},
	} {
		var bound []string
		var lease [2]string
		for _, o := range render(t, "swap", "rbac: minimal\n"+config) {
			switch o.GetKind() {
			case "ClusterRoleBinding", "RoleBinding":
				bound = append(bound, into[rbacv1.RoleBinding](t, o).RoleRef.Name)
			case "Role":
				for _, rule := range into[rbacv1.Role](t, o).Rules {
					if len(rule.ResourceNames) > 0 {
						lease = [2]string{o.GetNamespace(), rule.ResourceNames[0]}
					}
				}
			}
		}
		slices.Sort(bound)
		roles := []string{"extension-apiserver-authentication-reader", "shardsched-coordinator", "shardsched-coordinator"}
		if !slices.Equal(bound, roles) || lease != want {
			t.Errorf("%q: got the roles %q and the Lease %q, want %q and %q", config, bound, lease, roles, want)
		}
	}
}
