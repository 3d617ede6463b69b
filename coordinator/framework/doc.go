// Package framework runs plugins that are written against upstream's public interfaces
// (k8s.io/kube-scheduler/framework) unchanged: out-of-tree plugins, as opposed to the built-in plugins that
// tables evaluate column by column.
//
// # A profile and its cycles
//
// A Profile holds the plugins of one profile, each made once, in the order of each extension
// point. It is made from the same sets that a configuration file has (a multi-point, and one set
// for each point), expanded and checked as upstream does, with upstream's texts. Built-in plugins
// take part in that under their names: a registry holds BuiltIn for them, which says at what points
// they are and, where one of them acts on one pod (a binder, say), what runs there.
//
// A Cycle is one attempt to schedule one pod:
//
//	 PreFilter ─ Filter ─ PreScore ─ Score ─ Reserve ─ Permit ─┐    on the scheduling loop
//	     └──────────┴── PostFilter                             │
//	┌──────────────────────────────────────────────────────────┘
//	└ PreBindPreFlight ─ WaitOnPermit ─ PreBind ─ Bind ─ PostBind   off the loop
//	  from Reserve on, whatever fails: Unreserve
//
// Its methods run the out-of-tree plugins of one point: in order, with upstream's rules for Skip, for codes,
// for timeouts and for the texts of errors. What they return is upstream's *Status. A Cycle does
// not choose a node and does not requeue a pod; the loop does.
//
// # Views
//
// NodeInfo, PodInfo, QueuedPodInfo and Resource are what out-of-tree plugins are shown of nodes and pods. A
// Snapshot makes them when they are asked for, from a Source, and keeps them until it is told of a
// change. It answers between Begin and End only, so that an out-of-tree plugin which reads it from a goroutine
// of its own can not meet the loop at work.
//
// # What a Handle gives
//
// Handle is upstream's, with these limits:
//
//   - ClientSet, KubeConfig and SharedInformerFactory are nil where there is no API server, except
//     for what the Environment is given.
//   - SharedDRAManager is nil: dynamic resources are not evaluated.
//   - APIDispatcher and APICacher are nil, as upstream's are while SchedulerAsyncAPICalls is off.
//   - PodGroupManager, and PodGroupStates of a snapshot, know of no pod group: GenericWorkload is off.
//   - SignPod gives no signature: it serves opportunistic batching, which does not take place here.
//   - RunFilterPlugins, RunScorePlugins and the like run the built-in plugins first and then the
//     out-of-tree plugins, if the Environment says how.
//
// Plugins that implement SignPlugin, PlacementGeneratePlugin or PlacementScorePlugin are accepted
// at their points; these are never called, for the feature gates that lead to them are off in 1.36.
//
// # Goroutines
//
// A Profile starts none. Score, Filter over many nodes and parallel PreBind plugins run on
// goroutines that end before the call returns; a pod that waits on Permit has a timer for each
// plugin that it waits for.
//
// Differs from upstream:
//   - durations of single plugins are recorded in every cycle, as those of built-in plugins are;
//   - WaitOnPermit returns an error as soon as its context ends, and so do Filter over many
//     nodes and Score, which upstream lets pass with what there is by then;
//   - a snapshot refuses to be read while no cycle is under way; upstream's can be, at the
//     reader's risk;
//   - plugins are made in the order in which the profile names them, and pods that wait on Permit
//     are listed in the order in which they came; upstream's order is that of a map.
package framework
