// Scale measures what more workers bring, and what a worker that stalls costs.
//
//	scale [-parts LIST] [-nodes N] [-workers LIST] [-shards S] [-limit D] [-repetitions N] [-out PREFIX] …
//
//	this process                        processes of their own, one to a core
//	┌────────────────────────────┐      ┌───────────────────┐
//	│ etcd <── registers ────────┼──────┤ shardsched worker │ the last core
//	│ coordinator ── gRPC ───────┼──┬──>│                   │
//	└────────────────────────────┘  │   └───────────────────┘
//	 all cores                      └──> the next one         the core before it
//
// The pods are those of decide's workload distinct: no two are alike, so that each takes a pass over
// all rows, and workers have the most to do.
//
// # What is measured
//
// For each number of workers, in turn and back again for each repetition (part decide):
//
//   - deciding: the scheduling loop with its workers, from when the pods come to when they are decided or
//     the limit is over; 1,024 pods are decided before;
//   - the workers alone: rounds that ask as a batch of such pods does, one as soon as the one before is
//     answered and merged, with nothing decided.
//
// CPU is that of each process. The coordinator has no core of its own: with as many workers as cores it
// shares theirs. It decides while workers wait for its next question, and waits while they answer, so that both
// hardly want a core at the same time; but the more workers, the larger is its share of the time, and that
// share no worker takes off it. So the ratio of deciding is below that of the workers alone.
//
// Then batches with two workers (part hedge), one when the one before is decided: with one owner of each shard and
// with two, calm, and with one worker after the other stopped (SIGSTOP) for a while, at random.
//
// Of the repetitions those count in which others have used the machine the least, half of them.
package main
