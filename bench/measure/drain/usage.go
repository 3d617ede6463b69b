package main

import "github.com/shardsched/shardsched/bench/internal/process"

// cpu is the CPU time of processes so far, in seconds.
func cpu(all ...*process.Process) (seconds float64, err error) {
	for _, p := range all {
		s, err := p.CPUSeconds()
		if err != nil {
			return 0, err
		}
		seconds += s
	}
	return seconds, nil
}

// peakMiB is the most memory that the processes have had, each by itself.
func peakMiB(all ...*process.Process) (float64, error) {
	sum := 0.0
	for _, p := range all {
		_, peak, err := p.MemoryMiB()
		if err != nil {
			return 0, err
		}
		sum += peak
	}
	return sum, nil
}
