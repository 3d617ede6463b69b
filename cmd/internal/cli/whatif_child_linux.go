package cli

import (
	"errors"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// runLow runs a child at the lowest priority, with so many bytes of memory: it ends where it takes more, where this process does, and
// before others where the machine runs out of memory.
func runLow(child *exec.Cmd, memory uint64) error {
	ended := make(chan error, 1)
	go func() {
		// A child inherits the priority of the thread that starts it, and ends with that: the thread is kept until then, and never used again.
		runtime.LockOSThread()
		child.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		if err := unix.Setpriority(unix.PRIO_PROCESS, 0, 19); err != nil {
			ended <- err
			return
		}
		if err := child.Start(); err != nil {
			ended <- err
			return
		}
		limit := unix.Rlimit{Cur: memory, Max: memory}
		err := unix.Prlimit(child.Process.Pid, unix.RLIMIT_DATA, &limit, nil)
		if err != nil {
			child.Process.Kill()
		}
		// It may not be allowed, as in a sandbox, and the limit holds without it.
		_ = os.WriteFile("/proc/"+strconv.Itoa(child.Process.Pid)+"/oom_score_adj", []byte("1000"), 0)
		ended <- errors.Join(err, child.Wait())
	}()
	return <-ended
}
