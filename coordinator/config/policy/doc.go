// Package policy reads the Policy file that kube-scheduler took up to 1.22 (--policy-config-file,
// --policy-configmap, --algorithm-provider) and translates it into a KubeSchedulerConfiguration.
//
//	bytes ──Parse──> Policy ──Translate──> Result ──YAML───> a file, with comments
//	                 (lines kept           │ (every name     └─Config─> *config.Config
//	                  for errors)          │  looked up in
//	          Provider(name) ──────────────┘  Names)
//
// Words: a *predicate* is what filters nodes now, a *priority* what scores them; a predicate is
// *mandatory* if it runs whatever the file says. Each name has a *fate*: it is mapped to plugins, it is
// without effect, or it is refused, always with the reason. docs/policy.md has the table.
//
// What a Policy says by leaving something out is what kube-scheduler made of it: a list that is
// absent stands for the defaults, which differ by version (Options.Version), and one that is
// empty for nothing but the mandatory predicates.
//
// Plugins that are younger than Policy and stand for fields of a pod that did not exist then stay in the
// profile, and so do those that no Policy could name (younger).
//
// Decoding is strict, as kube-scheduler's was from 1.18 on: an unknown field is an error, but for extenders, whose
// fields were read without regard to case, and where the API version of 1.5 and before is still met.
//
// Differs from upstream:
//   - unknown fields of extenders are refused (upstream ignored them);
//   - a Policy without apiVersion is refused (upstream took it, or read nothing of it, as the version had it);
//   - the arguments of a predicate or priority that has a built-in's name count (upstream 1.17 and later ignored them).
package policy
