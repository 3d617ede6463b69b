package machine

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Machine is what the figures depend on beside the code.
type Machine struct {
	CPU       string  `json:"cpu"`
	Cores     int     `json:"cores"`
	MemoryGiB float64 `json:"memoryGiB"`
	OS        string  `json:"os"`
	Go        string  `json:"go"`
	// Load is the load average of the last minute before the measurement: others'
	// work.
	Load float64 `json:"load"`
	// An fsync of 4 KiB where etcd's data is.
	FsyncP50Seconds float64 `json:"fsyncP50Seconds"`
	FsyncP99Seconds float64 `json:"fsyncP99Seconds"`
}

func (m Machine) String() string {
	return fmt.Sprintf("%d cores of %s, %.0f GiB, %s, %s; load %.1f; fsync p50 %.2f ms, p99 %.2f ms",
		m.Cores, m.CPU, m.MemoryGiB, m.OS, m.Go, m.Load, m.FsyncP50Seconds*1e3, m.FsyncP99Seconds*1e3)
}

// This describes the machine and the disk of dir.
func This(dir string) (Machine, error) {
	m := Machine{CPU: "unknown CPU", Cores: runtime.NumCPU(), OS: runtime.GOOS + "/" + runtime.GOARCH, Go: runtime.Version()}
	if name, ok := procField("/proc/cpuinfo", "model name"); ok {
		m.CPU = name
	}
	if total, ok := procField("/proc/meminfo", "MemTotal"); ok {
		kib, _ := strconv.ParseFloat(strings.TrimSuffix(total, " kB"), 64)
		m.MemoryGiB = kib / (1 << 20)
	}
	if load, err := os.ReadFile("/proc/loadavg"); err == nil {
		m.Load, _ = strconv.ParseFloat(strings.Fields(string(load))[0], 64)
	}
	syncs, err := fsyncs(dir)
	if err != nil {
		return Machine{}, err
	}
	m.FsyncP50Seconds, m.FsyncP99Seconds = syncs[len(syncs)/2].Seconds(), syncs[len(syncs)*99/100].Seconds()
	return m, nil
}

// procField finds a "name : value" line; false where the system has no such file.
func procField(path, name string) (string, bool) {
	f, err := os.Open(path)
	if err != nil {
		return "", false
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if key, value, ok := strings.Cut(lines.Text(), ":"); ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value), true
		}
	}
	return "", false
}

// fsyncs measures appending 4 KiB and waiting for the disk, sorted.
func fsyncs(dir string) ([]time.Duration, error) {
	f, err := os.Create(filepath.Join(dir, "fsync"))
	if err != nil {
		return nil, err
	}
	defer os.Remove(f.Name())
	defer f.Close()
	block, all := make([]byte, 4096), make([]time.Duration, 200)
	for i := range all {
		began := time.Now()
		if _, err := f.Write(block); err != nil {
			return nil, err
		}
		if err := f.Sync(); err != nil {
			return nil, err
		}
		all[i] = time.Since(began)
	}
	slices.Sort(all)
	return all, nil
}

// Commit names the code: the commit, and whether the tree holds more than that.
func Commit(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "git", "describe", "--always", "--dirty", "--abbrev=12").Output()
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
		return "unknown", nil
	}
	if err != nil {
		return "", fmt.Errorf("git describe: %w", err)
	}
	return strings.TrimSpace(string(out)), nil
}
