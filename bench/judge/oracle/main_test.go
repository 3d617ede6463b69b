package oracle

import (
	"io"
	"os"
	"testing"

	"k8s.io/klog/v2"
)

// TestMain drops upstream's log, which goes past the logger that it is given.
func TestMain(m *testing.M) {
	klog.LogToStderr(false)
	klog.SetOutput(io.Discard)
	os.Exit(m.Run())
}
