package process

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Quota is a group of processes that the kernel lets run for a part of each period: cgroup v2, or the controller cpu of v1.
type Quota struct {
	dir string
	v2  bool
}

// NewQuota makes a group. The kernel takes no quota below a millisecond. It errs where this process may make none.
func NewQuota(name string, quota, period time.Duration) (*Quota, error) {
	cgroups, e1 := os.ReadFile("/proc/self/cgroup")
	mounts, e2 := os.ReadFile("/proc/self/mountinfo")
	failed := errors.Join(e1, e2)
	for _, q := range quotas(string(cgroups), string(mounts), name) {
		err := q.make(quota, period)
		if err == nil {
			return &q, nil
		}
		failed = errors.Join(failed, err)
	}
	return nil, fmt.Errorf("no group with a quota of CPU: %w", failed)
}

// quotas are the groups to try, by what /proc says of this process and of what is mounted. Of v2 it is one beside that of this
// process, for a group with processes can't hand the CPU on; of v1 one within.
func quotas(cgroups, mounts, name string) (out []Quota) {
	for line := range strings.Lines(cgroups) {
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(fields) < 3 {
			continue
		}
		v2 := fields[0] == "0" && fields[1] == ""
		if !v2 && !slices.Contains(strings.Split(fields[1], ","), "cpu") {
			continue
		}
		mount := mountOf(mounts, v2)
		if mount == "" {
			continue
		}
		own := filepath.Join("/", fields[2])
		if v2 {
			own = filepath.Dir(own)
		}
		out = append(out, Quota{filepath.Join(mount, own, name), v2})
	}
	return out
}

// mountOf is where v2, or the controller cpu of v1, is mounted; empty: nowhere.
func mountOf(mounts string, v2 bool) string {
	for line := range strings.Lines(mounts) {
		about, system, _ := strings.Cut(line, " - ")
		fields, kind := strings.Fields(about), strings.Fields(system)
		if len(fields) < 5 || len(kind) < 3 {
			continue
		}
		if v2 && kind[0] == "cgroup2" || !v2 && kind[0] == "cgroup" && slices.Contains(strings.Split(kind[2], ","), "cpu") {
			return fields[4]
		}
	}
	return ""
}

func (q *Quota) make(quota, period time.Duration) error {
	if err := os.Mkdir(q.dir, 0o755); err != nil {
		return err
	}
	var err error
	if q.v2 {
		err = q.write("cpu.max", fmt.Sprintf("%d %d", quota.Microseconds(), period.Microseconds()))
	} else if err = q.write("cpu.cfs_period_us", fmt.Sprint(period.Microseconds())); err == nil {
		err = q.write("cpu.cfs_quota_us", fmt.Sprint(quota.Microseconds()))
	}
	if err != nil {
		return errors.Join(err, os.Remove(q.dir))
	}
	return nil
}

// write writes a file that the kernel has made.
func (q *Quota) write(file, text string) error {
	f, err := os.OpenFile(filepath.Join(q.dir, file), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

// String names the mechanism.
func (q *Quota) String() string {
	if q.v2 {
		return "cgroup v2, cpu.max"
	}
	return "cgroup v1, cpu.cfs_quota_us"
}

// Add puts a process into the group with all its threads.
func (q *Quota) Add(p *Process) error {
	if err := q.write("cgroup.procs", strconv.Itoa(p.PID())); err != nil {
		return fmt.Errorf("quota of %s: %w", p.Name, err)
	}
	return nil
}

// Throttled is how long the group's processes have been stopped so far because the quota was used.
func (q *Quota) Throttled() (time.Duration, error) {
	name := filepath.Join(q.dir, "cpu.stat")
	text, err := os.ReadFile(name)
	if err != nil {
		return 0, err
	}
	d, err := throttled(string(text))
	if err != nil {
		return 0, fmt.Errorf("%s: %w", name, err)
	}
	return d, nil
}

func throttled(stat string) (time.Duration, error) {
	for line := range strings.Lines(stat) {
		field, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		unit := map[string]time.Duration{"throttled_usec": time.Microsecond, "throttled_time": time.Nanosecond}[field] // v2, v1
		if unit == 0 {
			continue
		}
		n, err := strconv.ParseInt(value, 10, 64)
		return time.Duration(n) * unit, err
	}
	return 0, errors.New("no throttled_usec and no throttled_time")
}

// Close removes the group. Its processes are gone; the kernel may need a moment to see it.
func (q *Quota) Close() error {
	for range 100 {
		if err := os.Remove(q.dir); !errors.Is(err, syscall.EBUSY) {
			return err
		}
		time.Sleep(10 * time.Millisecond) // nobody tells when it has
	}
	return fmt.Errorf("%s: processes are left in it", q.dir)
}
