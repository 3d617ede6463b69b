package cli

import (
	"context"
	"io/fs"
	"math"
	"path"
	"runtime/debug"
	"strconv"
	"strings"

	"k8s.io/klog/v2"
)

// memoryVariable is Go's own: where it is set it counts.
const memoryVariable = "GOMEMLIMIT"

// limitMemory has Go's runtime collect garbage before the memory reaches the limit of the process's control
// group, where the kernel would kill the process: a tenth is left for what the runtime does not count.
func limitMemory(ctx context.Context, env func(string) string, root fs.FS) {
	if env(memoryVariable) != "" {
		return
	}
	limit := memoryOfGroup(root)
	if limit == math.MaxInt64 {
		return
	}
	debug.SetMemoryLimit(limit - limit/10)
	klog.FromContext(ctx).Info("Go's memory limit is nine tenths of the control group's", "bytes", limit-limit/10, "group", limit)
}

// memoryOfGroup is the least memory.max of the process's control group (version 2) and those around it;
// math.MaxInt64 without any.
func memoryOfGroup(root fs.FS) int64 {
	least := int64(math.MaxInt64)
	text, err := fs.ReadFile(root, "proc/self/cgroup")
	if err != nil {
		return least
	}
	for line := range strings.Lines(string(text)) {
		group, ok := strings.CutPrefix(strings.TrimSpace(line), "0::/")
		if !ok {
			continue
		}
		for group = path.Clean(group); ; group = path.Dir(group) {
			if text, err := fs.ReadFile(root, path.Join("sys/fs/cgroup", group, "memory.max")); err == nil {
				if n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64); err == nil && n > 0 {
					least = min(least, n)
				}
			}
			if group == "." || group == ".." {
				break
			}
		}
	}
	return least
}
