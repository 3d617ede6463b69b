package cli

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
)

func TestPlainLog(t *testing.T) {
	var out strings.Builder
	log := logr.New(&plainLog{out: &lockedWriter{out: &out}, now: func() time.Time { return time.Date(2026, 1, 2, 15, 4, 5, 0, time.UTC) }})
	log = log.WithValues("term", 5).WithName("x")
	log.Info("Became leader", "id", "a", "after", "nobody")
	log.Info("Preempted", "victims", "shop/a", "leftOut", 0)
	log.Info("Preempted", "victims", "shop/b", "leftOut", 7)
	log.V(1).Info("Not told")
	log.Error(errors.New("it is gone\x1b[2J\nnow"), "Watch breaks")
	log.Info("Alone")
	log.Info("A call", "identity", "", "objects", 2)
	want := `15:04:05 Became leader: id a, after nobody
15:04:05 Preempted: victims shop/a
15:04:05 Preempted: victims shop/b, leftOut 7
15:04:05 Watch breaks: error it is gone [2J now
15:04:05 Alone
15:04:05 A call: objects 2
`
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
	}
}

// Whoever logs by the context of `up` logs to its standard error.
func TestUpLogsPlainly(t *testing.T) {
	var out strings.Builder
	ctx := withPlainLog(context.Background(), &out)
	klog.FromContext(ctx).Info("Worker left", "worker", "w-1")
	if _, line, _ := strings.Cut(out.String(), " "); line != "Worker left: worker w-1\n" {
		t.Errorf("got %q, want the time and a plain line", out.String())
	}
}
