package process

import "syscall"

// dieWithParent ends a process with the one that started it, and keeps a terminal's
// interrupt from it: the parent says in which order processes end.
func dieWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
}
