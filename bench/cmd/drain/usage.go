package main

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/shardsched/shardsched/bench/process"
)

// ticks is how many clock ticks of /proc make a second: the same on all Linux machines.
const ticks = 100

// cpu is the CPU time of processes so far, in seconds.
func cpu(all ...*process.Process) (seconds float64, err error) {
	for _, p := range all {
		s, err := cpuOf(strconv.Itoa(p.PID()))
		if err != nil {
			return 0, fmt.Errorf("%s: %w", p.Name, err)
		}
		seconds += s
	}
	return seconds, nil
}

// cpuOf is that of one process; "self" is this one.
func cpuOf(pid string) (float64, error) {
	text, err := os.ReadFile("/proc/" + pid + "/stat")
	if err != nil {
		return 0, err
	}
	// The name, in parentheses, may have anything in it; the 14th and 15th field are of
	// user and system.
	_, rest, _ := strings.Cut(string(text[bytes.LastIndexByte(text, ')')+1:]), " ")
	fields := strings.Fields(rest)
	if len(fields) < 13 {
		return 0, fmt.Errorf("/proc/%s/stat is %q", pid, text)
	}
	return ticksOf(fields[11:13])
}

func ticksOf(fields []string) (float64, error) {
	sum := 0.0
	for _, f := range fields {
		n, err := strconv.ParseUint(f, 10, 64)
		if err != nil {
			return 0, err
		}
		sum += float64(n)
	}
	return sum / ticks, nil
}

// machineCPU is what all of the machine's cores have done so far, in seconds; 0 where the
// system does not tell.
func machineCPU() float64 {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0
	}
	line, _, _ := strings.Cut(string(text), "\n")
	fields := strings.Fields(line)
	if len(fields) < 8 {
		return 0
	}
	// user, nice, system; then idle and waiting; then interrupts of two kinds
	busy, err := ticksOf([]string{fields[1], fields[2], fields[3], fields[6], fields[7]})
	if err != nil {
		return 0
	}
	return busy
}

// peakMiB is the most memory that the processes have had, each by itself.
func peakMiB(all ...*process.Process) (float64, error) {
	sum := 0.0
	for _, p := range all {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.PID()))
		if err != nil {
			return 0, fmt.Errorf("%s: %w", p.Name, err)
		}
		_, rest, _ := strings.Cut(string(text), "VmHWM:")
		fields := strings.Fields(rest)
		if len(fields) < 2 || fields[1] != "kB" {
			return 0, fmt.Errorf("%s: /proc/%d/status has no VmHWM in kB", p.Name, p.PID())
		}
		kib, err := strconv.ParseFloat(fields[0], 64)
		if err != nil {
			return 0, fmt.Errorf("%s: %w", p.Name, err)
		}
		sum += kib / (1 << 10)
	}
	return sum, nil
}
