// Package bind runs binding cycles: what happens to a placement between the decision and the pod on its node. The scheduling
// loop puts jobs in and goes on; it is told each outcome as it comes.
//
// # The steps
//
//	            Put
//	             │
//	plain? ──────┴────── no: a goroutine of its own
//	  │                            │
//	  │                      1 PreFlight      is there work to do before the pod can be bound?
//	  │                      2 Permit         wait until each Permit plugin allows it
//	  │                      3 PreBind        write volumes and claims of devices; PreBind plugins
//	  │                      4 extender       the pod's extender binds it
//	  v                            │
//	queued <── no plugins ─────────┤
//	  │                            │ plugins
//	  │ groups, side by side       v
//	  v                      5 Bind           Bind plugins; DefaultBinder ──> queued, and back with the outcome
//	binder                         │
//	  │                            │
//	  └───────────┬────────────────┘
//	              v
//	           Report        an error after plugins have run: Unreserve before it; what was written of claims is taken back, too
//	              │
//	         6 PostBind      after a bind, of a job with plugins
//
// Every job goes this one way. A step that a job has no need of does nothing: only the jobs of a profile with plugins compiled
// in have the steps 2, 5 and 6, and only a pod that an extender is interested in has step 4. A plain job has no step but the
// binder, and no goroutine.
//
// # Words
//
//	job         one placement on its way to its bind
//	plain       a job with nothing to be done but its bind by the binder
//	binder      who commits placements: the API server's client, or the store's
//	group       plain jobs that share a call of the binder; a few calls are under way at once
//	outcome     what became of a job: bound, or an error. It is reported once
//	open        a bind is open when the binder can not tell its outcome. It is asked for again: a placement that may have been
//	            committed is never given up
//	called off  a job in its PreBind is ended for the sake of a preemptor, that takes the room
//	in flight   the queue keeps what happens since a pod's attempt began; a pod that waits on Permit is still in flight
//	deposed     another may lead. The binder says so of each bind; before an extender binds the fence is asked
//
// When the context of Run ends, nothing is begun and nothing reported any more. What is queued is dropped: its pods are pending
// where they are kept, and the next leader decides them again.
package bind
