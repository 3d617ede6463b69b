// Package extenders has the configuration's HTTP extenders review pods behind the scheduling loop, so that a slow extender
// holds up only the pods that it is interested in:
//
//	decide ── rows that pass ──> its turn? ──yes──> asked ──resume──> decide, with the answer
//	             none: refused       └──no──> waits in its lane ──resume──> decide
//
// What is decided with an answer is decided on the tables of then: rows that the extenders were not asked about, or have not
// kept, are left out for this pod.
//
// # Words
//
//   - An extender is a server of package extender, which has the protocol.
//
//   - A review ([Review]) is what the extenders that are interested in a pod make of one attempt for it: the nodes that they
//     keep, their scores, and why they refuse the others. A round is one time that they are asked.
//
//   - A lane ([Lane]) is for the pods that the same extenders are interested in. As many of them are asked about at once as
//     these extenders take calls. The others wait for their turn, in the queue's order.
//
//   - The loop parks an attempt while it waits, for its turn or for an answer, and decides it anew when it is resumed.
//
// Differs from upstream: pods are decided in the order of the answers. Extenders are asked about all nodes that pass, sorted by
// name, and about several pods at once.
//
// The extenders' say in preemption is not here, but it takes its turns in lanes, too.
package extenders
