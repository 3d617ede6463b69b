//go:build !linux

package process

import "syscall"

// dieWithParent has no counterpart here: Group.Close ends the processes.
func dieWithParent() *syscall.SysProcAttr { return nil }
