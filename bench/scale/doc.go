// Scale measures what more workers bring, and works out what they would bring where there are more of
// them than this machine has cores for.
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
//
// # The model
//
// A simulation of events (part model). The coordinator is one server, and so is each worker and each way of the
// coordinator's network; each does one thing at a time, first come, first served:
//
//	coordinator  asks ──> network ──> worker ──> network ──> coordinator merges ──> … all have answered: it decides
//	   a request             bytes       a request  bytes        a class and a byte        a pod, and the next batch
//	                       + latency     classes × shards, rows, + latency
//	                                     candidates
//
// What each takes is learned from rounds of one worker that differ in nodes, shards, classes and candidates: the
// costs, none of them below 0, of which the relative errors' squares add up to the least. A pod's is what deciding with
// one worker takes beside asking. So deciding with one worker is no test of it; rounds of one are a test of how well
// they add up, and all that is of two workers is foretold. The report has the errors.
//
// It hedges as package fanout does, but has no session fall sick. Shards are given out evenly, and have as many rows
// as hashing gives them.
//
// The coordinator of the model merges on one core. Where it is busy all the time it may in fact do better: the
// product reads answers on as many as there are.
package main
