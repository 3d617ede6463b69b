// Package plugins runs plugins that are compiled into shardsched on a real API server, and beside
// them the same ones in kube-scheduler: the calls that a scripted plugin gets for a pod, in their
// order, and what the pod's condition and events say have to be the same (scripted says how
// pods tell it what to do). It also tries the plugins of cmd/shardsched-plugins on both, and follows
// docs/plugins.md to the letter.
//
// It has tests only. Both schedulers run on one API server, each for profiles and a namespace of
// its own.
package plugins
