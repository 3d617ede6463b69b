package cli

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// termRegistry gathers what outlives a term together with what belongs to the
// present one: a new term's metrics take the place of the last one's.
type termRegistry struct {
	process *prometheus.Registry

	mu   sync.Mutex
	term *prometheus.Registry
}

func newTermRegistry() *termRegistry { return &termRegistry{process: newRegistry()} }

// begin opens a registry for a term.
func (r *termRegistry) begin(uint64) prometheus.Registerer {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.term = prometheus.NewRegistry()
	return r.term
}

// Gather implements prometheus.Gatherer.
func (r *termRegistry) Gather() ([]*dto.MetricFamily, error) {
	r.mu.Lock()
	all := prometheus.Gatherers{r.process}
	if r.term != nil {
		all = append(all, r.term)
	}
	r.mu.Unlock()
	return all.Gather()
}
