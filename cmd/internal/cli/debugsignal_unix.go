//go:build unix

package cli

import (
	"os"
	"syscall"
)

// debugSignals ask a coordinator to compare and dump its caches, as they do kube-scheduler.
func debugSignals() []os.Signal { return []os.Signal{syscall.SIGUSR2} }
