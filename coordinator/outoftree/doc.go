// Package outoftree has the plugins that are compiled in beside the built-in ones take part in a term, as their authors wrote them
// for kube-scheduler: on the scheduling loop from PreEnqueue to Permit, and off it afterwards. Package framework runs them;
// this package ties them to the loop's state.
//
//	Config ──New──> Plugins ──Review──> Review: one attempt, a reviewer of the loop
//	                  │  └──ForQueue──> PreEnqueue, order of the queue, events that they wait for
//	                  └── Handle: snapshot, nominations, activation, informers, built-in plugins
//
// # Words
//
//   - An out-of-tree plugin is one that the program's builder has registered. Built-in plugins are those of package rules, which
//     tables evaluate; for out-of-tree plugins they stand in the same profiles, under their names.
//
//   - A review ([Review]) is what the plugins of a profile make of one attempt: the nodes that PreFilter leaves, what Filter says
//     of each node that was shown, and scores.
//
//   - A view is a node, or a pod, as plugins are shown it.
//
// Differs from upstream:
//   - at PreFilter, Filter and Score they come after all built-in plugins, wherever the file has them;
//   - they are made anew when a term begins; while a process stands by there are none, but they were
//     made once as it started, to see whether they can be;
//   - what they tell the nominator, and which pods they activate, counts from the loop's next turn on;
//   - a pod that one of them keeps Pending waits as one that it finds Unschedulable does, and backs off;
//   - at PreFilter, Filter and Score what they take and what the built-in plugins take is measured
//     apart, so that an attempt counts twice in the durations of these points;
//   - one that panics has failed: the attempt ends in an error, and the process goes on;
//   - in metrics, events of resources that only they wait for are all of the resource Other.
package outoftree
