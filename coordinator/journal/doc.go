// Package journal keeps what the queue knows of a pending pod beside its object, such as its backoff. So a new leader remembers
// it, and does not try all pending pods at once.
//
// A Writer takes the changes of entries from the loop, and writes them behind it, within a bound on bytes a second.
package journal
