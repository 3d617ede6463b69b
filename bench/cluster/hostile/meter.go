package main

import (
	"context"
	"os"
	"sync"
	"time"

	"github.com/shardsched/shardsched/bench/internal/process"
)

// sampleEvery is how often memory is looked at.
const sampleEvery = 200 * time.Millisecond

// meter follows the memory of a process.
type meter struct {
	process *process.Process

	mu   sync.Mutex
	last float64 // MiB
	most float64 // MiB, since take
}

// run looks until the context or the process ends.
func (m *meter) run(ctx context.Context) {
	for sleep(ctx, sampleEvery) && m.process.Running() {
		m.sample()
	}
}

func (m *meter) sample() {
	now, _, err := m.process.MemoryMiB()
	if err != nil {
		return // it has just ended: the figures tell that the leader did not stay
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.last, m.most = now, max(m.most, now)
}

// take returns the last figure, and the most since the call before.
func (m *meter) take() (last, most float64) {
	m.sample()
	m.mu.Lock()
	defer m.mu.Unlock()
	most, m.most = m.most, 0
	return m.last, most
}

// written is how large a file is now; 0: there is none.
func written(file string) float64 {
	info, err := os.Stat(file)
	if err != nil {
		return 0
	}
	return float64(info.Size())
}
