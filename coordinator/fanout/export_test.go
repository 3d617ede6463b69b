package fanout

import "github.com/shardsched/shardsched/scorer/scan"

// Pool evaluates on the own tables.
func (f *Fanout) Pool() *scan.Pool { return f.pool }

// Settle waits for all that Evaluate has left under way.
func (f *Fanout) Settle() { f.running.Wait() }

// Probing is how many sessions a probe is under way to.
func (f *Fanout) Probing() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := 0
	for _, s := range f.sessions {
		s.withHealth(func(h *health) {
			if h.probing {
				n++
			}
		})
	}
	return n
}

// Offers is offers.
func Offers(n, nodes, all int) int { return offers(n, nodes, all) }
