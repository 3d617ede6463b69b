package process

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// MemoryMiB is the memory that the process has in RAM now, and the most that it has ever had. Linux only.
func (p *Process) MemoryMiB() (now, peak float64, err error) {
	name := fmt.Sprintf("/proc/%d/status", p.PID())
	text, err := os.ReadFile(name)
	if err != nil {
		return 0, 0, fmt.Errorf("%s: %w", p.Name, err)
	}
	if now, err = mebibytes(string(text), "VmRSS:"); err == nil {
		peak, err = mebibytes(string(text), "VmHWM:")
	}
	if err != nil {
		return 0, 0, fmt.Errorf("%s: %s: %w", p.Name, name, err)
	}
	return now, peak, nil
}

// mebibytes is a field of a process's status, which is in kB.
func mebibytes(status, field string) (float64, error) {
	_, rest, _ := strings.Cut(status, field)
	fields := strings.Fields(rest)
	if len(fields) < 2 || fields[1] != "kB" {
		return 0, fmt.Errorf("no %s in kB", field)
	}
	kib, err := strconv.ParseFloat(fields[0], 64)
	return kib / (1 << 10), err
}

// ticks is how many clock ticks of /proc make a second: the same on all Linux machines.
const ticks = 100

// CPUSeconds is the CPU time of the process so far. Linux only.
func (p *Process) CPUSeconds() (float64, error) {
	s, err := cpuOf(strconv.Itoa(p.PID()))
	if err != nil {
		return 0, fmt.Errorf("%s: %w", p.Name, err)
	}
	return s, nil
}

// OwnCPUSeconds is that of this process.
func OwnCPUSeconds() (float64, error) { return cpuOf("self") }

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

// MachineCPUSeconds is what all of the machine's cores have done so far; 0 where the
// system does not tell.
func MachineCPUSeconds() float64 {
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
