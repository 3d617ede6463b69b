package testbed

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientapi "k8s.io/client-go/tools/clientcmd/api"
)

// SchedulerUser is whom schedulers act as. Upstream's bootstrap policy binds it to the
// cluster roles system:kube-scheduler and system:volume-scheduler, and in kube-system to
// the roles for its lease and for reading how clients are authenticated.
const SchedulerUser = "system:kube-scheduler"

// CoordinatorUser is the service account whom coordinators act as. It has the roles of deploy/rbac/minimal.yaml: what a
// coordinator asks for, and nothing else.
const CoordinatorUser = "system:serviceaccount:shardsched:shardsched"

// IsScheduler tells whether a user of the API server is a scheduler: upstream's or ours.
func IsScheduler(user string) bool { return user == SchedulerUser || user == CoordinatorUser }

// AdminUser may do everything.
const AdminUser = "admin"

// credentials are the files of an API server's keys and users.
type credentials struct {
	dir                        string
	adminToken, schedulerToken string
	coordinatorToken           string
	coordinatorTokens          []string // besides
}

// CoordinatorUID is the UID of the coordinator's user with one of the tokens besides.
func CoordinatorUID(i int) string { return fmt.Sprintf("coordinator-%d", i) }

func newCredentials(dir string, besides int) (credentials, error) {
	c := credentials{dir: dir, adminToken: rand.Text(), schedulerToken: rand.Text(), coordinatorToken: rand.Text()}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return c, err
	}
	users := fmt.Sprintf("%s,%s,%s,system:masters\n%s,%s,%s\n%s,%s,%s\n",
		c.adminToken, AdminUser, AdminUser, c.schedulerToken, SchedulerUser, SchedulerUser,
		c.coordinatorToken, CoordinatorUser, CoordinatorUser)
	for i := range besides {
		token := rand.Text()
		c.coordinatorTokens = append(c.coordinatorTokens, token)
		users += fmt.Sprintf("%s,%s,%s\n", token, CoordinatorUser, CoordinatorUID(i))
	}
	if err := os.WriteFile(c.tokens(), []byte(users), 0o600); err != nil {
		return c, err
	}
	return c, c.writeKeys(time.Now())
}

// writeKeys makes the certificate authority, the server's certificate and the key that
// signs tokens of service accounts.
func (c credentials) writeKeys(now time.Time) error {
	template := x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "testbed"},
		NotBefore: now.Add(-time.Hour), NotAfter: now.AddDate(1, 0, 0),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	signer, err := writeKey(c.file("ca.key"))
	if err != nil {
		return err
	}
	authority := template
	if err := writeCertificate(c.authority(), &authority, &authority, signer, signer); err != nil {
		return err
	}
	server := template
	server.SerialNumber, server.Subject.CommonName = big.NewInt(2), "kube-apiserver"
	server.IsCA, server.KeyUsage = false, x509.KeyUsageDigitalSignature
	server.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	server.DNSNames, server.IPAddresses = []string{"localhost", "kubernetes.default.svc"}, []net.IP{net.ParseIP(loopback)}
	key, err := writeKey(c.serverKey())
	if err != nil {
		return err
	}
	if err := writeCertificate(c.serverCertificate(), &server, &authority, key, signer); err != nil {
		return err
	}
	_, err = writeKey(c.accountKey())
	return err
}

// writeKey makes a private key and writes it.
func writeKey(file string) (*ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, err
	}
	return key, os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), 0o600)
}

// writeCertificate writes the certificate of a key, signed by its issuer's.
func writeCertificate(file string, subject, issuer *x509.Certificate, key, signer *ecdsa.PrivateKey) error {
	der, err := x509.CreateCertificate(rand.Reader, subject, issuer, &key.PublicKey, signer)
	if err != nil {
		return fmt.Errorf("certificate %s: %w", file, err)
	}
	return os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600)
}

func (c credentials) file(name string) string { return filepath.Join(c.dir, name) }

// tokens is the file of the users.
func (c credentials) tokens() string { return c.file("tokens.csv") }

// accountKey is the file of the key that signs tokens of service accounts.
func (c credentials) accountKey() string { return c.file("service-account.key") }

// authority is the file of the certificate that all others are signed with.
func (c credentials) authority() string { return c.file("ca.crt") }

func (c credentials) serverCertificate() string { return c.file("server.crt") }

func (c credentials) serverKey() string { return c.file("server.key") }

// kubeconfig writes the kubeconfig of a user.
func (c credentials) kubeconfig(file, server, user, token string) error {
	authority, err := os.ReadFile(c.authority())
	if err != nil {
		return err
	}
	config := clientapi.NewConfig()
	config.Clusters["testbed"] = &clientapi.Cluster{Server: server, CertificateAuthorityData: authority}
	config.AuthInfos[user] = &clientapi.AuthInfo{Token: token}
	config.Contexts["testbed"] = &clientapi.Context{Cluster: "testbed", AuthInfo: user}
	config.CurrentContext = "testbed"
	return clientcmd.WriteToFile(*config, file)
}

// restConfig reads a kubeconfig for a client that speaks protobuf and is not limited.
func restConfig(kubeconfig string) (*rest.Config, error) {
	c, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, err
	}
	c.ContentType = runtime.ContentTypeProtobuf
	c.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	c.QPS = -1
	return c, nil
}

// client is the client of a kubeconfig.
func client(kubeconfig string) (*rest.Config, kubernetes.Interface, error) {
	c, err := restConfig(kubeconfig)
	if err != nil {
		return nil, nil, err
	}
	k, err := kubernetes.NewForConfig(c)
	return c, k, err
}
