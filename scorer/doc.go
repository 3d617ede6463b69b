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
//	delta       one change of one row: set or remove its node, add or remove a pod
//	class       a query made ready: the filters and scores of equal pods
//	rule        one plugin's part of a class; each has a file of its own
//	group       the feasible rows whose normalised plugins have the same raw scores
//	key         those raw scores
//	candidate   a row that a group offers, with its local score
//	result      the groups of a class over any set of tables
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
//	resources[r]          r = cpu, memory, ephemeral-storage, then scalars
//	  .allocatable      [int64 …]  or, where fewer than 1 row in 8 has some,
//	  .requested        [int64 …]  lists: rows [3 17 …], vals [8 4 …]
//	nonZero[cpu,memory] [int64 …]
//	pods, allowedPods   [int64 …]
//	lastDecision        [uint64 …]                      first part of the tie rule
//	labels.columns[k]   one for each key in use:
//	  .rows             [id   id   0  …]  1, 2 or 4 bytes a row, or lists while rare
//	  .values           id → text, .byValue: text → id, .refs: rows with the value
//	labels.rowKeys      [set  set  set …] which keys the row has, interned
//	taints.ofRow        [list list …]     list of taints, interned: 0 = none
//	traits.ofRow        [set  set  set …] declared features and CSI drivers' limits, interned
//	images.ofRow        [[id …] …]        and each image has its rows
//	ports               [[ip proto port pods] …] sorted, with their holders
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
//	each score:                           key column, or local += weight × column
//	each row left:                        group by key, best k by (local, tie rule)
//
// Filters see 64 rows a word and skip words that are empty. Row evaluates one row
// with the same formulas, for the coordinator to repair what its own placements
// changed since, and to explain.
//
// Only the groups' keys need the rest of the cluster: once all tables' groups are
// merged, Class.GroupScore normalises them with the maxima over all groups. With more
// than MaxGroups keys a result overflows, and a second round is asked with the maxima
// (Options.Normalise): then the whole score is known row by row.
//
// # Errors
//
// A table takes nothing on trust: messages are validated, and a delta that the row does
// not allow (a pod removed that is not there, a node's name in two rows) is refused and
// leaves the table as it was.
package scorer
