package shadow

import (
	"time"

	"golang.org/x/sys/unix"
)

// threadID is the id of the thread that asks.
func threadID() int { return unix.Gettid() }

// threadTime is the processor time that a thread of this process has used.
func threadTime(id int) (time.Duration, bool) {
	// A thread's clock, as the kernel numbers it: the id inverted, then CPUCLOCK_PERTHREAD_MASK and CPUCLOCK_SCHED.
	const perThread, scheduled = 4, 2
	var at unix.Timespec
	if err := unix.ClockGettime(int32(^id)<<3|perThread|scheduled, &at); err != nil {
		return 0, false
	}
	return time.Duration(at.Nano()), true
}

// processTime is the processor time that this process has used.
func processTime() (time.Duration, bool) {
	var at unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &at); err != nil {
		return 0, false
	}
	return time.Duration(at.Nano()), true
}
