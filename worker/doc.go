// Package worker is the gRPC server that evaluates queries over shards.
//
// It promises:
//
//   - It holds nothing that a coordinator did not send: kill it at any instant
//     and nothing is lost.
//   - It answers at exactly the generations that a request names, or says what
//     it lacks (need_snapshots, need_classes). It never answers from another
//     generation.
//   - It serves one cluster, and in it the term that leads: it takes a term that is new to it only if etcd
//     says so, then refuses every older one with FAILED_PRECONDITION, and forgets the shards that an
//     older leader sent: generations of two leaders do not compare. While etcd is away it goes on
//     with the term that it knows. Within a term a shard never goes back to an earlier generation.
//   - What it answers does not depend on its cores, nor on what it evicts.
//
// # A request
//
//	Evaluate ─ validate ─ term ─ classes ─ turn ─ lock shards ─ deltas ─ evaluate ─ term ─> results
//	              │         │       │                  │           │                  │
//	        INVALID_    FAILED_   need_              need_       need_            FAILED_
//	        ARGUMENT  PRECONDITION classes         snapshots   snapshots        PRECONDITION
//	                  UNAVAILABLE
//
// A request may also ask for dry runs of preemption, over the same shards at the same
// generations.
//
// A shard is locked from its deltas to the end of its evaluation, so that two
// requests for it (a late one, a hedge) take turns. A request locks its shards
// in ascending order. Of the deltas it carries, those that the shard already has
// are skipped: a coordinator that lost an answer sends them again.
//
// A coordinator may send a request before the answer to the one before is back, so that no worker rests. The request names the turn
// that it follows (pb.EvaluateRequest), and waits until a request of that turn or a later one has locked its shards, or has failed;
// or until its own context ends.
//
// # A shard here
//
//	         LoadSnapshot (first chunk … last)
//	absent ───────────────────────────────────> held at (term, generation)
//	  ^                                            │    │ deltas: generation + n
//	  └── evicted, newer term, bad delta ──────────┘ <──┘
//
// Held shards are kept by last use within a budget of bytes, which no request's shards exceed, nor the
// tables that are being made of snapshots; a shard larger than the budget is refused. Compiled classes are kept
// by last use up to a number of them and, for a few list thousands of volumes, up
// to so many bytes.
//
// # A life
//
// [Server.Run] serves, registers in etcd once it listens ([Registration]), and
// when its context ends deregisters first, then finishes what is in flight.
package worker
