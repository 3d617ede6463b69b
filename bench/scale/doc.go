// Scale measures what more workers bring, and works out what they would bring where there are more of
// them than this machine has cores for.
//
//	scale [-nodes N] [-workers LIST] [-shards S] [-limit D] [-repetitions N] [-out PREFIX] …
//
//	this process                        processes of their own, one to a core
//	┌────────────────────────────┐      ┌──────────────────┐
//	│ etcd <── registers ────────┼──────┤ shardsched worker │ core n-1
//	│ coordinator ── gRPC ───────┼──┬──>│                   │
//	└────────────────────────────┘  │   └──────────────────┘
//	 all cores                      └──>  … the next one       core n-2
//
// The pods are those of decide's workload distinct: no two are alike, so that each takes a pass over
// all rows, and workers have the most to do.
//
// # What is measured
//
// For each number of workers, in turn and back again for each repetition:
//
//   - deciding: the scheduling loop with its workers, from when all pods come to when they are decided or
//     the limit is over;
//   - the workers alone: rounds that ask as a batch of such pods does, one as soon as the one before is
//     answered and merged, with nothing decided.
//
// CPU is that of each process. The coordinator has no core of its own: with as many workers as cores it
// shares theirs. It decides while workers wait for its next question, and waits while they answer, so that both
// hardly want a core at the same time; but the more workers, the larger is its share of the time, and that
// share no worker takes off it. So the ratio of deciding is below that of the workers alone.
package main
