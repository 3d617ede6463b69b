// Package cli is the command tree of shardsched: flags, help, exit codes and
// the client's commands.
//
//	shardsched ─┬─ up ───────────┐
//	            ├─ coordinator   │ run a scheduler: Runs holds a function each,
//	            ├─ worker        │ given an options struct made from the flags
//	            ├─ simulate ─────┘
//	            ├─ capacity        how many more pods fit, by a scheduler of its own
//	            ├─ apply ────────┐
//	            ├─ get           │
//	            ├─ delete        │ talk to a running coordinator over gRPC;
//	            ├─ explain       │ top to an API server, too
//	            ├─ pending       │
//	            ├─ trace         │
//	            ├─ summary       │
//	            ├─ top ──────────┘
//	            ├─ convert         traces as objects; policies and older configurations as configurations
//	            ├─ config check    what a configuration comes to
//	            ├─ snapshot        a cluster as a file
//	            ├─ cel eval        an expression of CELFilter or CELScore, tried
//	            └─ version
//
// A command writes its answer to Streams.Out, and progress, notes and errors to
// Streams.Err, so that a pipe sees the answer alone.
//
// Exit codes: 0 done; 1 the work went wrong, or the input can't be read; 2 the
// command line is wrong; 130 interrupted. Of simulate and config check 2 is an
// answer (not all is placed; kube-scheduler decides otherwise), and 1 is also a
// command line that is wrong.
package cli
