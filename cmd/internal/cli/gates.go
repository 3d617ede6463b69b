package cli

import "github.com/shardsched/shardsched/coordinator"

// honour puts feature gates and --gang-reservation into a scheduler's settings.
func (o CoordinatorOptions) honour(into *coordinator.SchedulerConfig) {
	into.SyncPreemption = !o.Kube.Enabled("SchedulerAsyncPreemption")
	into.GangReservation = o.GangReservation
	into.WaitBackoffOut = !o.Kube.Enabled("SchedulerPopFromBackoffQ")
}
