package framework

import (
	"io"
	"os"
	"testing"

	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/scheduler/metrics"
)

// TestMain drops upstream's log and registers its metrics, which it observes without asking.
func TestMain(m *testing.M) {
	klog.LogToStderr(false)
	klog.SetOutput(io.Discard)
	metrics.Register()
	os.Exit(m.Run())
}
