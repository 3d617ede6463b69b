// Package cli is the command tree of shardsched: flags, help, exit codes and
// the client's commands.
//
//	shardsched ─┬─ up ───────────┐
//	            ├─ coordinator   │ run a scheduler: Runs holds a function each,
//	            ├─ worker        │ given an options struct made from the flags
//	            ├─ simulate ─────┘
//	            ├─ apply ────────┐
//	            ├─ get           │ talk to a running coordinator over gRPC
//	            ├─ delete        │
//	            ├─ explain       │
//	            ├─ summary ──────┘
//	            ├─ convert openb   a trace as Kubernetes objects
//	            └─ version
//
// A command writes its answer to Streams.Out, and progress, notes and errors to
// Streams.Err, so that a pipe sees the answer alone.
//
// Exit codes: 0 done; 1 the work went wrong, or the input can't be read; 2 the
// command line is wrong; 130 interrupted.
package cli
