// Package devices finds devices for the claims of a pod on one node: dynamic resource allocation's allocator. It is
// pure: no clock, no goroutine, no Kubernetes types. The same input gives the same devices in the same order.
//
// # Words
//
//	device       what a driver offers: attributes, capacities, taints
//	content      what selectors, constraints and capacities read of a device; equal contents are one *Content
//	slice        devices or counter sets of one pool, published together
//	pool         the slices of one driver and pool name, at one generation
//	reach        the nodes that a slice or a device can be used from
//	number       a device's place in the Pools of a node, in the order of search
//	use          which devices allocated claims hold: whole, by shares, and how much of their capacities
//	demand       the unallocated claims of a pod, made ready for any number of searches
//	request      what a claim asks for; ordinary, or prioritized: the first alternative that can be had
//	alternative  one way to meet a request; an ordinary request has exactly one
//	constraint   what devices of a claim must have in common, or not
//	counter      an amount that devices of a pool share: each device consumes some of it
//	share        one of many allocations of a device that allows multiple allocations
//	step         the unit of work that a search's budget counts
//	diagnosis    which request no devices are found for, and why: after a search that has found none
//	cause        what keeps a device from a request
//
// # The way of a search
//
//	slices of the node ──┐
//	shared slices ───────┼─Gather─> Pools ─┐
//	reach of the node ───┘                 │
//	allocated claims ─────────────> Use ───┼─Search─> Outcome: allocated │ none │ invalid pools │ fatal
//	claims, classes ─NewDemand──> Demand ──┘
//
// Pools depend on slices and on what the node reaches, and a Demand on claims and classes, so both are made once and
// used often. A Searcher keeps the memory of its searches: one for each goroutine.
//
//	func (s *Searcher) Search(pools *Pools, use *Use, demand *Demand, budget int64) Outcome
//
// Contents are compared as pointers: the caller makes equal ones one. Devices that differ in an attribute that no demand
// looks at (a uuid) are as good as equal, and a table that keeps Content.Only of what demands read (Demand.Reads) has
// few distinct inventories.
//
// An outcome that is fatal ends the pod's cycle, whatever other nodes say. Its text has places for the names of a claim
// and a pool, since pods with other names, and nodes with other pools, may share it.
//
// # Order
//
// Pools go by driver and name, those with binding conditions last; slices by name; devices as listed. Requests go in
// the order of claims; each takes the first device that can be had, and gives it back when what follows fails. The
// devices of one request are combinations: the next one stands behind the one before.
//
// # Budget
//
// The search is exponential at worst. Upstream bounds it by a time limit for each node, and so its answer depends on the
// machine. Here each step counts: a device looked at, a part of the search begun, an evaluation of a selector by its
// cost. Past the budget the outcome is fatal, on any machine after the same step. A step takes about 50 ns.
//
// Where one device fails with all that follows, equal devices are not tried: they would fail, too. This changes no
// outcome, and spares what is exponential in most cases. Constraints by distinct values forbid it: what such a
// constraint remembers depends on the devices that were tried before. So do requests of all devices under a constraint, for
// the devices that they ask for: the first of these that can not be had tells whether the search goes on or ends.
package devices
