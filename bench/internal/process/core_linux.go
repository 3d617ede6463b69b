package process

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// Cores are those that this process may run on.
func Cores() ([]int, error) {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		return nil, fmt.Errorf("cores of this process: %w", err)
	}
	var out []int
	for core := 0; len(out) < set.Count(); core++ {
		if set.IsSet(core) {
			out = append(out, core)
		}
	}
	return out, nil
}

// onCore calls start with this thread on one core, which what it starts inherits.
func onCore(core int, start func() error) error {
	var before, one unix.CPUSet
	if err := unix.SchedGetaffinity(0, &before); err != nil {
		return err
	}
	one.Set(core)
	if err := unix.SchedSetaffinity(0, &one); err != nil {
		return fmt.Errorf("pin to core %d: %w", core, err)
	}
	err := start()
	if back := unix.SchedSetaffinity(0, &before); err == nil {
		err = back
	}
	return err
}

// Stay keeps this process on one core, and what it starts, until back lets it run where it did.
func Stay(core int) (back func() error, err error) {
	var before, one unix.CPUSet
	if err := unix.SchedGetaffinity(0, &before); err != nil {
		return nil, err
	}
	one.Set(core)
	return func() error { return keep(before) }, keep(one)
}

// keep has all threads of this process run on some cores. A new thread has the cores of the one that starts it, so that
// the threads are gone through until there is no new one.
func keep(cores unix.CPUSet) error {
	for seen := map[string]bool{}; ; {
		threads, err := os.ReadDir("/proc/self/task")
		if err != nil {
			return err
		}
		fresh := false
		for _, t := range threads {
			tid, err := strconv.Atoi(t.Name())
			if err != nil || seen[t.Name()] {
				continue
			}
			if err := unix.SchedSetaffinity(tid, &cores); err != nil && !errors.Is(err, unix.ESRCH) {
				return fmt.Errorf("cores of thread %d: %w", tid, err)
			}
			seen[t.Name()], fresh = true, true
		}
		if !fresh {
			return nil
		}
	}
}

// CPU is what the process has used so far, in user mode and in the kernel.
func (p *Process) CPU() (time.Duration, error) {
	const scheduled = 2 // the process's clock of what it ran, in the kernel's encoding of clock IDs
	var at unix.Timespec
	if err := unix.ClockGettime(int32(^p.PID()<<3|scheduled), &at); err != nil {
		return 0, fmt.Errorf("CPU time of %s: %w", p.Name, err)
	}
	return time.Duration(at.Nano()), nil
}
