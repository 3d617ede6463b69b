// Package extender is the client of HTTP extenders: servers that an administrator names in
// the configuration's extenders, and that are asked about pods by POSTs of JSON
// (k8s.io/kube-scheduler/extender/v1).
//
// # Words
//
// An extender is asked under its verbs, each of which it may lack: filter (which of these
// nodes will do), prioritize (0 to 10 for each), preempt (which victims to take) and bind
// (bind this pod yourself). It is interested in a pod whose containers name one of its managed
// resources, or in every pod where it manages none. One that is ignorable is asked last, and
// passed over when it fails. One that has a cache of nodes is sent names, any other whole
// objects.
//
//	asked:   pod ──> built-in filters ──> extender 1 ──> extender 2 ──> … ──> scores (all at once)
//	                  rows that pass        fewer           fewer
//
// What an Extender does not know: the scheduling loop, tables, rows. It is safe for use by
// several goroutines. Calls under one verb are bounded, and take their turn in the order in
// which they come; the time that a call waits for its turn is not part of its timeout.
//
// An Extender is a fwk.Extender too, for the plugins that look at Handle.Extenders.
//
// # Departures
//
// Differs from upstream: a node that an extender without a cache returns and that was not among
// those it was asked about is an error, as it is for one with a cache; upstream goes on with it.
// The node's object as the extender returns it is not looked at: upstream's next extenders and
// its scores see that, as a node without pods and without images.
//
// Differs from upstream: an answer has a bound: 64 MiB and twice the question. A victim list
// that is null counts as one without victims, and a victim that is null as one without UID;
// upstream crashes on either. A victim that is listed twice counts once; upstream deletes it twice.
//
// Differs from upstream: a timeout below zero is that of an extender that names none; upstream
// waits for ever. Errors leave out passwords of its address.
package extender
