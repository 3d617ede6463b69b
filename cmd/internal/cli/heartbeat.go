package cli

import (
	"context"
	"io"
	"runtime/pprof"

	"k8s.io/klog/v2"

	"github.com/shardsched/shardsched/coordinator/observe"
)

// endIfHung ends the process when its scheduling loop hangs, for nothing else ends such a loop: its leases run out
// then, and a standby leads. The stacks tell where it was.
func endIfHung(ctx context.Context, h *observe.Heartbeat, stacks io.Writer, exit func(int)) error {
	if err := h.Watch(ctx); err != nil {
		klog.FromContext(ctx).Error(err, "The process ends, so that another leads")
		_ = pprof.Lookup("goroutine").WriteTo(stacks, 2)
		klog.Flush()
		exit(1)
	}
	return nil
}
