// Package requeue asks a scheduler on a real API server which change in the cluster has it
// try a waiting pod again, and which has not.
//
// A trial is a cluster, a pod that one plugin refuses, and something that happens. Then the
// pod either goes to a node, is tried again and refused again, or stays where it is. What is
// expected is upstream's registrations and hints (kube-scheduler 1.36), written down once
// more as a user sees them. That they are right is shown by upstream itself: with
// BLACKBOX_SCHEDULER=kube-scheduler its process is tested in the place of ours.
//
// Nothing is timed. Each scheduler counts, under the same names, what it has taken in
// (scheduler_event_handling_duration_seconds_count), what that put where
// (scheduler_queue_incoming_pods_total), and what it tried (scheduler_schedule_attempts_total):
// that a pod was left alone is known when the event counts as taken in and nothing has been
// put anywhere. What waits too long is tried after five minutes without any event; no trial
// takes that long.
package requeue
