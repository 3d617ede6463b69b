package main

import (
	"bufio"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"runtime/metrics"
	"runtime/pprof"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// usage is what the process has used so far.
type usage struct {
	at             time.Time
	cpu            time.Duration // in user mode and in the kernel
	bytes, objects uint64        // allocated
}

func readUsage() usage {
	samples := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}, {Name: "/gc/heap/allocs:objects"}}
	metrics.Read(samples)
	var u syscall.Rusage
	// It fails only for arguments that are none.
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return usage{time.Now(), time.Duration(u.Utime.Nano() + u.Stime.Nano()), samples[0].Value.Uint64(), samples[1].Value.Uint64()}
}

// perPod is what was used since another reading, by the pod.
func (u usage) perPod(since usage, pods int) Run {
	n := float64(max(pods, 1))
	micros := func(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e3 / n }
	r := Run{
		Pods: pods, CPUMicros: micros(u.cpu - since.cpu), WallMicros: micros(u.at.Sub(since.at)),
		AllocatedBytes: float64(u.bytes-since.bytes) / n, Allocations: float64(u.objects-since.objects) / n,
	}
	if r.WallMicros > 0 {
		r.PerSecond = 1e6 / r.WallMicros
	}
	return r
}

// heapBytes is what is live on the heap.
func heapBytes() int64 {
	runtime.GC()
	runtime.GC() // the first may leave sweeping to be done
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// resetPeak forgets how large the process has been; where the system can't, peaks are of all that
// was before.
func resetPeak() { _ = os.WriteFile("/proc/self/clear_refs", []byte("5"), 0) }

// peakBytes is how much memory the process has held at the most; 0: the system does not say.
func peakBytes() float64 {
	f, err := os.Open("/proc/self/status")
	if err != nil {
		return 0
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if rest, ok := strings.CutPrefix(lines.Text(), "VmHWM:"); ok {
			kib, _ := strconv.ParseFloat(strings.TrimSpace(strings.TrimSuffix(rest, "kB")), 64)
			return kib * 1024
		}
	}
	return 0
}

// profiled writes a CPU profile of f, and what had been allocated after it.
func profiled(prefix string, f func() error) (err error) {
	if err := os.MkdirAll(filepath.Dir(prefix), 0o755); err != nil {
		return err
	}
	if err := allocations(prefix + ".before.allocs"); err != nil {
		return err
	}
	cpu, err := os.Create(prefix + ".cpu")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, cpu.Close()) }()
	if err := pprof.StartCPUProfile(cpu); err != nil {
		return err
	}
	err = f()
	pprof.StopCPUProfile()
	return errors.Join(err, allocations(prefix+".allocs"))
}

// allocations writes what has been allocated so far, and what of it lives; pprof -base takes one
// from another.
func allocations(name string) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	runtime.GC() // the profile is as of the last one
	return errors.Join(pprof.Lookup("allocs").WriteTo(f, 0), f.Close())
}
