package process

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// turnsCommand is the first argument of a program that is to call RunTurns, before those that it takes.
const turnsCommand = "take-turns"

// Turns are a share of a core for each of some processes that are on one core: a period has Slots slots, and the ith process
// runs in the ith slot of each, and stops in all others. A process of its own on the same core sees to it, by signals. It has to be
// on that core: a stop reaches a process by one of its threads, which runs only when the core looks for the next.
//
// Without processes, turns have the kernel look at a core's quotas (Quota) once in each slot. It does so by itself when the clock ticks
// only: with 250 ticks a second a busy process held to 1 ms of 8 stopped for 20 ms at a time, and for 111 ms at the most.
type Turns struct {
	Slots int
	Slot  time.Duration
	// Periods end the turns, after which all processes run; 0: they end when their process is killed, and whoever killed it
	// has to resume the others.
	Periods int
}

// Share is the part of a core that each process has.
func (t Turns) Share() float64 { return 1 / float64(t.Slots) }

// Period is how long it takes until the first has its turn again.
func (t Turns) Period() time.Duration { return time.Duration(t.Slots) * t.Slot }

// TakeTurns starts the turns of processes in a process on a core. The program is one that calls RunTurns, mostly the running one.
func (g *Group) TakeTurns(core int, program string, t Turns, of []*Process) (*Process, error) {
	if len(of) > t.Slots {
		return nil, fmt.Errorf("turns of %d processes, expected %d or fewer", len(of), t.Slots)
	}
	args := []string{turnsCommand, strconv.Itoa(t.Slots), t.Slot.String(), strconv.Itoa(t.Periods)}
	for _, p := range of {
		args = append(args, strconv.Itoa(p.PID()))
	}
	return g.StartOn(core, "turns", program, args...)
}

// RunTurns does what TakeTurns has started this process for, if it has.
func RunTurns(args []string) (asked bool, err error) {
	if len(args) == 0 || args[0] != turnsCommand {
		return false, nil
	}
	t, processes, err := parseTurns(args[1:])
	if err == nil {
		err = t.run(processes)
	}
	return true, err
}

func parseTurns(args []string) (t Turns, processes []*os.Process, err error) {
	if len(args) < 3 {
		return t, nil, fmt.Errorf("%s: %d arguments, expected slots, a slot's length, periods and process IDs", turnsCommand, len(args))
	}
	if t.Slots, err = strconv.Atoi(args[0]); err != nil || t.Slots < 1 {
		return t, nil, fmt.Errorf("%s: %q slots, expected 1 or more", turnsCommand, args[0])
	}
	if t.Slot, err = time.ParseDuration(args[1]); err != nil || t.Slot <= 0 {
		return t, nil, fmt.Errorf("%s: a slot of %q, expected a duration above 0", turnsCommand, args[1])
	}
	if t.Periods, err = strconv.Atoi(args[2]); err != nil || t.Periods < 0 {
		return t, nil, fmt.Errorf("%s: %q periods, expected 0 or more", turnsCommand, args[2])
	}
	if len(args)-3 > t.Slots {
		return t, nil, fmt.Errorf("%s: %d processes, expected %d or fewer", turnsCommand, len(args)-3, t.Slots)
	}
	for _, arg := range args[3:] {
		pid, err := strconv.Atoi(arg)
		if err != nil || pid < 2 {
			return t, nil, fmt.Errorf("%s: process %q, expected an ID", turnsCommand, arg)
		}
		p, err := os.FindProcess(pid) // a handle: no signal goes to another that gets the ID later
		if err != nil {
			return t, nil, fmt.Errorf("%s: process %d: %w", turnsCommand, pid, err)
		}
		processes = append(processes, p)
	}
	return t, processes, nil
}

// run goes by the clock: a slot that is over when this process gets to it is left out, whosever it is.
func (t Turns) run(processes []*os.Process) error {
	runtime.LockOSThread()
	atOnce()
	var began unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &began); err != nil {
		return fmt.Errorf("monotonic clock: %w", err)
	}
	for _, p := range processes {
		stop(p)
	}
	running := -1
	for slot := 0; t.Periods == 0 || slot < t.Periods*t.Slots; slot++ {
		next := slot % t.Slots
		if running >= 0 && running != next {
			stop(processes[running])
			running = -1
		}
		if next < len(processes) && running < 0 {
			resume(processes[next])
			running = next
		} else if next >= len(processes) {
			slot += t.Slots - next - 1 // nobody has the rest of the period
		}
		at, err := sleepUntil(began.Nano() + int64(slot+1)*t.Slot.Nanoseconds())
		if err != nil {
			return err
		}
		slot = max(slot, int((at-began.Nano())/t.Slot.Nanoseconds())-1)
	}
	for _, p := range processes {
		resume(p)
	}
	return nil
}

// stop and resume do nothing to a process that is gone.
func stop(p *os.Process)   { _ = p.Signal(unix.SIGSTOP) }
func resume(p *os.Process) { _ = p.Signal(unix.SIGCONT) }

// atOnce has this thread run when its time comes, whoever else is on its core. Where that is not allowed, it runs soon.
func atOnce() {
	const slackNanoseconds, lowest = 1, 1
	_ = unix.Prctl(unix.PR_SET_TIMERSLACK, slackNanoseconds, 0, 0, 0)
	_ = unix.SchedSetAttr(0, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_FIFO, Priority: lowest}, 0)
}

// sleepUntil returns the monotonic time, which is the one wanted or later. A timer of Go's may be a millisecond late.
func sleepUntil(nanoseconds int64) (int64, error) {
	until := unix.NsecToTimespec(nanoseconds)
	for {
		// The runtime is not told that this blocks. Otherwise it would look for other goroutines every time.
		_, _, errno := unix.RawSyscall6(unix.SYS_CLOCK_NANOSLEEP, unix.CLOCK_MONOTONIC, unix.TIMER_ABSTIME,
			uintptr(unsafe.Pointer(&until)), 0, 0, 0)
		if errno == unix.EINTR {
			continue
		}
		if errno != 0 {
			return 0, fmt.Errorf("sleep: %w", errno)
		}
		var now unix.Timespec
		err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now)
		return now.Nano(), err
	}
}
