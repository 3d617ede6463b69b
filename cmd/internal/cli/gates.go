package cli

import "github.com/shardsched/shardsched/coordinator"

// honour puts feature gates and the flags of gangs into a scheduler's settings.
func (o CoordinatorOptions) honour(into *coordinator.SchedulerConfig) {
	into.SyncPreemption = !o.Kube.Enabled("SchedulerAsyncPreemption")
	into.GangReservation = o.GangReservation
	into.Kubelets = !o.Standalone
	into.TopologyPreemption = o.TopologyPreemption
	into.WholeGangs = o.WholeGangs
	into.WaitBackoffOut = !o.Kube.Enabled("SchedulerPopFromBackoffQ")
}

// checkGates refuses flags about pod groups that would mean nothing, for the feature gates that they need are off.
func (o *CoordinatorOptions) checkGates() error {
	g := o.Configuration.podGroups
	for _, x := range []struct {
		flag       string
		given, has bool
		gates      string
	}{
		{"gang-reservation", o.GangReservation, g.Gang, "GenericWorkload and GangScheduling"},
		{"gang-topology-preemption", o.TopologyPreemption, g.Topology && g.Preemption,
			"GenericWorkload, GangScheduling, TopologyAwareWorkloadScheduling and WorkloadAwarePreemption"},
		{"whole-gangs", o.WholeGangs, g.Workload, "GenericWorkload"},
	} {
		if x.given && !x.has {
			return usagef("--%s: it means nothing without --feature-gates of %s", x.flag, x.gates)
		}
	}
	return nil
}
