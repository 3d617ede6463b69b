// Package fanout is the coordinator's side of the workers: it gives the shards
// out, keeps the workers' copies up to date, asks them, and merges what they
// answer.
//
// It promises:
//
//   - [Fanout.Evaluate] answers for all shards at the newest generation, and its
//     answer is the same whatever workers there are, whichever of them fail, and
//     however late they answer. Where no worker answers in time, the coordinator
//     evaluates its own tables.
//   - It errs only if its context ends, or with [ErrDeposed] once a worker has
//     seen a leader with a newer term.
//   - Tables are read during Evaluate only, never by what is still under way when
//     it returns. [Fanout.EvaluateAhead] reads them before it returns and in [Ahead.Results]; between the two the caller may change
//     them, and the results are of the tables before.
//   - No message on the wire is larger than 4 MiB. A snapshot is made and sent chunk by chunk,
//     and is nowhere as a whole; only those for standby owners are made at once, one at a time
//     for each. A shard with a node that no message can hold is evaluated here.
//
// # Words
//
//	member    a worker as its registration describes it
//	session   the connection to one member, with what it is known to hold:
//	          the generation of each shard, the definitions of classes
//	owners    the members that hold a shard, first to last (Replicas of them)
//	part      the shards that one member is first for, in one round
//	attempt   one try to have shards evaluated: by a session, or here
//	round     one question to all parts
//	ahead     of a round: its caller changes the tables while workers answer, drawn in ahead.go
//	turn      a round's number, by which workers take the requests of rounds ahead in order
//
// # A round
//
//	          ┌ primary ─────────────┬ answered ───────────────────> merged
//	part ─────┤                      ├ refused shards ─> here ─────> merged
//	          │                      ├ failed ──────┐
//	          │                      └ too slow ────┤ (hedge)
//	          └ backups: each shard's next owner <──┘
//	         (none: here) ├ all answered (the primary has not) ─────> merged
//	                      └ failed, or past the deadline ─> here ───> merged
//
// With [Config].Compare primary and backups are asked at once, and count where they agree; where they do not, or
// one has failed, all of the part is evaluated here.
//
// A worker is too slow when it takes longer than its own pace and that of the own tables let expect, by
// [Config].HedgeAfter and more, or by ten times that where the own tables are next. Where others have its shards and half
// of the workers have answered, it is too slow already after one and a half times what the slowest of these took for the
// same work, or up to 16 times as late where the hedges before were in vain. A worker that gets snapshots may take until the
// deadline.
//
// Each part is asked for its share of the candidates that are wanted, and a little more (offers.go).
//
// A shard counts once in a merge: either its part's primary counts, or the backups do. All that counts is merged when all
// parts are settled. Groups that overflow are asked for again with the cluster's extrema, in a second round at the same
// generations.
//
// A round asks for classes ([Fanout.Evaluate]) or for dry runs of preemption
// ([Fanout.Preempt]), with the same deltas, hedges and fallbacks.
//
// # Who gets which shard
//
// Each shard ranks the members by a hash of the two, weighted by cores (rendezvous
// hashing), and nobody is first for more than its share: a round takes as long as
// the one with the most rows. Who has a shard keeps it unless that is more than a
// share, so that a member that leaves moves its own shards only, and one that joins as
// many as it is to have. A new leader begins anew, as workers do then.
//
// # A session's knowledge of a shard
//
//	           snapshot               deltas answered
//	unknown ─────────────> held at g ─────────────────> held at g + n
//	   ^                       │
//	   └──── NEED_SNAPSHOT ────┘
//
// Deltas are what is sent as long as the log has them and they are up to a quarter of what a
// snapshot would be; more than a request may carry go ahead of it, in requests without classes.
//
// A worker that asks twice for the same snapshot in one attempt has no room for
// the shard: it is refused there for a while and goes to the next in the ranking.
//
// # A session's health
//
//	      failed, late, or out-hedged 3 times
//	well ────────────────────────────────────> sick ──> gone, after a while
//	  ^                                          │           │
//	  └────────────── probe answered ────────────┴───────────┘
//
// Late is who has not answered by the round's deadline, [Config].Deadline and up to 3 seconds more where there is
// much to do, and in whose place the own tables had to answer after ten times HedgeAfter and three times what one of
// their cores takes. Who fails or is late the third time, less a sixteenth for each answer, is in quarantine. To be
// out-hedged by less is no fault, nor is to be late with a snapshot: a session that was gets all others beside
// rounds, as standby owners do, and is asked for what it has; one that can not be loaded stays away for a while.
//
// While a session is sick its shards stay assigned to it and are evaluated by
// their next owners or here: a blip moves no snapshot. Once it is gone, its
// shards, and no others, go to the members next in the ranking.
package fanout
