//go:build !linux

package cli

import "os/exec"

// runLow runs a child. Its memory is bounded by GOMEMLIMIT alone.
func runLow(child *exec.Cmd, _ uint64) error { return child.Run() }
