// Package schedconfig reads a KubeSchedulerConfiguration file and makes the
// profiles that a scheduler runs.
//
// The file is kube-scheduler's own (kubescheduler.config.k8s.io/v1), read as strictly: an
// unknown field is an error with file, line and field, in the arguments of plugins too.
//
// Profiles are merged with the defaults as upstream merges them: per extension point
// first the plugins that the point names and MultiPoint has, in the point's order; then
// the rest of MultiPoint, but for what the point disables; then what the point alone
// names.
//
// What this scheduler does not evaluate yet is not passed over in silence. A
// plugin that the file enables by name, or configures, and that is not evaluated is an
// error; so are extenders. Settings of other parts of kube-scheduler (leaderElection,
// clientConnection, parallelism …) have no effect and are named once.
//
// Differs from upstream: percentageOfNodesToScore has no effect, every node is scored.
package schedconfig
