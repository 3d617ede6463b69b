package chaos

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	// beat is how often the machine is asked whether it goes on, stutter how late it may be,
	// and sampleEvery how often it is asked who uses it.
	beat        = 10 * time.Millisecond
	stutter     = 30 * time.Millisecond
	sampleEvery = 200 * time.Millisecond
	// least is the share of the machine that a test counts on.
	least = 0.1
)

// Machine tells how much of a machine a test had: times by the wall are worth no more
// than that.
type Machine struct {
	pids func() []int

	mu      sync.Mutex
	pauses  []halt
	samples []sample
}

// halt is a time in which nothing of this process ran.
type halt struct{ from, to time.Time }

// sample is what was used of all CPUs up to then, in clock ticks.
type sample struct {
	at                    time.Time
	elapsed, idle, tested int64
}

// NewMachine makes one for a test that consists of this process and those that pids names.
func NewMachine(pids func() []int) *Machine { return &Machine{pids: pids} }

// Run watches until ctx ends.
func (m *Machine) Run(ctx context.Context) {
	tick := time.NewTicker(beat)
	defer tick.Stop()
	own := map[int]int64{} // ticks by process, also of those that are gone
	last, sampled := time.Now(), time.Time{}
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		now := time.Now()
		if now.Sub(last) > stutter {
			m.mu.Lock()
			m.pauses = append(m.pauses, halt{last.Add(beat), now})
			m.mu.Unlock()
		}
		last = now
		if now.Sub(sampled) >= sampleEvery {
			sampled = now
			m.sample(now, own)
		}
	}
}

func (m *Machine) sample(now time.Time, own map[int]int64) {
	elapsed, idle, ok := ticksOfAll()
	if !ok {
		return
	}
	s := sample{at: now, elapsed: elapsed, idle: idle}
	for _, pid := range append(m.pids(), os.Getpid()) {
		if ticks, ok := ticksOf(pid); ok {
			own[pid] = ticks
		}
	}
	for _, ticks := range own {
		s.tested += ticks
	}
	m.mu.Lock()
	m.samples = append(m.samples, s)
	m.mu.Unlock()
}

// Had is what the test had of the machine in a time.
type Had struct {
	// Paused is for how long nothing ran.
	Paused time.Duration
	// Share is which part of the CPUs others left to the test, from 0 to 1.
	Share float64
}

func (h Had) String() string {
	return fmt.Sprintf("the machine paused for %v, and others left %.0f%% of it", h.Paused.Round(time.Millisecond), 100*h.Share)
}

// Allow is how long something may take that takes d on a machine of its own.
func (h Had) Allow(d time.Duration) time.Duration {
	return time.Duration(float64(d)/max(h.Share, least)) + h.Paused
}

// Between tells what the test had from one time to another.
func (m *Machine) Between(from, to time.Time) Had {
	m.mu.Lock()
	defer m.mu.Unlock()
	h := Had{Share: 1}
	for _, p := range m.pauses {
		begin, end := p.from, p.to
		if begin.Before(from) {
			begin = from
		}
		if end.After(to) {
			end = to
		}
		h.Paused += max(0, end.Sub(begin))
	}
	var first, last *sample
	for i := range m.samples {
		s := &m.samples[i]
		if !s.at.After(from) || first == nil {
			first = s
		}
		if !s.at.After(to) {
			last = s
		}
	}
	if last != nil && last.elapsed > first.elapsed {
		others := (last.elapsed - first.elapsed) - (last.idle - first.idle) - (last.tested - first.tested)
		h.Share = min(1, 1-float64(others)/float64(last.elapsed-first.elapsed))
	}
	return h
}

// ticksOfAll reads Linux's account of all CPUs together; elsewhere there is none.
func ticksOfAll() (elapsed, idle int64, ok bool) {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, 0, false
	}
	line, _, _ := strings.Cut(string(text), "\n")
	// cpu user nice system idle iowait irq softirq steal, and guests, which are in user.
	fields := strings.Fields(line)
	for i, f := range fields[1:min(len(fields), 9)] {
		n, err := strconv.ParseInt(f, 10, 64)
		if err != nil {
			return 0, 0, false
		}
		elapsed += n
		if i == 3 || i == 4 {
			idle += n
		}
	}
	return elapsed, idle, true
}

// ticksOf reads what a process has used, with those of its children that have ended.
func ticksOf(pid int) (int64, bool) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, false
	}
	// The name, which may be anything, ends with the last parenthesis.
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	if len(fields) < 13 {
		return 0, false
	}
	user, err1 := strconv.ParseInt(fields[11], 10, 64)
	system, err2 := strconv.ParseInt(fields[12], 10, 64)
	return user + system, err1 == nil && err2 == nil
}
