// Scale measures what more workers bring, and what a worker that stalls costs.
//
//	scale [-parts LIST] [-nodes N] [-workers LIST] [-shards S] [-limit D] [-repetitions N] [-out PREFIX] …
//
//	this process                        processes of their own
//	┌────────────────────────────┐      ┌───────────────────┐
//	│ etcd <── registers ────────┼──────┤ shardsched worker │ the last core
//	│ coordinator ── gRPC ───────┼──┬──>│                   │
//	└────────────────────────────┘  │   └───────────────────┘
//	 all cores                      └──> the next one         the core before it
//
// The pods are those of decide's workload distinct: no two are alike, so that each takes a pass over
// all rows, and workers have the most to do. There is a pod on each node.
//
// # Parts
//
// decide: for each number of workers, in turn and back again for each repetition,
//
//   - deciding: the scheduling loop with its workers, from when the pods come to when they are decided or
//     the limit is over;
//   - the workers alone: rounds that ask as a batch of such pods does, one as soon as the one before is
//     answered and merged, with nothing decided.
//
// million: deciding on a million nodes, where the pass over rows is most of what workers do. This process takes 10 GiB at the most, and
// needs a minute or two until the clock runs.
//
// small: deciding with workers that are held to an eighth of a core each (throttle.go), all on the last core. The coordinator has the
// first core, and one thread that computes (GOMAXPROCS). Workers are held once their shards are with them.
//
// hedge: batches with two workers, one when the one before is decided: with one owner of each shard and
// with two, calm, and with one worker after the other stopped (SIGSTOP) for a while, at random.
//
// # How to read it
//
// The clock runs once workers have all shards and 1,024 pods more are decided. CPU is that of each process. But for the part small, the
// coordinator has no core of its own: with as many workers as cores it shares theirs. What it takes of the time no worker takes off it, so
// that the ratio of deciding is below that of the workers alone.
//
// The loop asks workers in any case (-ahead, -classes): left to itself it would have its own tables answer where workers have small
// shares of a core, or share the coordinator's.
//
// All runs of a size have made the same decisions, pod for pod as far as each got: the measurement fails where they differ, and
// leaves the decision logs.
//
// Of the repetitions those count in which others have used the machine the least, half of them.
//
// # Model
//
// Model (model.go) tells what the parts million and small come to with workers that nobody has here. It has five parameters, and its
// error is told for each measured point. It knows nothing of networks, of stalls, and of shards that do not divide evenly.
package main
