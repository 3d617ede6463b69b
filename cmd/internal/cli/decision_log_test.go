package cli

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"k8s.io/klog/v2"
)

// fullDisk is a decision log on a full disk.
type fullDisk struct{}

func (fullDisk) Flush() error { return errors.New("no space left on device") }

// A decision log that can't be written must not end the scheduler.
func TestADecisionLogOnAFullDiskEndsAlone(t *testing.T) {
	said := make(chan string, 10)
	ctx := klog.NewContext(t.Context(), funcr.New(func(_, args string) { said <- args }, funcr.Options{}))
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if err := flushEvery(ctx, fullDisk{}); err != nil || ctx.Err() != nil {
		t.Fatalf("got %v, %v, want it to end by itself without an error", err, ctx.Err())
	}
	if got := <-said; !strings.Contains(got, "no space left") {
		t.Errorf("log: got %q, want the cause", got)
	}
}
