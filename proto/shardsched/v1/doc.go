// Package shardschedv1 is the wire contract of shardsched: the messages and
// services of the .proto files beside it, and the rules that a message has to keep.
//
//	selector.proto   taints, tolerations and selectors of nodes
//	devices.proto    devices, what is in use of them, and what claims ask
//	node.proto       rows, and the deltas that change them
//	query.proto      classes compiled to queries
//	worker.proto     coordinator <-> workers: questions, and answers as columns (ResultReader reads them)
//	scheduler.proto  clients <-> coordinator, and the coordinator's records in etcd
//
// # Validate
//
// Everything that comes from outside the process is validated once, where it comes in,
// and trusted inside:
//
//	bytes --Unmarshal--> message --Validate--> trusted
//	  |                     |
//	  not this message      a *FieldError: the path to the field, and what was expected
//	                        "shards[3].deltas[7].set_node.labels[2].key: expected …"
//
// Validate holds what one message can be held to by itself: that what has to be there is
// there, ranges, order where the proto promises one, no duplicates, columns of equal
// length, and sizes. What needs a second message or a table (does the row hold a node,
// does the answer match the request, is the term old) is its reader's to check.
//
// The size bounds lie well above what Kubernetes lets in (63 bytes of a label's value,
// 317 of its key): they keep a broken or hostile peer from taking memory, and judge no
// object. In the same way amounts only have to be 0 or more. How many elements a list has
// is bounded by the size of a gRPC message, 4 MiB.
//
// A message that passes costs no allocation.
package shardschedv1
