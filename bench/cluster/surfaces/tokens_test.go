package surfaces

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	v1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/shardsched/shardsched/bench/cluster/controlplane/testbed"
)

// tokens asks the client API with tokens of service accounts: of one that the role of deploy/ is bound to, of one without
// it, and with what is no token.
func (r *rig) tokens(t *testing.T) {
	var role rbacv1.ClusterRole
	text, err := os.ReadFile("../../../deploy/kustomize/kubernetes/reader.yaml")
	if err == nil {
		err = yaml.UnmarshalStrict(text, &role)
	}
	if err != nil {
		t.Fatal(err)
	}
	rbac := r.Admin.RbacV1()
	if _, err := rbac.ClusterRoles().Create(t.Context(), &role, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := rbac.ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: role.Name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: "reader", Namespace: "default"}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	serverTLS(t, dir)
	p := r.Coordinator(testbed.Scheduler{
		Name: "guarded", Cluster: "guarded", Config: "leaderElection: {leaderElect: false}\nprofiles: [{schedulerName: guarded}]",
		Args: []string{"--tls-cert-file=" + dir + "/server.crt", "--tls-private-key-file=" + dir + "/server.key", "--tls-ca-file=" + dir + "/ca.crt"},
	})
	for _, test := range []struct{ name, token, args, want string }{
		{"a reader's", r.accountToken(t, "reader"), "get workers", "No workers"},
		{"to delete with", r.accountToken(t, "writer"), "delete pod ours", "may not delete the path"},
		{"a stranger's", r.accountToken(t, "stranger"), "get workers", `user "system:serviceaccount:default:stranger" may not get the path "/shardsched.v1.SchedulerService/ListWorkers"`},
		{"garbage", "garbage", "get workers", "the API server does not take the token"},
	} {
		file := filepath.Join(dir, "token")
		if err := os.WriteFile(file, []byte(test.token), 0o600); err != nil {
			t.Fatal(err)
		}
		args := append(strings.Fields(test.args), "--address="+p.Listen, "--tls-ca-file="+dir+"/ca.crt", "--token-file="+file)
		if out, _ := r.shardsched(t, args...); !strings.Contains(out, test.want) {
			t.Errorf("%s: want %q, got %s", test.name, test.want, out)
		}
	}
	if out, err := r.shardsched(t, "get", "workers", "--address="+p.Listen, "--token-file="+dir+"/token"); err == nil || !strings.Contains(out, "over TLS only") {
		t.Errorf("without TLS: want a refusal, got %v: %s", err, out)
	}
}

// accountToken makes a service account and a token of its own.
func (r *rig) accountToken(t *testing.T, name string) string {
	t.Helper()
	accounts := r.Admin.CoreV1().ServiceAccounts("default")
	if _, err := accounts.Create(t.Context(), &v1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	made, err := accounts.CreateToken(t.Context(), name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return made.Status.Token
}

// serverTLS writes an authority, and a coordinator's certificate and key.
func serverTLS(t *testing.T, dir string) {
	t.Helper()
	identity := &url.URL{Scheme: "spiffe", Host: "example.org", Path: "/shardsched/guarded/coordinator"}
	authority := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	server := &x509.Certificate{SerialNumber: big.NewInt(2), NotAfter: time.Now().Add(time.Hour), URIs: []*url.URL{identity}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	signer, key := newKey(t), newKey(t)
	write := func(name, kind string, der []byte, err error) {
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, authority, authority, signer.Public(), signer)
	write("ca.crt", "CERTIFICATE", der, err)
	der, err = x509.CreateCertificate(rand.Reader, server, authority, key.Public(), signer)
	write("server.crt", "CERTIFICATE", der, err)
	der, err = x509.MarshalECPrivateKey(key)
	write("server.key", "EC PRIVATE KEY", der, err)
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}
