// Package choice takes an attempt to a row of a node, or to why there is none and what may help. It only reads: what becomes
// of the pod, and all that other pods see of it, is the loop's.
//
//	Try ──> Chooser ──┬─ nobody reviews the pod ──> the engine's best row, by groups
//	                  ├─ reviewers do ──> rows that they take, with their scores ──> the best row
//	                  └─ none is left, an error, or extenders are still asked ──> Ending
//	                                └─ PostFilter plugins ──> Help: victims, or claims that give devices back
//
// What the engine lacks for that is fetched by the loop, in one place for all (Config.Fetch).
//
// # Words
//
//	try        what a choice knows of an attempt
//	reviewer   an out-of-tree plugin or an extender that takes part in a choice
//	ending     how an attempt ends short of a node
//	help       what PostFilter plugins would have done for a pod without a node
package choice
