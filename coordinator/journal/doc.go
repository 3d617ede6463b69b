// Package journal keeps for the next leader what no object tells.
//
//   - A Writer keeps what the queue knows of a pending pod, such as its backoff. So a new leader does not try all pending pods at once.
//   - A History keeps what is remembered of decisions, in a ring. So a new leader can explain them.
//
// Each takes what there is to write from the loop, and writes it behind the loop, within a bound of its own on bytes a second.
package journal
