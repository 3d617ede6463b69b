// Package config reads a KubeSchedulerConfiguration file (kubescheduler.config.k8s.io/v1),
// the one that kube-scheduler takes with --config, and makes of it the profiles and the
// settings that the coordinator runs with.
//
//	bytes ──document──> JSON ──decode──> v1 types ──complete──> ──validate──> ──build──> Config
//	           │           (unknown, repeated   (upstream's     (upstream's    (plugins merged,
//	           │            and ill-typed        defaults)       wording)       expanded by point,
//	           │            fields)                                             compile.Profile)
//	           └── the lines, for errors of every later step
//
// Words: a *point* is an extension point (filter, score …). A *set* is what the file
// says of one point: plugins enabled and disabled. *Multi-point* is the set that stands for all
// points, and where upstream's default plugins live.
//
// How a profile's plugins come about, as in upstream:
//
//	defaults − multiPoint.disabled, replaced in place or followed by multiPoint.enabled = the list
//	a point runs (1) what its own set enables and the list has too, in the set's order
//	             (2) the rest of the list that implements the point, but for set.disabled
//	             (3) what only its own set enables
//
// A configuration is written as it was completed (YAML), in upstream's own text; what is written loads to the
// same thing. bench/judge/oracle/configs holds texts, plugins and errors against kube-scheduler's loader.
//
// Every error names the file, the line where one can be told, and the field, and is worded
// as upstream words it. A file gives all its errors of one step at once.
//
// Plugins that upstream has and this version does not evaluate are known here, with their
// arguments: they are accepted, and NotEvaluated names those in use. Fields that are accepted
// and change nothing are named by NoEffect. Nothing is dropped without one or the other.
// Departures names, of both, those by which kube-scheduler decides otherwise.
//
// Older versions are refused, as upstream refuses them. Upgrade makes v1 of them, by which pods are scheduled as before.
//
// Differs from upstream:
//   - a negative weight is refused as such (upstream lets it subtract, or takes it for an
//     overflow, as the order has it);
//   - so are a weight below 0 or above 100 in NodeAffinity's addedAffinity, a resource without a
//     name to score by, and an unknown plugin that no point looks at (upstream crashes);
//   - a filter or score always has its preparation (preFilter, preScore), whatever
//     the file says of those points: upstream fails every pod without it;
//   - NodeResourcesFit's arguments are checked also where no point runs the plugin;
//   - a file with a second document is refused (upstream reads the first and no more), as
//     are more than maxProfiles profiles;
//   - a resource twice in scoringStrategy.resources is refused (upstream counts it twice);
//   - a value in an error is spelt as in the file, and a repeated schedulerName is named
//     (upstream prints its internal types, and {} for the name).
package config
