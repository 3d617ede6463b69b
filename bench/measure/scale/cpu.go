package main

import (
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// selfCPU is what this process has used so far.
func selfCPU() time.Duration {
	var u syscall.Rusage
	// It fails only for arguments that are none.
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// machineCPU is how long all cores have been busy so far, for anybody; 0: the system does not say.
func machineCPU() time.Duration {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0
	}
	return busyCores(string(text))
}

// busyCores is the time that the first line of /proc/stat counts as neither idle nor waiting, in ticks of 10 ms.
func busyCores(stat string) (busy time.Duration) {
	const idle, waiting, guest = 4, 5, 9 // what guests use is part of user time
	line, _, _ := strings.Cut(stat, "\n")
	for i, field := range strings.Fields(line) {
		if n, err := strconv.ParseInt(field, 10, 64); err == nil && i != idle && i != waiting && i < guest {
			busy += time.Duration(n) * 10 * time.Millisecond
		}
	}
	return busy
}

// others are the cores that everybody but this process and its own kept busy between two readings.
func others(before, after *reading) float64 {
	rest := after.busy - before.busy - (after.self - before.self) - (after.turns - before.turns)
	for i := range before.workers {
		rest -= after.workers[i] - before.workers[i]
	}
	return max(rest.Seconds()/after.at.Sub(before.at).Seconds(), 0)
}
