package leader

import (
	"context"
	"errors"
	"sync"
	"time"

	"k8s.io/api/scheduling/v1alpha2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/shardsched/shardsched/coordinator"
	"github.com/shardsched/shardsched/coordinator/lease"
	"github.com/shardsched/shardsched/coordinator/objects"
	"github.com/shardsched/shardsched/coordinator/standalone/store"
)

// podGroupTeller writes the conditions of PodGroups under a term, behind the loop: the last one wins. There are no events without
// Kubernetes; a watch of the PodGroups tells as much.
type podGroupTeller struct {
	coordinator.Silent
	store *store.Store
	fence lease.Fence

	mu      sync.Mutex
	pending map[types.UID]objects.PodGroupCondition
}

const (
	// tellEvery is how often conditions are written, and toldAtOnce how many at the most: whoever makes PodGroups must not fill etcd.
	tellEvery  = 200 * time.Millisecond
	toldAtOnce = 100
)

func newPodGroupTeller(s *store.Store, f lease.Fence) *podGroupTeller {
	return &podGroupTeller{store: s, fence: f, pending: map[types.UID]objects.PodGroupCondition{}}
}

// GroupCondition is part of coordinator.GroupReporter, as is GroupEvent.
func (t *podGroupTeller) GroupCondition(g *v1alpha2.PodGroup, status metav1.ConditionStatus, reason, message string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.pending[g.UID] = objects.PodGroupCondition{PodGroup: g, Status: status, Reason: reason, Message: message}
}

func (t *podGroupTeller) GroupEvent(*v1alpha2.PodGroup, string, string, string, string) {}

// run writes until ctx ends, or the lead is lost. What is left then is the next leader's to find.
func (t *podGroupTeller) run(ctx context.Context) {
	tick := time.NewTicker(tellEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if list := t.take(); t.store.TellPodGroups(ctx, t.fence, list) != nil {
			t.tellEach(ctx, list)
		}
	}
}

// tellEach writes conditions one by one, of which one can't be written: it keeps no other from being told.
func (t *podGroupTeller) tellEach(ctx context.Context, list []objects.PodGroupCondition) {
	for i := range list {
		err := t.store.TellPodGroups(ctx, t.fence, list[i:i+1])
		if errors.Is(err, lease.ErrDeposed) || ctx.Err() != nil {
			return
		}
		if err != nil {
			klog.FromContext(ctx).Error(err, "The condition of a PodGroup is not written", "podGroup", klog.KObj(list[i].PodGroup))
		}
	}
}

// take takes some of what is to be written.
func (t *podGroupTeller) take() (list []objects.PodGroupCondition) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for uid, c := range t.pending {
		if len(list) == toldAtOnce {
			break
		}
		list = append(list, c)
		delete(t.pending, uid)
	}
	return list
}
