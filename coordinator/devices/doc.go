// Package devices is the coordinator's knowledge of dynamic resources: ResourceSlices, DeviceClasses and ResourceClaims, which
// devices are in use, and what placements have decided of that. It tells the tables what the workers have to know, words what a
// pod's claims ask of nodes, and does what upstream's DynamicResources does before nodes are looked at and after one is chosen.
// Which devices a node has for a pod is the tables' to find (package scorer/devices).
//
// # Words
//
//	slice       a ResourceSlice: devices, or counter sets, of one pool
//	pool        the slices of one driver and pool name
//	local pool  one whose slices name a single node, and that no other node need know of: it is told to that node's row
//	shared pool any other: it is told to all tables
//	claim       a ResourceClaim
//	use         what an allocation takes of a device: the whole device, or a share of it
//	flight      an allocation between the decision and the API: nobody else gets its devices
//	work        what a placement has to do about a pod's claims before the pod is bound
//	extended    extended resources of a pod (example.com/gpu: 2) that a device class is mapped to; the claim for them is made
//	            by PreBind, and is in memory only until then
//	stale claim a claim for extended resources that an attempt before has left behind
//
// # An allocation's states
//
//	        Reserve             PreBind writes it           Settle, or the API tells of it
//	none ------------> flight ---------------------> flight ------------------------------> allocated
//	  ^                  |                                                                     |
//	  |    Unreserve     |                                                                     |
//	  +------------------+<------------------- the API says that the claim has no devices -----+
//
// A claim counts as the API has it, or as PreBind has written it where that is newer: so the echo of a write changes nothing.
// Upstream keeps the API's version beside that, to fall back on, but nothing ever falls back from what was written.
//
// The claim for extended resources may be written before the API has told of it at all. Then its flight goes on until the API
// does, or until its pod is gone.
//
// # Who calls what
//
//	scheduling goroutine                         binding goroutine
//	--------------------                         -----------------
//	Set, Delete       objects of the API; returns what tables and queue are told
//	Problem           a pod is let into the queue
//	Claims            a class is compiled
//	Reserve           -> Work, or nil  --------> Binder.PreBind   writes, waits
//	Unreserve         <- an error  <------------ Binder.Undo      takes back what was written
//	Settle            <- the pod is bound
//	Plan              no node is found  -------> Binder.CarryOut  deallocates a claim, or deletes it
//	Set, Delete  ------- (lock) ---------------> API view         claims whose devices are waited for
//
// A Work is made by the scheduling goroutine, handed to one binding goroutine, and looked at again only when that is done
// with it. Everything else that both touch is the API view, under its lock. Without a place to write to (a simulation),
// Complete stands for PreBind and Settle, and CompletePlan for CarryOut.
//
// # Crashes
//
// Whoever takes over finds in the API one of these, and goes on from there:
//
//	finalizer, no allocation       the claim is allocated anew
//	allocation and reservation     the pod is held to the allocation's nodes; PreBind has nothing left to write
//	claim for extended resources   stale: it is deleted, and the pod tried again
//
// # Bounds
//
// A pod names 64 claims at the most, and what they ask takes 256 KiB at the most. All else that the loop does for a pod or a
// claim is bounded by what the API lets a claim have.
package devices
