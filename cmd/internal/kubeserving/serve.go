package kubeserving

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"k8s.io/apiserver/pkg/server"
	"k8s.io/klog/v2"

	"github.com/shardsched/shardsched/cmd/internal/serving"
)

// shutdownTimeout is how long answers under way may take at the end.
const shutdownTimeout = 5 * time.Second

// Serve answers over HTTPS until ctx ends.
//
// Differs from upstream: of 64 connections the oldest ends for one that comes, so that whoever opens many keeps
// nobody out and fills no memory. Handshakes and headers have 32 s, and 1 MiB, as upstream.
func Serve(ctx context.Context, info *server.SecureServingInfo, h http.Handler) error {
	bounded := *info
	bounded.Listener = serving.Newest(info.Listener)
	stop := make(chan struct{})
	stopped, closed, err := bounded.Serve(h, shutdownTimeout, stop)
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
