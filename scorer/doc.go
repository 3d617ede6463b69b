// Package scorer holds shards of a cluster's nodes as columns and answers queries
// over them: which nodes can take a pod, and which are best. It is pure: no clock, no
// goroutine, no I/O. The coordinator and the workers run the same code on the same
// deltas, and get the same answers.
//
// # Words
//
//	row         one node: its own columns, and what its pods add up to
//	table       the columns of one shard's rows, at a generation
//	generation  the number of the last delta applied
//	delta       one change of one row: set or remove its node, add or remove a pod, change
//	            counters; or a counter's whole column
//	class       a query made ready: the filters and scores of equal pods
//	rule        one plugin's part of a class; each has a file of its own
//	counter     a number that each row has, such as how many of its pods match a selector
//	local part  what a row decides by itself: most filters, and the scores that add up to L
//	group part  what depends on the rest of the cluster: PodTopologySpread, InterPodAffinity,
//	            claims for one pod, and the normalising of scores
//	key         all that the group part looks at of a row
//	group       the rows that the local part lets through, by key
//	domain      a value of a label (a zone), and the nodes that have it
//	pinned sum  a sum of counters over a domain as it was when an answer was asked for
//	measure     a sum of counters over the cluster's rows, feasible or not
//	candidate   a row that a group offers, with its local score
//	result      the groups and measures of a class over any set of tables
//	standing    what becomes of the groups of a result that holds the whole cluster
//	place       where a constraint finds its number: in a domain, or in a row value
//	late        of a filter: it is local, but runs behind one that the group part decides
//	copies      of a class: how many more of its pods rows take, one after the other; a class without them is tied
//	hopeless    of a row: refused for a reason that no pod's leaving changes (unresolvable)
//	balance     how equal the shares of cpu and memory in use are, from 50 to 100
//	irregular   of a row: its amounts of cpu or memory are 0, or too large for the fast loops
//	full        of a row: it has as many pods as it may have
//	offer       of a row, to its group: it becomes a candidate if it comes up to the bar; of a table: to name candidates
//	bar         what a row has to come up to that may be a candidate: score and tie of the worst so far
//	ceiling     a number that a score does not exceed, cheaper than the score
//	seed        a row that was among the best for the class before, and is offered first
//
// # Columns
//
// All columns are as long as the table's capacity, a whole number of 64-row words.
// A row that holds no node is zero in every column.
//
//	               row   0    1    2   …  63 │  64 …
//	live                [bit  bit  bit …     │ bit …]   holds a node
//	unschedulable       [bit  bit  bit …     │ bit …]
//	names, hashes       "n1"  "n2"            …         byName: name → row
//	fixed[r]              r = cpu, memory, ephemeral-storage; scalars: others, by name
//	  .allocatable      [int64 …]  or, where fewer than 1 row in 8 has some,
//	  .requested        [int64 …]  lists: rows [3 17 …], vals [8 4 …]
//	nonZero[cpu,memory] [int64 …]
//	pods, allowedPods   [int64 …]
//	lastDecision        [uint64 …]                      first part of the tie rule
//	derived             what follows from a row's other columns, so that no pass computes it:
//	  .ties             [uint64 …]                      the tie rule as one number
//	  .full, .irregular [bit  bit  bit …     │ bit …]   as many pods as allowed; amounts unlike any node's
//	  .balance          [byte …]                        of the shares of cpu and memory in use
//	  .shares           [float32 …]                     free and used shares of cpu and memory, for a first look
//	  .free             least free cpu and memory of each 64 rows
//	labels.columns[k]   one for each key in use:
//	  .rows             [id   id   0  …]  1, 2 or 4 bytes a row, or lists while rare
//	  .values           id → text, .byValue: text → id, .refs: rows with the value
//	labels.rowKeys      [set  set  set …] which keys the row has, interned
//	taints.ofRow        [list list …]     list of taints, interned: 0 = none
//	  .forbidding, .advising [bit bit …     │ bit …]  the list has a taint that keeps pods away, or one that does not
//	traits.ofRow        [set  set  set …] declared features, resources listed with 0, and what the CSINode says of
//	                                      drivers' limits and migrated plugins, interned
//	images.ofRow        [[id …] …]        and each image has its rows
//	ports               [[ip proto port pods] …] sorted, with their holders
//	counters.columns[c] [int64 …]  or lists, as resources; one for each counter in use
//	devices             nil until a slice comes
//	  .states           [id   0    id …]          a row's devices, and what is in use of them, interned
//	  .rows             row → its own names of pools and slices, its uses
//	  .inventories      slices without names, .contents: what selectors read of a device
//	  .shared           slices and uses of pools that are no single row's: the same in all tables
//	placed.ofRow        [[pod …] …]           most important first, 32 bytes each: number,
//	                                          priority, start, and interned: usage, how
//	                                          counters change where it leaves, budgets
//
// Dictionaries count references and give numbers of dead entries out again, so a
// table under endless churn stays as large as its rows. What numbers an entry got
// shows nowhere: Snapshot and results depend on the rows alone.
//
// A label requirement is first decided for each distinct value of the key (listed
// values are looked up, for Gt and Lt each value is parsed), then mapped over the
// column. One bitmap for each key and value would answer In sooner, but
// kubernetes.io/hostname alone would take nodes² bits.
//
// # Evaluation
//
//	rows := live
//	each filter, in the query's order:    rows &= what it lets through
//	each normalised score:                key column of the rows that have any (rawKeys)
//	8 words of rows at a time:            deal to groups by key, local scores (localScores),
//	                                      those that come up to the group's bar: best k by (local, tie rule)
//
// Filters see 64 rows a word and skip words that are empty. The loops that nearly every class runs
// over all rows are there for AVX-512 too (cpu_memory.go), with the same results. Row evaluates one row
// with the same formulas, for the coordinator to repair what its own placements
// changed since, and to explain.
//
// A bar is the worst of as many candidates as a group may offer, of this table or of those whose answers it is added
// to: no row below it can be a candidate. It begins with the rows that were the best for the class before (seeds).
// Once there is one, scores of cpu and memory have ceilings, of which the columns are half as long; the scores are computed for
// the rows alone whose ceilings come up to the bar. Where local scores are wanted of all rows, as for classes with
// a group part, they are a column.
//
// Differs from upstream: every row that passes is scored, none is sampled; and a row that is
// the only one is scored as any other.
//
// # Groups
//
// What other nodes have to say reaches a row only through its key:
//
//	Raw       the raw scores of TaintToleration, NodeAffinity and DynamicResources
//	Domains   the row's value of each of Query.domain_keys
//	Values    each of Query.row_values: a weighted sum of the row's own counters, for labels
//	          that no two nodes share (hostname), where the domain is the row
//	          or, pinned, one sum over the row's domains of any number of labels
//	Late…     in a diagnosis, which late filter refuses the row, and why
//
// Rows with equal keys share their verdict and the rest of their score, G. So a table
// answers with its groups, each with its best rows by (L, tie rule), and with its share
// of the measures; Merge adds the answers of all tables, in any order; and Settle decides
// tens of groups where upstream decides thousands of nodes:
//
//	tables ──Evaluate──> results ──Merge──> one result ──Settle──> standing
//	                                          ^  Move                 │
//	a placement: Row as it was ──(-1)─────────┤                       v
//	             Row as it is  ──(+1)─────────┘      best of G(group) + L(row)
//
// Candidates go as far as they are exact: every other row of a group comes after the last one. So lists of any lengths merge
// to a list that ends where a row that nobody has named may be the next (MergeAll).
//
// A measure adds up the included rows of the cluster (upstream's node inclusion
// policies), whatever the filters say of them:
//
//	TOTAL   one sum: is any pod using the claim, does any pod match an affinity term
//	DOMAIN  a sum for each domain: a constraint's counts, and of them the smallest
//	VALUE   how many rows have each value: the counts of a constraint whose domains are
//	        the rows, where a count for each row would be as long as the cluster
//
// A constraint finds its number at a place: domain keys and a measure by DOMAIN, or a row
// value. Settle walks Query.filters for each group; then the groups that are feasible, and
// have rows, give the extrema and the numbers of domains that scores are normalised with.
//
// Many labels as domains would make each row a group of its own. Sums that placing a pod of the class
// does not move may come with the question instead (Class.Pin): those of other pods' affinity terms. A row
// value adds them up over the row's labels, so that rows with equal sums are a group, whatever their
// labels. What rests on pinned sums holds until one of them moves (RowTotals.MovesPins).
//
// A filter that the local part decides may stand behind one of the group part in
// Query.filters: it is late. It narrows as all filters do; but the first filter that
// refuses a node gives the reason, so a diagnosis keeps the rows that a late filter
// refuses in groups of their own, until Settle knows whether one before it does. A row
// value that forbids (anti-affinity by hostname) is alike: no candidate has one above 0,
// and only a diagnosis counts such rows.
//
// DynamicResources has a third verdict: a row may fail the pod. It is a late filter wherever it stands: rows that fail the
// pod stay in groups of their own in any answer, with candidates, for a filter of the group part before it may refuse them.
// Where Settle finds one that no filter refuses, no row is chosen.
//
// Keys are told apart by codes: each column of the key is one digit more of a number, in
// a base as small as the rows allow, so that codes stand in the order of keys and a group
// is found in a small table, or by a hash once codes outgrow it.
//
// Without domains, row values and measures a class has no group part but the
// normalising. Its groups are few; with more than MaxGroups keys a result overflows, and
// a second round is asked with the maxima over all groups (Options.Normalise): then the
// whole score is known row by row.
//
// # Copies
//
// Where each row decides by itself how many pods of a class it takes more, one after the other, the copies of all rows are a sum:
// what fits of the scarcest resource, or one where two pods of the class can not share a row. A pass over the columns adds
// them up for all rows and by domain, for any number of labels, and parts add up as results do:
//
//	copies(row) = least of: pods left; free of each resource / what a pod asks of it; 1 with a host port, or its own anti-affinity
//	copies      = sum over the rows that pass all filters;  copies(domain) = the same of its rows
//
// A class is tied where a pod of it changes what other rows take, or more than the least tells (Class.Tied).
//
// # Domains
//
// A class within a domain (Class.Within) is another class: no other row is in a group, counts for a reason, or normalises a score.
// Its measures are of all rows.
//
// # Devices
//
// Rows whose devices look the same in the same state of use have the same verdict. Names of pools and slices differ from
// node to node, and attributes such as serial numbers from device to device: a state has no names of pools and slices,
// and a class is asked with the attributes alone that its claims look at (devices.Demand.Reads).
//
//	row ──> state: inventory, uses, reach ─┐
//	shared slices and uses ────────────────┼──> verdict of the class, remembered by the evaluator
//	class: claims, attributes they read ───┘
//
// Allocate searches once more, by the row's own names. A pod that leaves in a dry run of preemption frees no device, as
// upstream has it: its claim does, later.
//
// # Preemption
//
// A dry run finds the rows that would take a pod if pods of lower priority left, and which
// pods those are (Preempt). It tries the rows whose first refusal is one that pods may be the
// cause of:
//
//	refused by fit, and the filters see nothing else of the row's lower pods
//	    ──> arithmetic on what the row has left:  + all lower pods, − each that returns
//	else
//	    ──> the same for resources; ports, counters and groups are judged again for each
//	        pod that moves them, as if the row's share in the measures were another
//
// The whole cluster's measures come with the question (Preemption.Whole), so that a row's
// answer depends on no other table, and the best of all tables is the best of the
// cluster's: candidates are in a total order (BeforeCandidate).
//
// A pod tells what counters lose where it leaves: what it counts for, what falls beside
// (leaving), and what falls only with the last of the row's pods that have it (shared), as
// an attached volume.
//
// # Errors
//
// A table takes nothing on trust: messages are validated, and a delta that the row does
// not allow (a pod removed that is not there, a node's name in two rows) is refused and
// leaves the table as it was.
package scorer
