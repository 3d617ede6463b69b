package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"strconv"
	"syscall"
	"time"
)

// simulation is one run of simulate.
type simulation struct {
	// Seconds is the whole process, reading the file included.
	Seconds    float64 `json:"seconds"`
	CPUSeconds float64 `json:"cpuSeconds"`
	// PeakMiB is the most memory that it held.
	PeakMiB          float64 `json:"peakMiB"`
	DecidedPerSecond float64 `json:"decidedPerSecond"`
	DecidingSeconds  float64 `json:"decidingSeconds"`
	Bound            int     `json:"bound"`
	Pending          int     `json:"pending"`
}

// summary is what shardsched prints with -o json, as far as it is used here.
type summary struct {
	PodsBound        int     `json:"podsBound"`
	PodsPending      int     `json:"podsPending"`
	DecidingSeconds  float64 `json:"decidingSeconds"`
	DecidedPerSecond float64 `json:"decidedPerSecond"`
}

func (b *traceRun) simulate(ctx context.Context, in *input) (simulation, error) {
	cmd := exec.CommandContext(ctx, b.binary, "simulate", "-f", in.path, "-o", "json", "--workers", strconv.Itoa(b.simulateWorkers))
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	began := time.Now()
	const pends = 2 // the exit code where some pods pend: the summary has them
	if err := cmd.Run(); err != nil && cmd.ProcessState.ExitCode() != pends {
		return simulation{}, fmt.Errorf("simulate: %w\n%s", err, errs.Bytes())
	}
	took := time.Since(began)
	var s summary
	if err := json.Unmarshal(out.Bytes(), &s); err != nil {
		return simulation{}, fmt.Errorf("simulate's summary: %w", err)
	}
	if s.PodsBound+s.PodsPending != len(in.pods) {
		return simulation{}, fmt.Errorf("simulate: %d pods bound and %d pending, want %d together", s.PodsBound, s.PodsPending,
			len(in.pods))
	}
	peak := 0.0
	if usage, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage); ok {
		peak = float64(usage.Maxrss) / 1024
	}
	return simulation{
		Seconds:          took.Seconds(),
		CPUSeconds:       (cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds(),
		PeakMiB:          peak,
		DecidedPerSecond: s.DecidedPerSecond,
		DecidingSeconds:  s.DecidingSeconds,
		Bound:            s.PodsBound,
		Pending:          s.PodsPending,
	}, nil
}
