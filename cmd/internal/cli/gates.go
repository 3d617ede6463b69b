package cli

import "github.com/shardsched/shardsched/coordinator"

// honour puts feature gates and the flags of gangs into a scheduler's settings.
func (o CoordinatorOptions) honour(into *coordinator.SchedulerConfig) {
	into.SyncPreemption = !o.Kube.Enabled("SchedulerAsyncPreemption")
	into.GangReservation = o.GangReservation
	into.TopologyPreemption = o.TopologyPreemption
	into.WholeGangs = o.WholeGangs
	into.WaitBackoffOut = !o.Kube.Enabled("SchedulerPopFromBackoffQ")
}
