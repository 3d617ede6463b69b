// Package journal keeps for the next leader what no object tells.
//
//   - A Writer keeps what the queue knows of a pending pod, such as its backoff. So a new leader does not try all pending pods at once.
//   - Gangs keeps where the pods of a pod group go, until all are bound. So a new leader binds the rest to the nodes that the first have
//     left for them.
//   - A History keeps what is remembered of decisions, in a ring. So a new leader can explain them.
//
// Each takes what there is to write from the loop, and writes it behind the loop. The bytes that are written a second have a bound, but for
// those of Gangs, which are fewer than those of the binds.
package journal
