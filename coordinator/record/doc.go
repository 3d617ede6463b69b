// Package record is a scheduler's flight recorder: what the scheduling loop took in, decided
// and took back, in its own order, so that each decision can be judged afterwards on the exact
// state of the cluster that it was made on.
//
//	loop --Begin, Change, Decision, Bound, TakenBack--> buffer --Run--> file
//	                                                             |
//	                                     Reader <----------------+
//
// The loop never waits: it hands over references to objects that nobody changes any more, and
// Run, on a goroutine of its own, encodes and writes them. Where Run falls behind by more than
// the buffer holds, the record stops, with a log line and a metric. The next Begin, of
// another term, starts it again. A record that has reached its limit stops for good.
//
// # Format
//
// A file is records, each a message shardsched.v1.Record behind its length as a varint:
//
//	begin     a term; all before it is void, the cluster is empty
//	change…   what the term starts with: nodes, pods and all else
//	change    an object that came, changed or went
//	decision  a pod's node, which it is assumed on from then on, with volumes and
//	          claims as they are assumed to be; or why it has none
//	bound     a decision was committed, with claims of devices as they were written
//	taken back  it was not: the pod is off the node
//	released  the pod is off the node, though its bind is still under way
//	nominated a pod's nomination that neither its status nor a decision tells: the journal did, or a gang's commit
//	judgement what a scheduler that only observes would have decided; nothing comes of it
//	end       nothing more; a process that was killed leaves none
//
// Objects are Kubernetes protobuf, as package objects writes them.
//
// # State
//
// Who reads a record has the state at each decision thus: the last change of each object;
// for a pod that a decision gave a node, that node until the decision is taken back, the pod
// is released or deleted, or a change says that it is on a node; for a volume or claim that was assumed,
// that until a change brings another resource version, or taken back tells how it is. Claims of devices are in flight, as
// package devices has it: from the decision to what the message RecordDecision says.
//
// # Any moment
//
// A Tape is a record, of one file or several, that can be looked at as of any of its moments: a Cursor seeks one, and Look tells what
// has changed since the last Look. What is kept of the files are places, no objects: some 100 bytes for each object, 16 for each
// decision, and up to 16 keyframes, so that going back reads a part of the record again and not all of it.
package record
