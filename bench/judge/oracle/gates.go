package oracle

import (
	"fmt"

	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/component-base/featuregate"
	"k8s.io/kubernetes/pkg/features"
)

// Gates are upstream's feature gates of pod groups, each switched on with those before it that it needs.
type Gates struct {
	// Topology is TopologyAwareWorkloadScheduling, Preemption WorkloadAwarePreemption. Sync switches SchedulerAsyncPreemption off, so that
	// victims are deleted before an attempt ends.
	Topology, Preemption, Sync bool
}

// PodGroups switches GenericWorkload and GangScheduling on, and the gates that g names. It holds for all oracles of the
// process that are made until restore is called: upstream's gates are global.
func PodGroups(g Gates) (restore func(), err error) {
	gates := map[featuregate.Feature]bool{
		features.GenericWorkload: true, features.GangScheduling: true,
		features.TopologyAwareWorkloadScheduling: g.Topology, features.WorkloadAwarePreemption: g.Preemption,
		features.SchedulerAsyncPreemption: !g.Sync,
	}
	before, now := map[string]bool{}, map[string]bool{}
	for gate, on := range gates {
		before[string(gate)], now[string(gate)] = utilfeature.DefaultFeatureGate.Enabled(gate), on
	}
	if err := utilfeature.DefaultMutableFeatureGate.SetFromMap(now); err != nil {
		return nil, fmt.Errorf("feature gates of pod groups: %w", err)
	}
	return func() {
		if err := utilfeature.DefaultMutableFeatureGate.SetFromMap(before); err != nil {
			panic(fmt.Sprintf("feature gates of pod groups: %v", err)) // they were so before
		}
	}, nil
}

// groupsOn tells whether the gates of pod groups are on.
func groupsOn() bool { return utilfeature.DefaultFeatureGate.Enabled(features.GenericWorkload) }

func topologyOn() bool {
	return utilfeature.DefaultFeatureGate.Enabled(features.TopologyAwareWorkloadScheduling)
}
func preemptionOn() bool {
	return utilfeature.DefaultFeatureGate.Enabled(features.WorkloadAwarePreemption)
}
