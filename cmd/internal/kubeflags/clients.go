package kubeflags

import (
	"fmt"
	"net"

	"k8s.io/apiserver/pkg/server"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	componentv1alpha1 "k8s.io/component-base/config/v1alpha1"
)

// REST is how the API server is reached: by --master and the kubeconfig, or as a pod of
// the cluster where there is neither.
func (f *Flags) REST(c componentv1alpha1.ClientConnectionConfiguration) (*rest.Config, error) {
	made, err := clientcmd.BuildConfigFromFlags(f.Master, c.Kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("reach the API server: %w", err)
	}
	made.DisableCompression = true
	made.AcceptContentTypes, made.ContentType = c.AcceptContentTypes, c.ContentType
	made.QPS, made.Burst = c.QPS, int(c.Burst)
	return made, nil
}

// HTTPS is what the secure endpoint is served with.
type HTTPS struct {
	Serving        *server.SecureServingInfo // nil: nothing is served
	Authentication server.AuthenticationInfo
	Authorization  server.AuthorizationInfo
}

// HTTPS opens the port, and asks the API server how clients prove who they are. Serving is nil
// where the port is 0.
func (f *Flags) HTTPS() (HTTPS, error) {
	var made HTTPS
	if err := f.Serving.MaybeDefaultWithSelfSignedCerts("localhost", nil, []net.IP{net.IPv4(127, 0, 0, 1)}); err != nil {
		return made, fmt.Errorf("certificate of the HTTPS endpoint: %w", err)
	}
	if err := f.Serving.ApplyTo(&made.Serving); err != nil {
		return made, fmt.Errorf("HTTPS endpoint: %w", err)
	}
	if made.Serving == nil {
		return made, nil
	}
	if err := f.Authentication.ApplyTo(&made.Authentication, made.Serving, nil); err != nil {
		return made, fmt.Errorf("authentication of the HTTPS endpoint: %w", err)
	}
	if err := f.Authorization.ApplyTo(&made.Authorization); err != nil {
		return made, fmt.Errorf("authorization of the HTTPS endpoint: %w", err)
	}
	return made, nil
}
