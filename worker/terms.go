package worker

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/shardsched/shardsched/scorer/scan"
)

// askTimeout bounds how long etcd may take to tell who leads.
const askTimeout = 2 * time.Second

// terms knows the newest term of the cluster that etcd has confirmed.
type terms struct {
	metrics *metrics
	cluster string
	leading func(context.Context) (uint64, error) // Config.Leading
	newest  atomic.Uint64
	// asking is held by the one request that asks who leads.
	asking chan struct{}
}

func newTerms(cfg *Config, m *metrics) *terms {
	return &terms{metrics: m, cluster: cfg.Cluster, leading: cfg.Leading, asking: make(chan struct{}, 1)}
}

// sameRules refuses who computes by other rules. Rules are made of all messages, so that nobody who passes has a field or a
// value to send that this build does not know.
func sameRules(rules uint64) error {
	if rules != scan.Rules() {
		return &otherRulesError{rules}
	}
	return nil
}

// fits refuses who is of another cluster.
func (t *terms) fits(cluster string) error {
	if cluster != t.cluster {
		return invalid(fmt.Errorf("this worker serves the cluster %q", t.cluster), "cluster %q", cluster)
	}
	return nil
}

// admit refuses all terms but the newest and one that leads now, which is the newest from then on. risen
// tells that it was newer. A caller's word is not enough: one that claims too new a term would have the
// leader refused.
func (t *terms) admit(ctx context.Context, term uint64) (risen bool, err error) {
	if known, err := t.known(term); known {
		return false, err
	}
	select {
	case t.asking <- struct{}{}:
		defer func() { <-t.asking }()
	case <-ctx.Done():
		return false, ctx.Err()
	}
	if known, err := t.known(term); known { // whoever asked before has found it out
		return false, err
	}
	if err := t.confirm(ctx, term); err != nil {
		return false, err
	}
	t.newest.Store(term)
	t.metrics.term.WithLabelValues(t.cluster).Set(float64(term))
	return true, nil
}

// known tells whether a term can be admitted, or refused, without asking.
func (t *terms) known(term uint64) (bool, error) {
	newest := t.newest.Load()
	if term < newest {
		return true, t.refuse(term, newest)
	}
	return term == newest, nil
}

// confirm is nil where a term leads.
func (t *terms) confirm(ctx context.Context, term uint64) error {
	if t.leading == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	leads, err := t.leading(ctx)
	if err != nil {
		return &unconfirmedError{term, err}
	}
	if leads != term {
		return t.refuse(term, leads)
	}
	return nil
}

func (t *terms) refuse(term, leads uint64) error {
	t.metrics.termsRefused.Inc()
	return &wrongTermError{cluster: t.cluster, term: term, leads: leads}
}

// LeadingTerm reads from etcd which term leads a cluster: the create revision of the first of the
// contenders' keys; 0: none does.
func LeadingTerm(client *clientv3.Client, cluster string) func(context.Context) (uint64, error) {
	prefix := "/shardsched/" + cluster + "/leader/"
	return func(ctx context.Context) (uint64, error) {
		first, err := client.Get(ctx, prefix, append(clientv3.WithFirstCreate(), clientv3.WithKeysOnly())...)
		if err != nil {
			return 0, fmt.Errorf("read %s: %w", prefix, err)
		}
		if len(first.Kvs) == 0 {
			return 0, nil
		}
		return uint64(first.Kvs[0].CreateRevision), nil
	}
}
