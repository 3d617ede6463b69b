package process

import (
	"fmt"
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

// CPU is what the process has used so far, in user mode and in the kernel.
func (p *Process) CPU() (time.Duration, error) {
	const scheduled = 2 // the process's clock of what it ran, in the kernel's encoding of clock IDs
	var at unix.Timespec
	if err := unix.ClockGettime(int32(^p.PID()<<3|scheduled), &at); err != nil {
		return 0, fmt.Errorf("CPU time of %s: %w", p.Name, err)
	}
	return time.Duration(at.Nano()), nil
}
