// Package submit is a client that does not give up: it applies objects through whichever
// coordinator leads, and keeps account of what was acknowledged.
//
//	Apply ──> the coordinator asked last ──acknowledged──> Ledger
//	             ^      │ NotLeader names another: ask that one
//	             └──────┤ NotLeader, UNAVAILABLE, no answer in time: ask the next
//	                    └ anything else: the caller's error
//
// An Apply that was not answered is made again as it was: applying twice comes to the same.
package submit
