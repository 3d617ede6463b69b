package kubeserving

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"k8s.io/apiserver/pkg/server"
	"k8s.io/klog/v2"
)

// shutdownTimeout is how long answers under way may take at the end.
const shutdownTimeout = 5 * time.Second

// Serve answers over HTTPS until ctx ends.
func Serve(ctx context.Context, info *server.SecureServingInfo, h http.Handler) error {
	stop := make(chan struct{})
	stopped, closed, err := info.Serve(h, shutdownTimeout, stop)
	if err != nil {
		close(stop)
		return fmt.Errorf("serve HTTPS: %w", err)
	}
	<-ctx.Done()
	close(stop)
	<-closed
	klog.FromContext(ctx).Info("The HTTPS endpoint has stopped listening")
	<-stopped
	return nil
}
