package groups

// Gates are kube-scheduler's feature gates of pod groups. With the zero value there are no pod groups: pods that name one are
// scheduled one by one.
type Gates struct {
	Workload   bool // GenericWorkload: PodGroups are read, and their pods are decided together
	Gang       bool // GangScheduling: minCount counts
	Topology   bool // TopologyAwareWorkloadScheduling
	Preemption bool // WorkloadAwarePreemption
	Claims     bool // DRAWorkloadResourceClaims
}

// All are the gates with all of them on.
func All() Gates {
	return Gates{Workload: true, Gang: true, Topology: true, Preemption: true, Claims: true}
}
