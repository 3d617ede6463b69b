package metrics

import "github.com/prometheus/client_golang/prometheus"

// Kind is what a metric is.
type Kind uint8

// The kinds.
const (
	Counter Kind = iota
	Gauge
	HistogramKind
)

// Definition is one metric.
type Definition struct {
	Name, Help string
	Kind       Kind
	Labels     []string
	Buckets    []float64 // of a histogram
}

func counter(name, help string, labels ...string) Definition {
	return Definition{Name: name, Help: help, Kind: Counter, Labels: labels}
}

func gauge(name, help string, labels ...string) Definition {
	return Definition{Name: name, Help: help, Kind: Gauge, Labels: labels}
}

func histogram(name, help string, start, factor float64, n int, labels ...string) Definition {
	return Definition{Name: name, Help: help, Kind: HistogramKind, Labels: labels, Buckets: prometheus.ExponentialBuckets(start, factor, n)}
}

// Upstream are kube-scheduler's metrics that are served.
//
// Differs from upstream: those of opportunistic batching (batch_attempts_total,
// batch_cache_flushed_total, get_node_hint_duration_seconds,
// store_schedule_results_duration_seconds), and of features behind gates that are off are not: they would have no series.
func Upstream() []Definition {
	return []Definition{
		counter("scheduler_schedule_attempts_total", "Number of attempts to schedule pods, by the result. 'unschedulable' means a pod "+
			"could not be scheduled, while 'error' means an internal scheduler problem.", "result", "profile"),
		histogram("scheduler_scheduling_attempt_duration_seconds",
			"Scheduling attempt latency in seconds (scheduling algorithm + binding)", 0.001, 2, 15, "result", "profile"),
		histogram("scheduler_scheduling_algorithm_duration_seconds", "Scheduling algorithm latency in seconds", 0.001, 2, 15),
		histogram("scheduler_preemption_victims", "Number of selected preemption victims", 1, 2, 7),
		counter("scheduler_preemption_attempts_total", "Total preemption attempts in the cluster till now"),
		histogram("scheduler_preemption_goroutines_duration_seconds", "Duration in seconds for running goroutines for the preemption.",
			0.01, 2, 20, "result"),
		counter("scheduler_preemption_goroutines_execution_total", "Number of preemption goroutines executed.", "result"),
		gauge("scheduler_pending_pods", "Number of pending pods, by the queue type. 'active' means number of pods in activeQ; 'backoff' "+
			"means number of pods in backoffQ; 'unschedulable' means number of pods in unschedulablePods that the scheduler attempted to "+
			"schedule and failed; 'gated' is the number of unschedulable pods that the scheduler never attempted to schedule because "+
			"they are gated.", "queue"),
		gauge("scheduler_inflight_events", "Number of events currently tracked in the scheduling queue.", "event"),
		gauge("scheduler_goroutines", "Number of running goroutines split by the work they do such as binding.", "operation"),
		histogram("scheduler_event_handling_duration_seconds", "Event handling latency in seconds.", 0.0001, 2, 12, "event"),
		histogram("scheduler_pod_scheduling_sli_duration_seconds", "E2e latency for a pod being scheduled, from the time the pod enters "+
			"the scheduling queue and might involve multiple scheduling attempts.", 0.01, 2, 20, "attempts"),
		histogram("scheduler_pod_scheduling_attempts", "Number of attempts to successfully schedule a pod.", 1, 2, 5),
		counter("scheduler_pod_scheduled_after_flush_total", "Number of pods that were successfully scheduled after being flushed from "+
			"unschedulablePods due to timeout. This metric helps detect potential queueing hint misconfigurations or event handling "+
			"issues."),
		histogram("scheduler_framework_extension_point_duration_seconds",
			"Latency for running all plugins of a specific extension point.", 0.0001, 2, 12, "extension_point", "status", "profile"),
		histogram("scheduler_plugin_execution_duration_seconds", "Duration for running a plugin at a specific extension point.", 0.00001,
			1.5, 20, "plugin", "extension_point", "status"),
		counter("scheduler_plugin_evaluation_total", "Number of attempts to schedule pods by each plugin and the extension point "+
			"(available only in PreFilter, Filter, PreScore, and Score).", "plugin", "extension_point", "profile"),
		histogram("scheduler_queueing_hint_execution_duration_seconds", "Duration for running a queueing hint function of a plugin.",
			0.00001, 1.5, 20, "plugin", "event", "hint"),
		counter("scheduler_queue_incoming_pods_total", "Number of pods added to scheduling queues by event and queue type.", "queue",
			"event"),
		histogram("scheduler_permit_wait_duration_seconds", "Duration of waiting on permit.", 0.001, 2, 15, "result"),
		gauge("scheduler_cache_size", "Number of nodes, pods, and assumed (bound) pods in the scheduler cache.", "type"),
		gauge("scheduler_unschedulable_pods", "The number of unschedulable pods broken down by plugin name. A pod will increment the "+
			"gauge for all plugins that caused it to not schedule and so this metric have meaning only when broken down by plugin.",
			"plugin", "profile"),
		counter("scheduler_podgroup_schedule_attempts_total", "Number of attempts to schedule pod group, by the result. 'unschedulable' means a "+
			"pod group could not be scheduled, while 'error' means an internal scheduler problem.", "result", "profile"),
		histogram("scheduler_podgroup_scheduling_attempt_duration_seconds",
			"Pod group scheduling attempt latency in seconds (scheduling algorithm + binding)", 0.001, 2, 15, "result", "profile"),
		histogram("scheduler_podgroup_scheduling_algorithm_duration_seconds", "Pod group scheduling algorithm latency in seconds",
			0.001, 2, 15),
		counter("scheduler_volume_binder_cache_requests_total", "Total number for request volume binding cache", "operation"),
		counter("scheduler_volume_scheduling_stage_error_total", "Volume scheduling stage error count", "operation"),
		counter("scheduler_resourceclaim_creates_total", "Number of ResourceClaims creation requests within scheduler", "status"),
		counter("scheduler_dra_bindingconditions_allocations_total",
			"Number of allocations using devices with BindingConditions, counted per driver per scheduling attempt", "profile", "driver", "status"),
		histogram("scheduler_dra_bindingconditions_wait_duration_seconds",
			"Time in seconds spent waiting for BindingConditions to be satisfied during PreBind.", 0.1, 2, 14, "profile", "driver", "status"),
	}
}

// Own are the loop's metrics that kube-scheduler has not. The packages fanout and store have
// more.
func Own() []Definition {
	return []Definition{
		counter("shardsched_decided_pods_total", "Attempts that were decided: a node, none, or an error."),
		counter("shardsched_bound_pods_total", "Pods whose bind was committed."),
		counter("shardsched_bind_failures_total", "Binds that were refused and taken back."),
		counter("shardsched_kubelet_refused_pods_total",
			"Pods that this leader bound and that their node's kubelet refused, by the reason in their status.", "reason"),
		counter("shardsched_unsettled_answers_total",
			"Classes that the own tables had to answer for, because what workers said of them did not settle."),
		counter("shardsched_unfinished_searches_total",
			"Attempts that were set aside because searching for devices takes many steps: it goes on in slices."),
		counter("shardsched_requeries_total", "Classes asked again within a batch: their candidates ran out, or the reasons were wanted."),
		counter("shardsched_asked_ahead_total", "Classes that workers were asked about before their pods had their turn, by outcome: "+
			"taken, or again, which are asked for a second time.", "outcome"),
		counter("shardsched_ways_total", "Batches that lacked answers about many of their pods' classes, by batches (full, or few pods) and "+
			"by who was asked: workers, or own tables.", "batches", "asked"),
		gauge("shardsched_way_cost_seconds", "Median time of a class that no answer was held of, by batches, where it is measured.", "batches"),
		gauge("shardsched_way_ahead", "How many batches workers are asked about ahead, by batches.", "batches"),
		gauge("shardsched_way_classes", "How many classes without an answer a batch is to have, by batches.", "batches"),
		counter("shardsched_panics_total", "Bugs that pods met: compiling the pod panicked, or evaluating its class did, here or on all "+
			"that were asked, or a queueing hint did, or an object did while it was taken in, or an out-of-tree plugin did, or an "+
			"explanation, a summary or a dump did.", "where"),
		counter("shardsched_pinned_classes_total",
			"Classes that were given pinned sums, because terms of other pods would group their rows by too many labels."),
		counter("shardsched_guest_nodes_total", "Nodes shown to out-of-tree plugins, by profile and extension point.", "profile",
			"extension_point"),
		counter("shardsched_guest_seconds_total", "Time that the scheduling loop waited for out-of-tree plugins to look at nodes, "+
			"in seconds.", "profile", "extension_point"),
		counter("shardsched_repaired_rows_total",
			"Rows that the coordinator judged anew within a batch, because pods were placed on them since the workers answered."),
		counter("shardsched_preemption_dry_runs_total",
			"Dry runs of preemption that the workers were asked for. Preemptors of one class share one as long as nothing else changes."),
		counter("shardsched_preemption_rows_total", "Rows that dry runs of preemption looked at, on workers and on the coordinator."),
		{Name: "shardsched_compile_seconds", Help: "Time that it takes to make a pod's terms known and to compile it, attempt by " +
			"attempt. Above 10 ms the pod waits behind the others.", Kind: HistogramKind,
			Buckets: []float64{
				0.000002, 0.000005, 0.00001, 0.00002, 0.00005, 0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5, 1,
			}},
		{Name: "shardsched_loop_turn_seconds", Help: "Time that a turn of the scheduling loop takes: a part of its inbox, and a batch.",
			Kind: HistogramKind,
			Buckets: []float64{
				0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.003, 0.005, 0.0075, 0.01, 0.015, 0.02, 0.03, 0.04, 0.05, 0.075, 0.1, 0.2, 0.5, 1, 5,
			}},
		histogram("shardsched_batch_pods", "Pods decided in one batch.", 1, 2, 12),
		histogram("shardsched_extender_call_duration_seconds", "Time that calls of an extender take, but for the wait for their turn.",
			0.001, 2, 15, "extender", "verb"),
		counter("shardsched_extender_errors_total",
			"Calls of an extender that failed. Answers that are no answer to their question are not among them.", "extender", "verb"),
		gauge("shardsched_extender_calls_in_flight", "Calls of an extender under way.", "extender", "verb"),
		gauge("shardsched_extender_waiting_pods", "Pods that wait for extenders' answers, or for their turn to have them asked."),
		gauge("shardsched_journal_lag_entries", "Queue entries that are not written to etcd yet."),
		gauge("shardsched_quarantined_objects",
			"Objects that could not be taken in as a whole, by kind: refused by the tables, or met by a bug.", "kind"),
		gauge("shardsched_pod_groups", "Pod groups by state: waiting, gated, unschedulable, preempting, failed, given_up or scheduled.",
			"state"),
		gauge("shardsched_pod_group_deficit_pods", "How many more members unschedulable pod groups need room for, in all."),
		gauge("shardsched_term", "The term of the leader."),
	}
}
