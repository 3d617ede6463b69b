package worker

import "sync"

// terms knows the newest term that was seen of each cluster.
type terms struct {
	metrics *metrics

	mu     sync.Mutex
	newest map[string]uint64
}

func newTerms(m *metrics) *terms {
	return &terms{metrics: m, newest: make(map[string]uint64)}
}

// admit refuses a term older than the newest and notes a newer one. risen tells
// that it was newer.
func (t *terms) admit(cluster string, term uint64) (risen bool, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	newest := t.newest[cluster]
	if term < newest {
		t.metrics.termsRefused.Inc()
		return false, &oldTermError{cluster: cluster, term: term, newest: newest}
	}
	if term == newest {
		return false, nil
	}
	t.newest[cluster] = term
	t.metrics.term.WithLabelValues(cluster).Set(float64(term))
	return true, nil
}
