package testbed

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/shardsched/shardsched/bench/internal/process"
)

// policy keeps what schedulers ask for and what anybody else writes, without bodies.
const policy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Metadata
  users: ["` + SchedulerUser + `", "` + CoordinatorUser + `"]
- level: None
  users: ["system:apiserver"]
- level: Metadata
  verbs: [create, update, patch, delete, deletecollection]
`

// startAPIServer starts the API server and makes kubeconfigs and clients.
func (b *Bed) startAPIServer(ctx context.Context) error {
	program, err := apiServer(ctx)
	if err != nil {
		return err
	}
	file, err := b.binary(ctx, program)
	if err != nil {
		return err
	}
	if err := os.WriteFile(b.path("audit-policy.yaml"), []byte(policy), 0o600); err != nil {
		return err
	}
	b.APIServer = &Server{group: b.group, name: "kube-apiserver", program: file, ready: b.apiServerReady}
	return startSomewhere(ctx, b.APIServer, b.apiServerArgs)
}

func (b *Bed) apiServerArgs(host, port string) []string {
	b.Admin = nil // of another port
	args := []string{
		"--etcd-servers=" + b.EtcdEndpoint(),
		"--bind-address=" + host, "--secure-port=" + port, "--advertise-address=" + host,
		"--tls-cert-file=" + b.creds.serverCertificate(), "--tls-private-key-file=" + b.creds.serverKey(),
		// Servers that ask it who their clients are want these to be published.
		"--client-ca-file=" + b.creds.authority(), "--requestheader-client-ca-file=" + b.creds.authority(),
		"--requestheader-allowed-names=front-proxy", "--requestheader-username-headers=X-Remote-User",
		"--requestheader-group-headers=X-Remote-Group", "--requestheader-extra-headers-prefix=X-Remote-Extra-",
		"--service-cluster-ip-range=10.0.0.0/24",
		// Loopback is no endpoint for the kubernetes service.
		"--endpoint-reconciler-type=none",
		"--token-auth-file=" + b.creds.tokens(),
		"--authorization-mode=RBAC",
		"--service-account-issuer=https://" + host + ":" + port,
		"--service-account-signing-key-file=" + b.creds.accountKey(),
		"--service-account-key-file=" + b.creds.accountKey(),
		// No controller makes the accounts that pods would need, takes the taint from nodes
		// that are new, or finalizes volumes.
		"--disable-admission-plugins=ServiceAccount,TaintNodesByCondition,StorageObjectInUseProtection",
		// The bed's clients are as many and as fast as a test wants.
		"--enable-priority-and-fairness=false", "--max-requests-inflight=0", "--max-mutating-requests-inflight=0",
		"--allow-privileged",
	}
	if !b.config.NoAudit {
		args = append(args, "--audit-policy-file="+b.path("audit-policy.yaml"), "--audit-log-path="+b.auditLog())
	}
	return append(args, b.config.APIServerArgs...)
}

// apiServerReady waits until the server says that it is ready, which is when its own
// roles and namespaces exist.
func (b *Bed) apiServerReady(ctx context.Context, p *process.Process) error {
	tick := time.NewTicker(readyPoll)
	defer tick.Stop()
	for {
		err := b.askAPIServer(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-p.Done():
			return fmt.Errorf("it ended: %w", p.Err())
		case <-ctx.Done():
			return fmt.Errorf("it is not ready: %w: %w", ctx.Err(), err)
		}
	}
}

// askAPIServer asks whether the server is ready.
func (b *Bed) askAPIServer(ctx context.Context) error {
	if err := b.makeClients(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	status := 0
	err := b.Admin.Discovery().RESTClient().Get().AbsPath("/readyz").Do(ctx).StatusCode(&status).Error()
	if err != nil || status != http.StatusOK {
		return fmt.Errorf("/readyz: status %d: %w", status, err)
	}
	// Two that it makes after it says so: servers beside it and tests want them.
	core := b.Admin.CoreV1()
	if _, err := core.Namespaces().Get(ctx, metav1.NamespaceDefault, metav1.GetOptions{}); err != nil {
		return err
	}
	_, err = core.ConfigMaps(metav1.NamespaceSystem).Get(ctx, "extension-apiserver-authentication", metav1.GetOptions{})
	return err
}

func (b *Bed) makeClients() (err error) {
	if b.Admin != nil {
		return nil
	}
	server := "https://" + b.APIServer.Address
	b.AdminKubeconfig, b.SchedulerKubeconfig = b.path("admin.kubeconfig"), b.path("scheduler.kubeconfig")
	if err := b.creds.kubeconfig(b.AdminKubeconfig, server, AdminUser, b.creds.adminToken); err != nil {
		return err
	}
	if err := b.creds.kubeconfig(b.SchedulerKubeconfig, server, SchedulerUser, b.creds.schedulerToken); err != nil {
		return err
	}
	b.CoordinatorKubeconfig, b.CoordinatorKubeconfigs = b.path("coordinator.kubeconfig"), nil
	if err := b.creds.kubeconfig(b.CoordinatorKubeconfig, server, CoordinatorUser, b.creds.coordinatorToken); err != nil {
		return err
	}
	for i, token := range b.creds.coordinatorTokens {
		file := b.path("credentials", CoordinatorUID(i)+".kubeconfig")
		if err := b.creds.kubeconfig(file, server, CoordinatorUser, token); err != nil {
			return err
		}
		b.CoordinatorKubeconfigs = append(b.CoordinatorKubeconfigs, file)
	}
	b.AdminREST, b.Admin, err = client(b.AdminKubeconfig)
	return err
}

// CoordinatorClient is a client that may do what coordinators may.
func (b *Bed) CoordinatorClient() (kubernetes.Interface, error) {
	_, k, err := client(b.CoordinatorKubeconfig)
	return k, err
}
