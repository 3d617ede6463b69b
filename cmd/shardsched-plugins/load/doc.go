// Package load is a plugin that scores nodes by how busy they really are.
//
// An agent on each node says so in the annotation load.shardsched.io/cpu-percent. A node scores
// highest where the pod would bring it to the target: below it fuller is better, for that packs
// pods together, and above it emptier is better, for that keeps them from disturbing each other. What
// was placed since the annotation was written counts with its requests, so that a wave of pods does
// not run for the node that was idle a minute ago.
//
// The idea is that of the target load packing plugin of kubernetes-sigs/scheduler-plugins.
package load
