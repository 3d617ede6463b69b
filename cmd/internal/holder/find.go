package holder

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/shardsched/shardsched/cmd/internal/client"
	"github.com/shardsched/shardsched/coordinator/kube"
)

// Finder finds who leads. One goroutine uses it.
type Finder struct {
	rest            *rest.Config
	client          kubernetes.Interface
	namespace, name string // of the Lease
	forward         *forward
}

// New makes a finder by a Lease. It connects to nothing yet.
func New(config *rest.Config, namespace, name string) (*Finder, error) {
	c, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("reach the API server: %w", err)
	}
	return &Finder{rest: config, client: c, namespace: namespace, name: name}, nil
}

// Close ends the port-forward, where there is one.
func (f *Finder) Close() {
	if f.forward != nil {
		f.forward.close()
		f.forward = nil
	}
}

// Find is an address at which the holder of the Lease serves clients. It is an error where nobody holds it at the moment; a
// client.FinalError where waiting does not help.
func (f *Finder) Find(ctx context.Context) (address string, err error) {
	at := f.namespace + "/" + f.name
	lease, err := f.client.CoordinationV1().Leases(f.namespace).Get(ctx, f.name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return "", final("there is no Lease %s: no scheduler has led there yet, or it elects its leader by another (--lease)", at)
	case err != nil:
		return "", final("read Lease %s: %w", at, err)
	}
	holder, access, err := kube.Holder(lease)
	switch {
	case err != nil:
		return "", final("%w", err)
	case holder == "":
		return "", fmt.Errorf("nobody holds Lease %s", at)
	case access.Address == "" && access.Pod == "":
		return "", final("shardsched %s serves clients on a socket of its own host: run this there", holder)
	case access.Address == "":
		namespace, pod, _ := strings.Cut(access.Pod, "/")
		return "", final("shardsched %s serves clients on a socket in its pod: kubectl exec -n %s %s -- shardsched …", holder, namespace, pod)
	case access.Pod == "":
		return access.Address, nil
	}
	return f.through(ctx, access)
}

// through is the local end of a port-forward to a pod.
func (f *Finder) through(ctx context.Context, access kube.ClientAccess) (string, error) {
	_, port, err := net.SplitHostPort(access.Address)
	if err != nil {
		return "", final("address of pod %s: %w", access.Pod, err)
	}
	if f.forward != nil && f.forward.to == access && f.forward.alive() {
		return f.forward.local, nil
	}
	f.Close()
	made, err := f.start(ctx, access, port)
	switch {
	case apierrors.IsForbidden(err):
		return "", final("port-forward to pod %s, where the leader is: %w", access.Pod, err)
	case err != nil:
		return "", fmt.Errorf("port-forward to pod %s, where the leader is: %w", access.Pod, err)
	}
	f.forward = made
	return made.local, nil
}

func final(format string, args ...any) error {
	return &client.FinalError{Err: fmt.Errorf(format, args...)}
}

var errEnded = errors.New("it ended at once")
